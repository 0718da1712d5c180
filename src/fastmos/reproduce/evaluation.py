"""Evaluating a trained run: its record decodes each text once, and holds all that tables and pages show."""

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from fastmos.config.tokenizers import Words
from fastmos.files import read_lines
from fastmos.inference.inside import look_inside
from fastmos.inference.run import Run, average, load
from fastmos.metrics import bleu
from fastmos.metrics.significance import bleu_statistics
from fastmos.reproduce.frequency import by_frequency
from fastmos.reproduce.records import header, read_log
from fastmos.reproduce.scales import Scale
from fastmos.run_folder import RunFolder
from fastmos.tasks.captioning import CaptionEvaluation
from fastmos.tasks.evaluation import Evaluation
from fastmos.tokenizers import SPECIALS, Pretokenizer, WordTokenizer
from fastmos.tokenizers.base import UNK_TEXT

OUTPUTS = 12  # that a record holds
VALIDATION = ("step", "epoch", "bleu", "bleu_4", "cider", "nll_per_word", "effective_mixtures")
Split = Literal["valid", "test"]
SPLITS: tuple[Split, Split] = ("valid", "test")


def run_record(
    folder: Path, name: str, scale: Scale, word_model: Words | None = None, table: str | None = None
) -> dict[str, Any]:
    """The record of a trained run; a BPE run is also evaluated without the words that the word model does not know."""
    where = RunFolder(folder)
    run = load(_evaluated_folder(where))
    log = read_log(where.log)
    evaluations = {split: run.evaluate(split, language=_wmt_language(run, scale)) for split in SPLITS}
    scores: dict[str, Any] = {split: {**found.record(), **found.speed()} for split, found in evaluations.items()}
    if word_model is not None and (run.config.task, run.config.tokenizers.target.type) == ("translation", "bpe"):
        scores["valid_without_oov"] = _without_oov(run, word_model, evaluations["valid"].outputs or [])
    shown = shown_outputs(evaluations["test"])
    return {
        **header("run", scale.name, run.config.training.seed),
        "name": name,
        "config": run.config.model_dump(mode="json"),
        "table_id": table,
        "parameters": sum(weight.numel() for weight in run.model.parameters()),
        "vocab_size": len(run.target) - len(SPECIALS),
        **run_length(log),
        "curve": validations(log),
        "scores": scores,
        "by_frequency": by_frequency(run),
        "statistics": {split: line_statistics(run, split, found) for split, found in evaluations.items()},
        "outputs": {} if shown is None else {"test": shown},
        "inside": look_inside(run, scale.sentence).record() if run.config.task == "translation" else None,
    }


def _evaluated_folder(where: RunFolder) -> Path:
    """That of the best checkpoint, or of the mean of the last ones where the config keeps several."""
    last = min(where.read()[0].training.keep_last, len(where.checkpoints.steps()))
    if last < 2:
        return where.root
    mean = where.root.with_name(f"{where.root.name}-average")
    shutil.rmtree(mean, ignore_errors=True)  # perhaps an unfinished one of a killed process
    average(where.root, mean, last=last)
    return mean


def _wmt_language(run: Run, scale: Scale) -> str | None:
    return Path(run.config.data.test.target).suffix[1:] if scale.wmt_bleu else None


def run_length(log: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Time, steps and epochs of a run's log."""
    return {
        "seconds": round(sum(float(line.get("seconds", 0.0)) for line in log)),
        "steps": max((int(line["step"]) for line in log), default=0),
        "epochs": max((int(line.get("epoch", 0)) for line in log), default=0),
    }


def validations(log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The validations of a run's log."""
    return [{name: line[name] for name in VALIDATION if name in line} for line in log if "nll_per_word" in line]


def shown_outputs(found: Evaluation) -> list[str] | dict[str, str] | None:
    """The first outputs: of translations a list, of captions by image."""
    shown = found.outputs and found.outputs[:OUTPUTS]
    return dict(zip(found.names, shown or (), strict=False)) if isinstance(found, CaptionEvaluation) else shown


def line_statistics(run: Run, split: Split, found: Evaluation) -> list[Any] | None:
    """What significance needs of each line or image: n-gram counts of BLEU, or CIDEr; None where there is neither."""
    if isinstance(found, CaptionEvaluation):
        each = found.caption_scores and found.caption_scores.cider_of_each
        return [round(value, 4) for value in each] if each else None
    if found.outputs is None:
        return None
    pretokenizer = run.target.pretokenizer
    tokenize: Literal["none", "13a"] = "none" if pretokenizer.language is None else "13a"
    references = run.task.evaluation_data(split, None, None).references
    return bleu_statistics(found.outputs, references, tokenize=tokenize, lowercase=pretokenizer.lowercase)


def _without_oov(run: Run, word_model: Words, outputs: Sequence[str]) -> dict[str, Any]:
    """BLEU of the validation outputs in the words that the word model knows."""
    pretokenizer, data = run.target.pretokenizer, run.config.data
    train, references = (list(read_lines(run.task.path(files.target))) for files in (data.train, data.valid))
    size, share = word_model.vocab_size, word_model.unk_share
    known = WordTokenizer.learn(train, vocab_size=size, unk_share=share, pretokenizer=pretokenizer).words
    lines, replaced, words = without_unknown(outputs, set(known), pretokenizer)
    tokenize: Literal["none", "13a"] = "none" if pretokenizer.language is None else "13a"
    score = bleu(lines, references, tokenize=tokenize, lowercase=pretokenizer.lowercase)
    return {"bleu": score.value, "bleu_signature": score.signature, "replaced_words": replaced, "words": words}


def without_unknown(
    lines: Sequence[str], vocabulary: Collection[str], pretokenizer: Pretokenizer
) -> tuple[list[str], int, int]:
    """The lines with all words outside the vocabulary as unk; how many those are, and how many words there are."""
    split = list(pretokenizer.split(lines))
    kept = [[word if word in vocabulary else UNK_TEXT for word in line] for line in split]
    replaced = sum(word not in vocabulary for line in split for word in line)
    return pretokenizer.join(kept), replaced, sum(map(len, split))
