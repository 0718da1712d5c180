"""What a trained run is worth: its record translates or captions once, and holds all that tables and pages show."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastmos.codings import SPECIALS, WordCoding
from fastmos.experiments.plans import Plan
from fastmos.experiments.result_files import FORMAT
from fastmos.experiments.scales import Scale
from fastmos.files import provenance, read_lines
from fastmos.metrics import bleu
from fastmos.metrics.bleu import Tokenize
from fastmos.metrics.significance import bleu_statistics
from fastmos.progress import progress
from fastmos.training.captioning import Split
from fastmos.training.config import Config, data_path
from fastmos.training.folder import RunFolder
from fastmos.training.run import Run, average, load

OUTPUTS = 12  # translations or captions that a record holds
SPLITS: tuple[Split, Split] = ("valid", "test")
SENTENCES = {  # whose translation is looked into, by scale; written by us
    "sample": "der alte mann öffnet das fenster nicht .",
    "europarl": "Wir müssen gemeinsam eine Antwort auf diese Frage finden.",
}
SENTENCE = "zwei kinder spielen mit einem kleinen hund am strand ."


def run_record(folder: Path, name: str, scale: str, words: int = 0, table: str | None = None) -> dict[str, Any]:
    """Judge a trained run. With BPE and a word model's number of `words`, also without the words that that lacks."""
    where = RunFolder(folder)
    run = load(_judged_folder(where))
    log = [json.loads(line) for line in read_lines(where.log)]
    judged = _judge_captions(run) if run.origin is not None else _judge_translations(run, scale, words)
    return {
        **header("run", scale, run.config.training.seed),
        "name": name,
        "config": run.config.model_dump(mode="json"),
        "table_id": table,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "codes": len(run.target) - len(SPECIALS),
        "seconds": round(sum(float(line.get("seconds", 0.0)) for line in log)),
        "steps": max((int(line["step"]) for line in log), default=0),
        "epochs": max((int(line.get("epoch", 0)) for line in log), default=0),
        "curve": [_point(line) for line in log if "nats_per_word" in line],
        **judged,
    }


def _judged_folder(where: RunFolder) -> Path:
    """The best checkpoint's, or that of the mean of the last ones, where the config keeps several."""
    last = min(where.read()[0].training.keep_last, len(where.checkpoints.steps()))
    if last < 2:
        return where.root
    mean = where.root.with_name(f"{where.root.name}-average")
    shutil.rmtree(mean, ignore_errors=True)  # one that a kill left unfinished, perhaps
    average(where.root, mean, last=last)
    return mean


def header(kind: str, scale: str, seed: int) -> dict[str, Any]:
    """What every result begins with."""
    return {"format": FORMAT, "kind": kind, "scale": scale, "provenance": provenance(seed)}


def _point(line: Mapping[str, Any]) -> dict[str, Any]:
    """A validation of the log."""
    names = ("step", "epoch", "bleu", "bleu_4", "cider", "nats_per_word")
    point = {name: line[name] for name in names if name in line}
    return point | ({"mixtures_in_use": line["effective_mixtures"]} if "effective_mixtures" in line else {})


def _judge_translations(run: Run, scale: str, words: int) -> dict[str, Any]:
    from fastmos.analysis.inside import look_inside

    scores: dict[str, Any] = {}
    statistics: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    text = run.target.text
    tokenize: Tokenize = "none" if text.tokenise == "none" else "13a"
    language = Path(run.config.data.test.target).suffix[1:] if scale == "wmt14" else None
    for split in SPLITS:
        sources, references = split_lines(run.config, split, run.base)
        found = run.evaluate(sources, references, language=language)
        assert found.translations is not None
        scores[split], outputs[split] = found.record(), found.translations
        statistics[split] = bleu_statistics(found.translations, references, tokenize=tokenize, lowercase=text.lowercase)
        if split == "valid" and run.config.codings.target.kind == "bpe" and words:
            scores["valid_without_oov"] = _without_oov(run, words, found.translations, references, tokenize)
    inside = look_inside(run, SENTENCES.get(scale, SENTENCE))
    shown = {"test": outputs["test"][:OUTPUTS]}
    return {"scores": scores, "statistics": statistics, "outputs": shown, "inside": inside.record()}


def split_lines(config: Config, split: str, base: Path) -> tuple[list[str], list[str]]:
    """Sources and references of a split."""
    texts = getattr(config.data, split)
    source, target = (list(read_lines(data_path(name, base))) for name in (texts.source, texts.target))
    return source, target


def _without_oov(
    run: Run, size: int, translations: list[str], references: list[str], tokenize: Tokenize
) -> dict[str, Any]:
    """The same translations in the words that the word model knows."""
    from fastmos.analysis.oov import without_unknown

    choice, text = run.config.codings.target, run.target.text
    train = read_lines(data_path(run.config.data.train.target, run.base))
    known = set(WordCoding.learn(train, size=size, unk_share=choice.unk_share, text=text).words)
    lines, replaced, words = without_unknown(translations, known, text)
    score = bleu(lines, references, tokenize=tokenize, lowercase=text.lowercase)
    return {"bleu": score.value, "bleu_signature": score.signature, "replaced_words": replaced, "words": words}


def _judge_captions(run: Run) -> dict[str, Any]:
    scores: dict[str, Any] = {}
    statistics: dict[str, Any] = {}
    outputs: dict[str, str] = {}
    for split in SPLITS:
        found = run.evaluate_captions(split)
        scores[split] = found.record()
        each = found.scores.cider_of_each
        statistics[split] = None if each is None else [round(value, 4) for value in each]
        outputs = dict(list(zip(found.names, found.translations, strict=True))[:OUTPUTS])
    return {"scores": scores, "statistics": statistics, "outputs": {"test": outputs}, "inside": None}


def rank_record(plans: Sequence[Plan], scale: Scale, runs: Path) -> dict[str, Any]:
    """The rank of the log-probability matrix of each run over the positions of the validation text."""
    from fastmos.analysis.contexts import log_prob_batches
    from fastmos.analysis.rank import log_prob_rank

    measured: list[dict[str, Any]] = []
    about: dict[str, Any] = {}
    for one in progress(plans, "ranks", len(plans)):
        run = load(runs / one.id)
        found = log_prob_rank(log_prob_batches(run, *split_lines(run.config, "valid", run.base)))
        about = {"contexts": found.rows, "codes": len(run.target)}
        full, head = min(found.rows, len(run.target)), run.config.head
        width = run.model.head.width
        assert isinstance(width, int)
        measured.append(
            {
                "name": one.name,
                "run": one.id,
                "mixtures": head.mixtures,
                "width": width,
                "parameters": sum(weight.numel() for weight in run.model.parameters()),
                "rank": found.rank,
                "threshold": found.threshold,
                "bound": full if head.kind == "mos" else min(full, width + 2),
                "singular_values": _thinned(found.singular_values.tolist()),
            }
        )
    return {**header("rank", scale.name, 1), **about, "width": measured[0]["width"], "rows": measured}


def _thinned(values: list[float], points: int = 400) -> list[list[float]]:
    """At most so many of the values as (number, value), the first and the last among them."""
    last = len(values) - 1
    places = range(len(values)) if len(values) <= points else [round(i * last / (points - 1)) for i in range(points)]
    return [[place + 1, float(f"{values[place]:.6g}")] for place in places]
