"""The rounds of table learning: train a language model on the table's tokens, sum the costs of cells, move the words.

The language model is trained by the one `Trainer`, which saves and resumes. Each round gives it one more epoch, on the
tokens of the new table. The rest of the state is a table a round and `rounds.json`, so a killed process resumes to the
same table.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from fastmos.checkpoints import write_tensors
from fastmos.config import Training
from fastmos.config.base import Count, Fraction, NonNegative, Positive
from fastmos.data.batches import SentenceBatches
from fastmos.distributed import World
from fastmos.files import read_json, write_json
from fastmos.heads import Softmax
from fastmos.models import Generator, LanguageModel
from fastmos.progress import progress
from fastmos.provenance import provenance
from fastmos.run_folder import RunFolder
from fastmos.tables.assignment import Ints, Method, assign
from fastmos.tables.costs import HeldOut, TableCosts, held_out, table_costs
from fastmos.tables.words import WordText
from fastmos.tasks.dataset import digest
from fastmos.tasks.evaluation import Evaluation, Interruptible, at_once
from fastmos.tokenizers import TableTokenizer, load_tokenizer
from fastmos.training.run_log import RunLog
from fastmos.training.state import State, begun_with
from fastmos.training.trainer import Trainer


class TableLearning(Training):
    """How a table is learned: the training of its language model, with other defaults, and the rounds."""

    learning_rate: Positive = 0.003
    clip_grad_norm: Annotated[float, Field(ge=0)] = 1.0
    batch_tokens: NonNegative = 2000
    save_every: NonNegative = 200
    early_stopping_metric: Literal["bleu", "nll", "cider"] = "nll"
    early_stopping_patience: NonNegative = 2
    """stop after so many rounds without a better table; 0: never"""
    keep_best: NonNegative = 0
    keep_last: NonNegative = 0
    seed: NonNegative = 0
    rounds: NonNegative = 8
    """of costs, assignment and an epoch of training, at most"""
    first_epochs: Count = 2
    """of training before the first round: the costs of an untrained model say nothing"""
    method: Method = "exact"
    """how words are assigned to cells"""
    hidden_size: Count = 200
    """of the language model"""
    dropout: Fraction = 0.2
    """of the language model"""
    keep_costs: bool = False
    """write the costs of each round"""


@dataclass
class Round:
    """What a round found. Round 0 trains on the starting table and moves nothing."""

    round: int
    before: HeldOut | None = None  # held-out figures before the words move,
    straight_after: HeldOut | None = None  # with the same language model on the new table,
    after_training: HeldOut | None = None  # and after training on it
    objective_before: float | None = None  # the language model's loss at the table words
    objective_after: float | None = None
    moved: int = 0  # words
    seconds: dict[str, float] = field(default_factory=dict)  # costs, assignment, held_out, training

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Round":
        for name in ("before", "straight_after", "after_training"):
            value[name] = None if value[name] is None else HeldOut(**value[name])
        return cls(**value)

    def summary(self, table_words: int) -> str:
        """One line: NLL of held-out text before the words move > straight after > after training."""
        figures = [figure for figure in (self.before, self.straight_after, self.after_training) if figure is not None]
        known = " > ".join(f"{figure.nll_per_known_word:.4f}" for figure in figures)
        table = " > ".join(_shown(figure.nll_per_table_word) for figure in figures)
        last = figures[-1]
        parts = [f"held-out NLL per known word {known}, per table word {table}"]
        parts.append(f"per word {last.nll_per_word:.4f} (perplexity {last.perplexity:.2f})")
        if self.objective_before is not None:
            parts.append(f"objective {self.objective_before:,.0f} > {self.objective_after:,.0f}")
            parts.append(f"{self.moved:,} of {table_words:,} words moved")
        parts.append(", ".join(f"{part.replace('_', '-')} {value:.1f} s" for part, value in self.seconds.items()))
        return f"round {self.round}: {'; '.join(parts)}"


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


class Rounds:
    """A table's rounds in a folder, from where an earlier start left them."""

    def __init__(
        self,
        learning: TableLearning,
        folder: RunFolder,
        start: TableTokenizer,
        train: WordText,
        valid: WordText,
        world: World,
    ) -> None:
        self.learning, self.folder, self.world = learning, folder, world
        self.train, self.valid = train, valid
        self.record = folder.root / "rounds.json"
        self.rounds, self.tokenizer = [Round(0)], start
        if self.record.exists():
            self.rounds = [Round.from_json(value) for value in read_json(self.record)["rounds"]]
            self.tokenizer = self.table(self.rounds[-1].round)
        torch.manual_seed(learning.seed)
        body = LanguageModel(len(start), hidden_size=learning.hidden_size, dropout=learning.dropout)
        model = Generator(body, Softmax(learning.hidden_size, len(start)))
        self.trainer = Trainer(learning, folder, world, model, self._batches(train, shuffle=True), self._validate)
        texts = digest(array for text in (train.words, valid.words) for array in (text.offsets, text.tokens))
        self.trainer.begin(State(f"{start.fingerprint()} {texts}", world.size))
        self._agree()

    def _agree(self) -> None:
        """Forget the rounds that came after the state, where the last one was damaged and the one before is taken."""
        done = self.trainer.state.epoch - self.learning.first_epochs
        while len(self.rounds) > 1 and done < self.rounds[-1].round - 1:
            self.rounds.pop()
        if done < self.rounds[-1].round:
            self.rounds[-1].after_training = None
        if self.record.exists():
            self.tokenizer = self.table(self.rounds[-1].round)

    @property
    def best(self) -> int:
        """The round with the best table, by NLL per known word: that of unknown words does not depend on the table."""
        trained = [one for one in self.rounds if one.after_training is not None]
        return min(trained, key=lambda one: one.after_training.nll_per_known_word).round  # type: ignore[union-attr]

    def table(self, number: int) -> TableTokenizer:
        """The table of a round."""
        tokenizer = load_tokenizer(self.folder.root / f"table-{number}.json")
        assert isinstance(tokenizer, TableTokenizer)
        return tokenizer

    def reason_to_end(self) -> str:
        """Why learning is over; empty if it is not."""
        last, patience = self.rounds[-1], self.learning.early_stopping_patience
        if last.after_training is None:
            return ""
        if last.round >= self.learning.rounds:
            return "all rounds done"
        return f"no better table in {patience} rounds" if patience and last.round - self.best >= patience else ""

    def run(self) -> None:
        """Learn to the end."""
        if self.reason_to_end():
            return
        state, learning = self.trainer.state, self.learning
        validated = state.history[-1][0] if state.history else 0
        total = self.trainer.batches.steps(0) * (learning.first_epochs + learning.rounds)
        first = self.world.first
        log = RunLog(self.folder.root, self.folder.log, state.step, validated, total, learning.log_to, not first)
        try:
            while not self.reason_to_end():
                self._train(log)
                if not self.reason_to_end():
                    self._move()
        finally:
            log.close()

    # ---- one round

    def _train(self, log: RunLog) -> None:
        """Train to the end of the round's epochs, unless that is done, and evaluate the table."""
        last = self.rounds[-1]
        epochs = self.learning.first_epochs + last.round
        changes = {"max_epochs": epochs, "early_stopping_patience": 0}  # patience is counted in rounds
        self.trainer.training = self.learning.model_copy(update=changes)
        self.trainer.batches = self._batches(self.train, shuffle=True)
        with self._timed("training"):
            self.trainer.run(log)
        if last.after_training is None:
            last.after_training = self._held_out()
            self._write()
            log.say(last.summary(len(self.tokenizer.table_words)))

    def _move(self) -> None:
        """Begin a round: sum the costs, assign words to cells, and evaluate the new table before training on it."""
        now = Round(self.rounds[-1].round + 1, before=self.rounds[-1].after_training)
        self.rounds.append(now)
        with self._timed("costs"):
            batches = self._batches(self.train, shuffle=False)
            items = batches.epoch(0)
            if self.world.first:
                items = progress(items, f"round {now.round}, costs", batches.steps(0))
            costs = table_costs(self.trainer.model, self.tokenizer, items, self.world)
        if self.world.first and self.learning.keep_costs:
            tensors = {"R": costs.R, "Q": costs.Q, "cells": torch.from_numpy(self.tokenizer.cells)}
            path = self.folder.root / f"costs-{now.round}.safetensors"
            write_tensors(path, tensors, {"round": now.round})
        with self._timed("assignment"):
            cells, objective = self._assigned(costs)
        now.objective_before, now.objective_after = costs.objective, min(objective, costs.objective)
        if objective < costs.objective:  # `half` may find nothing better than the present table
            now.moved = int((cells != self.tokenizer.cells).sum())
            self.tokenizer = self.tokenizer.with_cells(cells)
        now.straight_after = self._held_out()
        self._write()

    def _assigned(self, costs: TableCosts) -> tuple[Ints, float]:
        """New cells and their cost; the first process computes them for all."""
        found = assign(costs.R, costs.Q, self.learning.method) if self.world.first else None
        answer = self.world.gather(None if found is None else (found.cells, found.cost))[0]
        assert answer is not None
        return answer

    # ---- evaluation, batches, time, and the record

    def _validate(self, model: Generator, world: World, interruptible: Interruptible) -> Evaluation:
        return Evaluation(held_out(model, self.tokenizer, self.valid.tokens(self.tokenizer), world, interruptible))

    def _held_out(self) -> HeldOut:
        with self._timed("held_out"):
            text = self.valid.tokens(self.tokenizer)
            return held_out(self.trainer.model, self.tokenizer, text, self.world, at_once)

    def _batches(self, text: WordText, *, shuffle: bool) -> SentenceBatches:
        tokens = text.tokens(self.tokenizer)
        return SentenceBatches(
            tokens,
            max_tokens=max(self.learning.batch_tokens, int(tokens.lengths.max()) + 1),
            seed=self.learning.seed,
            rank=self.world.rank,
            world=self.world.size,
            share=begun_with(self.folder.state, self.world.size),
            shuffle=shuffle,
        )

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Add the seconds of a block to those of this round."""
        seconds, begin = self.rounds[-1].seconds, time.monotonic()
        yield
        seconds[part] = round(seconds.get(part, 0.0) + time.monotonic() - begin, 3)

    def _write(self) -> None:
        """First the table, then the record that names it."""
        if self.world.first:
            self.tokenizer.save(self.folder.root / f"table-{self.rounds[-1].round}.json")
            found = {"best": self.best, "oov_rate": self.valid.unknown / max(1, self.valid.running)}
            rounds = [asdict(one) for one in self.rounds]
            write_json(self.record, {**found, "rounds": rounds, "provenance": provenance(self.learning.seed)})
