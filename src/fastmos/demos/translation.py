"""The toolkit at work: one softmax and a mixture of nine learn to translate the embedded sample, side by side.

Each is trained by `fastmos train` in its own process with one thread, so an interrupted demo resumes. All that is shown
is kept in results.json, and a finished demo shows it again without any work. The page report.html is made from the
results in the folder `report`.
"""

import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from fastmos.config import Config, parse_config, write_config
from fastmos.errors import InputError, printable
from fastmos.files import read_json, read_lines, write_json, written_whole
from fastmos.metrics.likelihood import perplexity
from fastmos.processes import child_command, child_environment
from fastmos.provenance import provenance
from fastmos.report.page import write_report
from fastmos.reproduce.cost import step_costs
from fastmos.reproduce.evaluation import run_record
from fastmos.reproduce.records import header
from fastmos.reproduce.scales import SCALES
from fastmos.samples.grammar import write_sample

NAMES = {"softmax": "one softmax", "mixture": "shortlist mixture, {mixtures}"}
SPLITS = ("train", "valid", "test")
SCALE = SCALES["sample"]


@dataclass(frozen=True)
class Size:
    """How large a demo is; the full one takes two free cores a few minutes."""

    pairs: int = 20_000  # to learn from
    held_out: int = 500  # pairs for validation, and as many for the test
    epochs: int = 5
    hidden_size: int = 128
    mixtures: int = 9
    vocab_size: int = 1500  # of BPE, for either language
    seed: int = 1


def configs(size: Size) -> dict[str, Config]:
    """The two experiments, which differ in the head only; data paths are relative to the demo's folder."""
    shared = {
        "data": {split: {"source": f"data/{split}.de", "target": f"data/{split}.en"} for split in SPLITS},
        "tokenizers": {side: {"type": "bpe", "vocab_size": size.vocab_size} for side in ("source", "target")},
        "model": {"type": "attention-lstm", "hidden_size": size.hidden_size, "dropout": 0.1, "init_range": 0.2},
        "training": {
            "optimizer": "adam",
            "learning_rate": 0.003,
            "lr_schedule": "plateau",
            "batch_size": 64,
            "max_epochs": size.epochs,
            "log_every": 100,
            "seed": size.seed,
        },
        "search": {"beam_size": 5, "max_length": 60},
    }
    heads = {
        "softmax": {"type": "softmax"},
        "mixture": {"type": "shortlist", "mixtures": size.mixtures, "near_softmax": True},
    }
    return {name: parse_config({**shared, "head": head}, name) for name, head in heads.items()}


def demo(folder: Path, size: Size = Size()) -> None:  # noqa: B008 (frozen)
    """Train both, compare them, and print the outcome; what is done already is not done again."""
    results = folder / "results.json"
    record = read_json(results) if results.is_file() else None
    if record is None or record["size"] != asdict(size) or not all(_trained(folder, name) for name in NAMES):
        record = _work(folder, size)
        write_json(results, record)
    else:
        print(f"{folder}: was made on {record['about']['date']}; delete it to train again")
    write_report([folder / "report"], folder / "report.html")
    _show(folder, record)


def _trained(folder: Path, name: str) -> bool:
    return (folder / name / "model.safetensors").is_file() and (folder / "report" / f"{name}.json").is_file()


def _work(folder: Path, size: Size) -> dict[str, Any]:
    print(f"""
Two translation models that differ in the output layer, one softmax and a mixture of {size.mixtures}, learn German to
English from {size.pairs:,} generated sentence pairs, side by side: a few minutes on two free cores. You may interrupt
it; the same command resumes.
""")
    _write_data(folder, size)
    for name, config in configs(size).items():
        with written_whole(folder / f"{name}.yaml") as file:
            file.write(write_config(config))
    _train_side_by_side(folder)
    records = {}
    for name, label in NAMES.items():
        print(f"{name}: translating the validation and test texts", file=sys.stderr, flush=True)
        records[name] = run_record(folder / name, label.format(**asdict(size)), SCALE)
    print("measuring a training step of each", file=sys.stderr, flush=True)
    costs = step_costs({name: (folder / name, config) for name, config in configs(size).items()}, rounds=5)
    runs = {name: records[name]["scores"]["test"] | costs[name] for name in NAMES}
    translations = {name: records[name]["outputs"]["test"] for name in NAMES}
    texts = {"source": _lines(folder, "test.de"), "reference": _lines(folder, "test.en"), **translations}
    _write_results(folder / "report", records, costs, texts)
    return {
        "size": asdict(size),
        "runs": runs,
        "examples": [{name: lines[row] for name, lines in texts.items()} for row in range(min(5, size.held_out))],
        "about": provenance(size.seed),
    }


