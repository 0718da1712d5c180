"""fastmos beside JoeyNMT 2.3: training tokens a second and beam search sentences a second, one thread each.

    FASTMOS_DATA=... python benchmarks/side_by_side.py --output out/side_by_side.json --page benchmarks/README.md

JoeyNMT lives in an environment of its own (`--joeynmt-env`), which is made if it is not there. Each contender is a
process with a model in it that trains or translates when told to; only one works at a time, and they take turns in
every round. The training that is measured is also what the translating models have learned. benchmarks/README.md says
what is compared and where the two differ.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from pathlib import Path
from subprocess import PIPE
from typing import Any

from fastmos.data.batches import SentenceBatches
from fastmos.data.tokenized import encode_files
from fastmos.errors import InputError
from fastmos.files import read_lines, write_json, written_whole
from fastmos.measure import Timing
from fastmos.progress import progress
from fastmos.provenance import provenance
from fastmos.tokenizers import WordTokenizer

HERE = Path(__file__).resolve().parent
SPECIAL_TOKENS = 4  # in both toolkits
WARM_UP = 2  # steps of training, not measured
BODIES = {
    "lstm": {"hidden_size": 256, "num_layers": 1, "dropout": 0.2, "learning_rate": 1e-3},
    "transformer": {
        "hidden_size": 256,
        "num_layers": 3,
        "ffn_size": 1024,
        "num_heads": 4,
        "dropout": 0.1,
        "learning_rate": 5e-4,
    },
}
BASE = "JoeyNMT"
SOFTMAX: dict[str, Any] = {"type": "softmax"}
CONTENDERS: dict[str, dict[str, Any]] = {
    BASE: {"script": "with_joeynmt.py", "head": SOFTMAX, "given": False},
    "JoeyNMT, fastmos's batches": {"script": "with_joeynmt.py", "head": SOFTMAX, "given": True},
    "fastmos": {"script": "with_fastmos.py", "head": SOFTMAX, "given": False},
    "fastmos, K = 9": {"script": "with_fastmos.py", "head": {"type": "mos", "mixtures": 9}, "given": False},
    "fastmos, shortlist, K = 9": {
        "script": "with_fastmos.py",
        "head": {"type": "shortlist", "mixtures": 9},
        "given": False,
    },
}


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int = 10  # of each measure
    steps: int = 20  # of training in a round
    tokens: int = 2048  # of a batch, padding included
    lines: int = 128  # translated in a round
    batch: int = 64  # of them at once
    beam: int = 5
    longest: int = 50  # decoding steps of a sentence
    fixed: int = 20  # decoding steps of every sentence where work is made equal
    vocab_size: int = 10_000  # on either side
    pairs: int = 29_000  # of generated text
    seed: int = 1


def main(plan: Plan, bodies: Sequence[str], joeynmt_env: Path, output: Path | None, page: Path | None) -> None:
    """Measure, print a table, and keep the figures in `output` and in the marked place of `page`."""
    pythons = {"with_fastmos.py": Path(sys.executable), "with_joeynmt.py": joeynmt_python(joeynmt_env)}
    with tempfile.TemporaryDirectory() as folder:
        data = prepare(Path(folder), plan)
        figures = {body: compare(body, Path(folder), pythons, plan) for body in bodies}
    report = {"data": data, "plan": asdict(plan), "figures": figures, "provenance": provenance(plan.seed)}
    text = table(report)
    print(text)
    if output is not None:
        write_json(output, report)
    if page is not None:
        fill(page, text)


def joeynmt_python(folder: Path) -> Path:
    """The Python of JoeyNMT's environment, which is made where there is none."""
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"creating {folder} for JoeyNMT (a few minutes, once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", HERE / "joeynmt-requirements.txt"], check=True)
    asked = [python, "-c", "import importlib.metadata as about; print(about.version('joeynmt'))"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if found != "2.3.0":
        raise InputError(
            f"{folder}: holds JoeyNMT {found or '(none)'}, not 2.3.0; remove the folder, and it is made anew"
        )
    return python.absolute()


# ---- data


def prepare(folder: Path, plan: Plan) -> str:
    """Write the text, the words of both vocabularies, and the lines of fastmos's batches; say what the text is."""
    train, test, about = multi30k() if "FASTMOS_DATA" in os.environ else cipher(plan)
    for number, side in enumerate(("de", "en")):
        lines = [pair[number] for pair in train]
        write_lines(folder / f"train.{side}", lines)
        counts = Counter(word for line in lines for word in line.split())
        words = sorted(counts, key=lambda word: (-counts[word], word))[: plan.vocab_size - SPECIAL_TOKENS]
        words += [f"unused-{rank}" for rank in range(len(words), plan.vocab_size - SPECIAL_TOKENS)]
        write_lines(folder / f"words.{side}", words)
    # Longest first, as fastmos groups lines itself: then the batches of both are the same.
    test = sorted(
        random.Random(plan.seed).sample(test, min(plan.lines, len(test))), key=lambda line: -len(line.split())
    )
    write_lines(folder / "test.de", test)
    target, source = (
        encode_files(
            [folder / f"train.{side}"], WordTokenizer(list(read_lines(folder / f"words.{side}"))), folder / "cache"
        )
        for side in ("en", "de")
    )
    batches = SentenceBatches(target, source, max_tokens=plan.tokens, max_length=256, seed=plan.seed)
    (folder / "batches.json").write_text(json.dumps([batch.index.tolist() for batch in batches.epoch(0)]))
    return f"{about}: {len(train):,} pairs to learn from, {len(test):,} lines to translate"


def multi30k() -> tuple[list[tuple[str, str]], list[str], str]:
    """Training pairs and test lines of Multi30k."""
    folder = Path(os.environ["FASTMOS_DATA"]) / "multi30k"
    sides = ([" ".join(line.split()) for line in read_lines(folder / f"train.{side}.gz")] for side in ("de", "en"))
    pairs = [(source, target) for source, target in zip(*sides, strict=True) if source and target]
    test = [" ".join(line.split()) for line in read_lines(folder / "test_2016_flickr.de.gz")]
    return pairs, test, "Multi30k de-en"


def cipher(plan: Plan) -> tuple[list[tuple[str, str]], list[str], str]:
    """A language in which every word has one translation, with Zipf's frequencies and the size of Multi30k."""
    numbers = random.Random(plan.seed)
    words = plan.vocab_size - SPECIAL_TOKENS
    weights = list(accumulate(1 / rank for rank in range(1, words + 1)))

    def line() -> list[int]:
        return numbers.choices(range(words), cum_weights=weights, k=max(3, round(numbers.lognormvariate(2.5, 0.3))))

    pairs = [
        (" ".join(f"w{n}" for n in one), " ".join(f"x{n}" for n in one)) for one in (line() for _ in range(plan.pairs))
    ]
    return pairs, [" ".join(f"w{n}" for n in line()) for _ in range(1_000)], "generated text (word-for-word cipher)"


def write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


# ---- measuring


class Contender:
    """A process with a toolkit in it, which answers commands (see contenders/serve.py)."""

    def __init__(self, python: Path, script: str, spec: dict[str, Any]) -> None:
        words = [python, HERE / "contenders" / script, json.dumps(spec)]
        one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.log = Path(spec["folder"]) / f"{spec['name']}.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                words, stdin=PIPE, stdout=PIPE, stderr=log, text=True, env={**os.environ, **one}
            )
        self._listen()

    def ask(self, command: dict[str, Any]) -> dict[str, float]:
        """The answer to a command, when it is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return self._listen()

    def _listen(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise InputError(f"a contender ended early; it said:\n{self.log.read_text()[-4000:]}")
        answer: dict[str, float] = json.loads(line)
        return answer

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def compare(body: str, folder: Path, pythons: dict[str, Path], plan: Plan) -> dict[str, Any]:
    """For each measure, the answers of each contender, round by round."""
    translate = {"do": "translate", "beam": plan.beam, "batch": plan.batch}
    commands: dict[str, dict[str, Any]] = {
        "training": {"do": "train", "steps": plan.steps},
        "fixed": {**translate, "shortest": plan.fixed, "longest": plan.fixed},
        "free": {**translate, "shortest": 1, "longest": plan.longest},
    }
    with ExitStack() as stack:
        running = {}
        for name, choice in CONTENDERS.items():
            script = choice["script"]
            spec = {
                **BODIES[body],
                **choice,
                "body": body,
                "tokens": plan.tokens,
                "clip_grad_norm": 1.0,
                "seed": plan.seed,
            }
            spec |= {"folder": str(folder), "name": f"{body} {name}"}
            running[name] = stack.enter_context(closing(Contender(pythons[script], script, spec)))
        return {measure: in_turns(running, commands[measure], plan, f"{body}, {measure}") for measure in commands}


def in_turns(
    running: dict[str, Contender], command: dict[str, Any], plan: Plan, title: str
) -> dict[str, list[dict[str, float]]]:
    """Every contender once a round, after one call each that does not count; who begins turns from round to round."""
    training = command["do"] == "train"
    names = [name for name, choice in CONTENDERS.items() if training or not choice["given"]]
    for name in names:
        running[name].ask({**command, "steps": WARM_UP} if training else command)
    answers: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for turn in progress(range(plan.rounds), title, plan.rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            answers[name].append(running[name].ask(command))
    return answers


# ---- telling

COLUMNS = {  # measure: title, what is counted, how it is written
    "training": ("training, target tokens/s", "tokens", ",.0f"),
    "fixed": ("beam {beam}, {fixed} steps a sentence, sentences/s", "lines", ".1f"),
    "free": ("beam {beam}, each stops when it will, sentences/s", "lines", ".1f"),
}
Answers = dict[str, list[dict[str, float]]]  # of a measure, by contender


def table(report: dict[str, Any]) -> str:
    """The figures as Markdown, and where they come from."""
    plan, all_figures = report["plan"], report["figures"]
    titles = [title.format(**plan) for title, _, _ in COLUMNS.values()]
    rows = [f"| | {' | '.join(titles)} |", "|---|" + "---:|" * len(titles)]
    learned = ["| | loss at the end, NLL a token | tokens a translation |", "|---|---:|---:|"]
    for body, figures in all_figures.items():
        for name in CONTENDERS:
            speeds = [speed(figures[measure], name, counted, form) for measure, (_, counted, form) in COLUMNS.items()]
            rows.append(f"| {body}: {name} | {' | '.join(speeds)} |")
            loss = figures["training"][name][-1]["loss"]
            learned.append(f"| {body}: {name} | {loss:.2f} | {length(figures['free'], name)} |")
    about = (
        f"{report['data']}. Medians of {plan['rounds']} rounds; in brackets how many times JoeyNMT's speed in the same "
        "round that is: median, and half the distance between the quartiles."
    )
    source = "`{command}`, {date}, {machine}, {cores} cores, one thread, torch {torch}, JoeyNMT 2.3.0, commit {commit}"
    return "\n".join([*rows, "", about, source.format(**report["provenance"]), "", *learned])


def speed(answers: Answers, name: str, counted: str, form: str) -> str:
    """Units a second, and how many times JoeyNMT's that is."""
    if name not in answers:
        return "-"
    mine, base = (pace(answers[one], counted) for one in (name, BASE))
    text = format(1 / mine.median, form)
    if name == BASE:
        return text
    times = Timing([its / my for its, my in zip(base.seconds, mine.seconds, strict=True)])
    return f"{text} ({times.median:.2f} ± {times.spread:.2f})"


