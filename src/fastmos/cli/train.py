"""`fastmos train`, and what is done with a run: translate, evaluate, score, sample, average."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from fastmos.errors import InputError
from fastmos.files import check_output, provenance, read_lines, write_json, written_whole

if TYPE_CHECKING:
    from fastmos.training.run import Evaluation, Run, Translation

LINES_AT_ONCE = 2000  # read, sorted by length, translated, written

USAGE = """usage: fastmos train CONFIG.yaml [--folder RUN] [--section.key value ...]

Train as the YAML file says, in the folder RUN (runs/ and the file's name). An interrupted run goes on.
"""


def train(arguments: list[str]) -> None:
    """Train as a YAML file says; options on the command line come on top of it."""
    from fastmos.cli.parsing import override
    from fastmos.training.config import Config, read_config

    words = list(arguments)
    name = words.pop(0) if words and not words[0].startswith("-") else ""
    folder = take_folder(words)
    if {"-h", "--help"} & set(words):
        print(USAGE)
        override(read_config(Path(name)) if name else Config(), ["--help"])
    if not name:
        raise InputError("fastmos train needs a YAML file first, as in fastmos train configs/sample.yaml")
    path = Path(name)
    config = override(read_config(path), words)
    from fastmos.training import experiment

    experiment.train(config, path.parent, Path(folder) if folder else Path("runs", path.stem))


def take_folder(words: list[str]) -> str:
    """Take `--folder RUN` or `--folder=RUN` out of the words; the other options are the config's."""
    for place, word in enumerate(words):
        if word.startswith("--folder="):
            return words.pop(place).removeprefix("--folder=")
        if word == "--folder":
            if place + 1 == len(words):
                raise InputError("--folder needs the name of a folder")
            del words[place]
            return words.pop(place)
    return ""


def translate(
    run: Positional[Path],
    files: Positional[tuple[Path, ...]] = (),
    beam: int | None = None,
    nbest: int = 1,
    scores: bool = False,
    overlong: Literal["cut", "refuse"] = "cut",
) -> None:
    """Translate lines of files, of standard input, or typed at a prompt.

    Args:
        run: folder that fastmos train made.
        files: text, plain or gzipped; standard input if none is given.
        beam: hypotheses kept; what the run's config says if not given.
        nbest: print so many translations of each line, each with the line's number and a tab before it.
        scores: put log-probability and score, with tabs, before each translation.
        overlong: cut lines that are longer than the model was trained on, or refuse them.
    """
    model = load_run(run)
    if model.source is None:
        other = (
            "captioner translates nothing; see fastmos caption"
            if model.origin
            else "language model translates nothing; see fastmos score"
        )
        raise InputError(f"{run}: a {other}")
    lines: Iterable[str] = chain.from_iterable(read_lines(file) for file in files or [Path("-")])
    size = LINES_AT_ONCE
    if not files and sys.stdin.isatty():
        lines, size = _typed(), 1
    number = 0
    stream = iter(lines)
    while chunk := list(islice(stream, size)):
        for best in model.translate(chunk, beam=beam, nbest=nbest, overlong=overlong):
            number += 1
            for translation in best:
                print(_row(translation, number if nbest > 1 else None, scores))
        sys.stdout.flush()


def _row(translation: "Translation", number: int | None, scores: bool) -> str:
    columns = [] if number is None else [str(number)]
    if scores:
        columns += [f"{translation.log_prob:.4f}", f"{translation.score:.4f}"]
    return "\t".join([*columns, translation.text])


def _typed() -> Iterator[str]:
    """Lines typed at a prompt, until Ctrl-D."""
    print("type a sentence (Ctrl-D ends)", file=sys.stderr)
    while True:
        try:
            yield input("> ")
        except EOFError:
            print(file=sys.stderr)  # the shell's own prompt begins a line
            return


def evaluate(
    run: Positional[Path],
    source: Path | None = None,
    reference: Path | None = None,
    split: Literal["valid", "test"] = "test",
    beam: int | None = None,
    language: str | None = None,
    output: Path | None = None,
    json_output: Annotated[bool, arg(name="json")] = False,
) -> None:
    """BLEU and chrF with signatures (captions: BLEU, METEOR, ROUGE-L, CIDEr), nats per word, speed.

    Args:
        run: folder that fastmos train made.
        source: text to translate; with reference left out too, a split of the run's config.
        reference: its translation; for a language model, the text.
        split: which split that is.
        beam: hypotheses kept; what the run's config says if not given.
        language: of text that Moses has tokenised, as de: adds BLEU of the text put together again (13a), and of tokens
            with compounds split, as papers of 2017 and 2018 report it for WMT.
        output: write the translations to this file; captions as JSON in COCO's form of results.
        json_output: print everything as JSON, with what made it.
    """
    from fastmos.training.captioning import CaptionEvaluation

    check_output(output, [source, reference])
    model = load_run(run)
    found: Evaluation | CaptionEvaluation
    if model.origin is not None:
        if source is not None or reference is not None or language is not None:
            raise InputError(
                f"{run}: captions the images of its config; leave out --source, --reference and --language"
            )
        found = model.evaluate_captions(split, beam=beam)
    else:
        if model.source is None and (output is not None or language is not None):
            raise InputError(f"{run}: a language model translates nothing; leave out --output and --language")
        found = model.evaluate(*_texts(model, source, reference, split), beam=beam, language=language)
    record = {**found.record(), "beam": model.config.search.beam if beam is None else beam}
    if json_output:
        about = provenance(model.config.training.seed)
        print(json.dumps({**record, "run": str(run), "about": about}, ensure_ascii=False, indent=1))
    else:
        print(found.summary())
    if output is not None and isinstance(found, CaptionEvaluation):
        write_json(output, found.coco_results())
    elif output is not None and found.translations is not None:
        with written_whole(output) as file:
            file.writelines(f"{line}\n" for line in found.translations)


def _texts(model: "Run", source: Path | None, reference: Path | None, split: str) -> tuple[list[str] | None, list[str]]:
    """The lines of the files given, or of a split of the config."""
    from fastmos.training.config import data_path

    if source is None and reference is None:
        texts = getattr(model.config.data, split)
        if not texts.target:
            raise InputError(f"the run's config names no {split} text; give --source and --reference")
        source = data_path(texts.source, model.base) if texts.source else None
        reference = data_path(texts.target, model.base)
    if reference is None:
        raise InputError("evaluation needs --reference, the text to compare with")
    return None if source is None else list(read_lines(source)), list(read_lines(reference))


def score(run: Positional[Path], target: Path, source: Path | None = None) -> None:
    """Log-probability of given translations, or of text for a language model: one number a line.

    Args:
        run: folder that fastmos train made.
        target: the lines to score.
        source: what they translate; a language model has none.
    """
    model = load_run(run)
    targets = list(read_lines(target))
    for value in model.score(None if source is None else list(read_lines(source)), targets):
        print(f"{value:.6f}")


def sample(
    run: Positional[Path], lines: int = 5, temperature: float = 1.0, top_p: float | None = None, seed: int = 0
) -> None:
    """Lines that a language model makes up.

    Args:
        run: folder that fastmos train made.
        lines: how many.
        temperature: below 1, likelier lines.
        top_p: at each step, draw from the likeliest codes that have this probability together.
        seed: the same seed makes up the same lines.
    """
    for line in load_run(run).sample(lines, temperature=temperature, top_p=top_p, seed=seed):
        print(line)


def average(run: Positional[Path], last: int = 0, best: int = 0, output: Path | None = None) -> None:
    """Average checkpoints of a run into a new run folder.

    Args:
        run: folder that fastmos train made.
        last: take the last so many checkpoints, or
        best: the best so many.
        output: the new folder; RUN-average if not given.
    """
    if (last > 0) == (best > 0):
        raise InputError("give one of --last and --best, as in fastmos average RUN --last 5")
    from fastmos.training import run as runs

    output = output or run.with_name(f"{run.name}-average")
    steps = runs.average(run, output, last=last, best=best)
    print(f"{output}: mean of the checkpoints at steps {', '.join(f'{step:,}' for step in steps)}")


def load_run(run: Path) -> "Run":
    """The run, with warnings shown as sentences."""
    from fastmos.training.run import load

    def show(message: Warning | str, *rest: Any) -> None:
        print(f"fastmos: warning: {message}", file=sys.stderr)

    warnings.showwarning = show  # type: ignore[assignment]  # of the arguments only the message is used
    return load(run)