def _write_data(folder: Path, size: Size) -> None:
    write_sample(folder / "data", pairs=size.pairs, valid=size.held_out, test=size.held_out)


def _lines(folder: Path, name: str) -> list[str]:
    return list(read_lines(folder / "data" / name))


# ---- training


def _train_side_by_side(folder: Path) -> None:
    """Run `fastmos train` for both at once, a thread each, and pass on what they print."""
    children = {name: _start(folder, name) for name in NAMES}
    listeners = [threading.Thread(target=_pass_on, args=(name, child.stderr)) for name, child in children.items()]
    try:
        for listener in listeners:
            listener.start()
        exit_codes = {name: child.wait() for name, child in children.items()}
    except BaseException:
        for child in children.values():
            child.terminate()  # it saves what it has
        for child in children.values():
            child.wait()
        raise
    finally:
        for listener in listeners:
            listener.join()
    for name, code in exit_codes.items():
        if code:
            raise InputError(f"training {name} ended with exit code {code}; its messages are above")


def _start(folder: Path, name: str) -> subprocess.Popen[str]:
    words = ["train", str(folder / f"{name}.yaml"), "--folder", str(folder / name)]
    print(f"fastmos {' '.join(words)}", file=sys.stderr, flush=True)
    return subprocess.Popen(
        child_command("-m", "fastmos", *words),
        env={**child_environment(), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        encoding="utf-8",
        process_group=0,  # Ctrl-C is for the demo, which signals its children once: a second signal would stop saving
    )


def _pass_on(name: str, lines: IO[str]) -> None:
    for line in lines:
        sys.stderr.write(f"{name:>8}: {printable(line.rstrip())}\n")  # at once: two threads write
        sys.stderr.flush()


# ---- results


def _write_results(
    folder: Path, records: Mapping[str, Any], costs: Mapping[str, Any], texts: Mapping[str, list[str]]
) -> None:
    """What the report is made from: a file for each run, with the texts since they are ours, and one for the costs."""
    for name, run in records.items():
        beside = {side: texts[side][: len(run["outputs"]["test"])] for side in ("source", "reference")}
        write_json(folder / f"{name}.json", {**run, "outputs": {**run["outputs"], **beside}})
    training = records["softmax"]["config"]["training"]
    rows = [{"name": run["name"], **costs[name]} for name, run in records.items()]
    cost = {**header("cost", SCALE.name, training["seed"]), "batch": {"sentences": training["batch_size"]}}
    write_json(folder / "cost.json", {**cost, "rows": rows})


# ---- showing


def _show(folder: Path, record: Mapping[str, Any]) -> None:
    print()
    for example in record["examples"]:
        for name, text in example.items():
            print(f"{name:>9}  {text}")
        print()
    print(table(record))
    size, about = record["size"], record["about"]
    made = f"{about['date'][:10]}, {about['machine']}, seed {about['seed']}, commit {about['commit'] or 'unknown'}"
    print(f"""
BLEU of {size["held_out"]:,} test pairs ({record["runs"]["mixture"]["bleu_signature"]}).
NLL per word and perplexity: lower is better.
ms and MB of a training step: loss and gradients of 64 sentences, one thread, by the plain formula and by the fused
loss; memory is what a step takes beside parameters and their gradients.
{made}.

Figures and more translations: {folder / "report.html"}

Now type German sentences of that world:

    fastmos translate {folder / "mixture"}

Or see in a browser which softmax says each word, with both models side by side:

    fastmos serve {folder / "softmax"} {folder / "mixture"} --examples""")


def table(record: Mapping[str, Any]) -> str:
    """The figures of both, a row each."""
    groups = f"{'':30}{'':>7}{'':>19}{'ms/step':>15}{'MB/step':>15}"
    lines = [groups, f"{'':30}{'BLEU':>7}{'NLL':>8}{'perplexity':>11}" + f"{'plain':>9}{'fused':>6}" * 2]
    for name, label in NAMES.items():
        found = record["runs"][name]
        nll = found["nll_per_word"]
        costs = (f"{found['plain'][what]:9.0f}{found['fused'][what]:6.0f}" for what in ("ms", "megabytes"))
        label = label.format(**record["size"])
        lines.append(f"{label:30}{found['bleu']:7.1f}{nll:8.3f}{perplexity(nll):11.2f}{''.join(costs)}")
    return "\n".join(lines)