def pace(answers: list[dict[str, float]], counted: str) -> Timing:
    """Seconds a unit."""
    return Timing([answer["seconds"] / answer[counted] for answer in answers])


def length(answers: Answers, name: str) -> str:
    """Tokens of a translation, which is the same in every round."""
    return f"{answers[name][0]['tokens'] / answers[name][0]['lines']:.1f}" if name in answers else "-"


def fill(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    begin, end = "<!-- side_by_side.py writes here -->", "<!-- up to here -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, also_found, after = rest.partition(end)
    if not found or not also_found:
        raise InputError(f"{page}: no place marked {begin} ... {end}; put the two marks in")
    with written_whole(page) as file:
        file.write(f"{before}{begin}\n{text}\n{end}{after}")


def arguments() -> Namespace:
    """The options of the command line: those of the plan, and what `main` takes."""
    parser = ArgumentParser(description=__doc__)
    for field in fields(Plan):
        parser.add_argument(f"--{field.name.replace('_', '-')}", metavar="N", type=int, default=field.default)
    parser.add_argument("--bodies", nargs="+", choices=list(BODIES), default=list(BODIES))
    parser.add_argument("--joeynmt-env", metavar="FOLDER", type=Path, default=Path("out/joeynmt-env"))
    parser.add_argument("--output", metavar="FILE", type=Path)
    parser.add_argument("--page", metavar="FILE", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    plan = Plan(**{field.name: getattr(given, field.name) for field in fields(Plan)})
    main(plan, given.bodies, given.joeynmt_env, given.output, given.page)
