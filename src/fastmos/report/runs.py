"""Run folders as text and as results for the page. Only their logs and outputs are read; no model is loaded."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fastmos.config import TASKS, Config, data_path, load_class
from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.metrics.likelihood import perplexity
from fastmos.reproduce.evaluation import OUTPUTS, run_length, validations
from fastmos.reproduce.records import FORMAT, read_log
from fastmos.reproduce.summary import aligned
from fastmos.run_folder import RunFolder
from fastmos.tasks import Task
from fastmos.tasks.base import Texts

# Metric of early stopping -> how scores name it, and how it is printed.
SHOWN = {
    "bleu": {"bleu": ("BLEU {:.2f}", 1), "bleu_4": ("BLEU-4 {:.2f}", 100)},
    "nll": {"nll_per_word": ("NLL per word {:.4f}", 1)},
    "cider": {"cider": ("CIDEr {:.2f}", 100)},
}


def run_folders(path: Path) -> list[Path]:
    """The run folders in a folder, itself included."""
    return sorted(file.parent for file in path.rglob("run.json")) if path.is_dir() else []


def list_runs(folder: Path) -> str:
    """A table of the run folders in a folder: task, head, best validation, steps, date."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the folder that holds run folders")
    found = run_folders(folder)
    if not found:
        raise InputError(f"{folder}: holds no run folders; fastmos train makes them")
    rows = [["run", "task", "head", "best", "NLL per word", "perplexity", "steps", "date"]]
    for path in found:
        name = path.relative_to(folder).as_posix() if path != folder else path.name
        try:
            record = run_record_of(path, name)
        except InputError as error:
            rows.append([name, str(error).removeprefix(f"{path}: "), "", "", "", "", "", ""])
            continue
        best = record["scores"].get("valid", {})
        nll = best.get("nll_per_word")
        figures = ["", ""] if nll is None else [f"{nll:.4f}", f"{perplexity(nll):,.2f}"]
        config, date = record["config"], str(record["provenance"].get("date", ""))[:10]
        head = head_label(config["head"])
        rows.append([name, config["task"], head, best_score(record), *figures, f"{record['steps']:,}", date])
    return "\n".join(aligned(rows))


def head_label(head: Any) -> str:
    """The head of a config in few words: softmax, mos 9."""
    return f"{head.get('type', '')} {head.get('mixtures', '')}".strip() if isinstance(head, dict) else ""


def best_score(record: dict[str, Any]) -> str:
    """The metric of early stopping at the best validation."""
    scores = record["scores"].get("valid", {})
    for key, (form, factor) in SHOWN[record["config"]["training"]["early_stopping_metric"]].items():
        if scores.get(key) is not None:
            return form.format(factor * scores[key])
    return "not validated"


def run_record_of(folder: Path, name: str) -> dict[str, Any]:
    """A run folder in the form of a result: curves, the best validation's scores, and outputs with their texts."""
    where = RunFolder(folder)
    config, base = where.read()
    log = read_log(where.log)
    about: dict[str, Any] = next((line for line in reversed(log) if "about" in line), {})
    best: dict[str, Any] = next((line for line in reversed(log) if line.get("best")), {})
    return {
        "format": FORMAT,
        "kind": "run",
        "scale": config.task,
        "name": name,
        "provenance": about.get("about") or {},
        "config": config.model_dump(mode="json"),
        "parameters": about.get("parameters"),
        **run_length(log),
        "curve": validations(log),
        "losses": losses(log, config.training.log_every),
        "scores": {"valid": best} if best else {},
        "outputs": _outputs(where, config, base, int(best.get("step", 0))),
    }


def losses(log: Sequence[Mapping[str, Any]], log_every: int) -> list[dict[str, Any]]:
    """The training loss by step, without lines about a few steps before a validation, which are mostly noise."""
    rows = [{key: line[key] for key in ("step", "epoch", "loss") if key in line} for line in log if "loss" in line]
    before = [0, *(row.get("step", 0) for row in rows)]
    long = [row for row, last in zip(rows, before, strict=False) if 2 * (row.get("step", 0) - last) >= log_every]
    return long or rows


def _outputs(where: RunFolder, config: Config, base: Path, step: int) -> dict[str, Texts]:
    """The first outputs of a validation, with their sources and references."""
    path = where.validation / f"step-{step:08d}.txt"
    if not path.is_file():
        return {}
    texts = texts_of(config.model_dump(mode="json"), "valid", base)
    outputs: Texts = list(read_lines(path))[:OUTPUTS]
    references = texts.get("reference")
    if isinstance(references, dict):  # captions: by image
        outputs = dict(zip(references, outputs, strict=False))
    return {"valid": outputs, **{kind: _first(lines) for kind, lines in texts.items()}}


def texts_of(config: Mapping[str, Any], split: str, base: Path | None = None) -> dict[str, Texts]:
    """Sources and references of a split, as far as its files are here; without `base`, those of absolute paths."""
    try:
        files = config["data"][split]
        source, target = (
            data_path(files[side], base or Path()) if files[side] else None for side in ("source", "target")
        )
        if target is None or not (base or target.is_absolute()):
            return {}
        task: type[Task] = load_class(TASKS[config["task"]])
        return task.texts(split, source, target)
    except (InputError, KeyError, TypeError, OSError):  # files that are not here, or a config changed by hand
        return {}


def _first(lines: Texts) -> Texts:
    return dict(islice(lines.items(), OUTPUTS)) if isinstance(lines, dict) else lines[:OUTPUTS]


def unique_names(folders: Sequence[Path]) -> list[str]:
    """Of each folder its name, or its path where two have one name."""
    names = [folder.resolve().name for folder in folders]
    return [name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]
