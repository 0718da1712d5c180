"""What the tasks on plain text share: lines of files or of a caller become datasets."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from fastmos.data.tokenized import TokenizedText
from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.models import Generator
from fastmos.tasks.base import Split, Task
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.decoding import score_lines


class TextTask(Task):
    """A task whose splits are text files."""

    def evaluation_data(self, split: Split, sources: Sequence[str] | None, references: Sequence[str] | None) -> Dataset:
        if references is None:
            if sources is not None:
                raise InputError("evaluation needs references, the text to compare with")
            files = getattr(self.config.data, split)
            if not files.target:
                raise InputError(f"the run's config names no {split} text; give --source and --reference")
            sources = list(read_lines(self.path(files.source))) if files.source else None
            references = list(read_lines(self.path(files.target)))
        return self.dataset_of(sources, references)

    def dataset_of(self, sources: Sequence[str] | None, targets: Sequence[str]) -> Dataset:
        """Lines in memory as a dataset."""
        if not targets:
            raise InputError("no lines to score; give at least one")
        check_lines(targets)
        return Dataset(TokenizedText.of(self.target.encode_lines(targets)), references=targets)

    def score(self, model: Generator, sources: Sequence[str] | None, targets: Sequence[str]) -> list[float]:
        """The log-probability of each target line, eos included."""
        return self.scores(model, self.dataset_of(sources, targets))

    def scores(self, model: Generator, dataset: Dataset) -> list[float]:
        device = next(model.parameters()).device
        return [-float(line.sum()) for line in score_lines(model, dataset, device)]

    def references(self, path: Path, split: Split) -> Sequence[str]:
        """The text that outputs of a split are compared with; none are made for the training text."""
        return () if split == "train" else list(read_lines(path))


def check_lines(lines: Sequence[str]) -> None:
    """Refuse one string, which would be read letter by letter."""
    if isinstance(lines, str):
        raise InputError(f"a list of lines is needed, not one string; give [{lines[:40]!r}]")


def cut_overlong(lines: list[list[int]], limit: int, overlong: str) -> list[list[int]]:
    """Lines of at most `limit` tokens: longer ones are cut, with a warning that counts them, or refused."""
    long = [number for number, tokens in enumerate(lines, 1) if len(tokens) > limit]
    if long and overlong == "refuse":
        raise InputError(
            f"line {long[0]}: {len(lines[long[0] - 1]):,} tokens, but the model was trained on at most {limit}"
        )
    if long:
        warnings.warn(f"{len(long):,} of {len(lines):,} lines were cut to {limit} tokens", stacklevel=5)
    return [tokens[:limit] for tokens in lines]
