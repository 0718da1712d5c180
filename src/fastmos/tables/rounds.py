"""The rounds of table learning: train a language model on the codes, sum what places cost, move the words.

What to do next follows from the state alone, and the state is one file that is replaced whole: a killed process goes on
and ends with the same table.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Adam

from fastmos.codings import TableCoding
from fastmos.data import Batch, SentenceBatches
from fastmos.errors import InputError
from fastmos.heads import Softmax
from fastmos.models import Generator, LanguageModel
from fastmos.progress import progress
from fastmos.tables.assignment import Ints, Method, assign
from fastmos.tables.costs import HeldOut, TableCosts, held_out, table_costs
from fastmos.tables.words import WordText
from fastmos.training.checkpoints import load_weights, read_tensors, weights, write_tensors
from fastmos.training.distributed import World
from fastmos.training.optimisers import gradient_norm, optimiser_tensors, restore_optimiser
from fastmos.training.state import fingerprint, noise_from

MAY_CHANGE = {"rounds", "patience", "save_every", "keep_costs"}


@dataclass(frozen=True)
class Learning:
    """How a table is learnt."""

    rounds: int = 8  # at most
    patience: int = 2  # rounds without a new best after which it ends
    first_epochs: int = 2  # of training before the first round: costs of an untrained model say nothing
    epochs: int = 1  # of training in each round
    method: Method = "exact"
    width: int = 200  # of the language model
    dropout: float = 0.2
    rate: float = 0.003  # of Adam
    clip: float = 1.0
    batch_tokens: int = 2000
    seed: int = 0
    save_every: int = 200  # steps
    keep_costs: bool = False  # write R and Q of each round

    def __post_init__(self) -> None:
        least = {"rounds": 0, "patience": 1, "first_epochs": 1, "epochs": 1, "width": 1, "batch_tokens": 1}
        least |= {"seed": 0, "save_every": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {bound}")
        rules = {
            "method": self.method in get_args(Method),
            "dropout": 0 <= self.dropout < 1,
            "rate": 0 < self.rate < math.inf,
            "clip": 0 <= self.clip < math.inf,
            "seed": self.seed < 2**63,
        }
        for name, kept in rules.items():
            if not kept:
                raise InputError(f"{name} cannot be {getattr(self, name)!r}; see fastmos.tables.Learning")


@dataclass
class Round:
    """What a round found. Round 0 trains the starting table and moves nothing."""

    round: int
    before: HeldOut | None = None  # held-out figures before the words move,
    straight_after: HeldOut | None = None  # with the same language model on the new table,
    after_training: HeldOut | None = None  # and when that has been trained on it
    objective_before: float | None = None  # the language model's loss at the table words, in nats
    objective_after: float | None = None
    moved: int = 0  # words
    seconds: dict[str, float] = field(default_factory=dict)  # costs, assignment, held_out, training

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Round":
        for name in ("before", "straight_after", "after_training"):
            value[name] = None if value[name] is None else HeldOut(**value[name])
        return cls(**value)


@dataclass
class Progress:
    """Where learning is."""

    step: int = 0  # training steps done
    epoch: int = 0  # passes done
    batch: int = 0  # batches of this pass done
    phase: str = "train"  # next: train, judge or move
    best: int = -1  # the round whose table is best
    rounds: list[Round] = field(default_factory=lambda: [Round(0)])


class Rounds:
    """Language model, table and texts, taken from phase to phase; `publish` is called when a round has ended."""

    def __init__(self, learning: Learning, start: TableCoding, train: WordText, valid: WordText, world: World) -> None:
        self.learning, self.world = learning, world
        self.train, self.valid = train, valid
        self.coding = self.best_coding = start
        torch.manual_seed(learning.seed)
        body = LanguageModel(len(start), width=learning.width, dropout=learning.dropout)
        self.model = Generator(body, Softmax(learning.width, len(start))).to(world.device)
        self.parallel: nn.Module = DistributedDataParallel(self.model) if world.size > 1 else self.model
        self.optimiser = Adam(self.model.parameters(), lr=learning.rate, fused=True)
        self.data = f"{start.fingerprint()} {fingerprint([train.words, valid.words])}"
        self.now = Progress()

    def ended(self) -> str:
        """Why learning is over; empty if it is not."""
        if self.now.phase != "move":
            return ""
        last = self.now.rounds[-1].round
        if last >= self.learning.rounds:
            return "all rounds done"
        patience = self.learning.patience
        return f"no better table in {patience} rounds" if last - self.now.best >= patience else ""

    def run(self, state: Path, publish: Callable[[], None]) -> None:
        """Go on to the end."""
        phases: dict[str, Callable[[], None]]
        phases = {"train": lambda: self._train(state), "judge": self._judge, "move": lambda: self._move(state)}
        while not self.ended():
            ended_round = self.now.phase == "judge"
            phases[self.now.phase]()
            self._save(state)
            if ended_round:
                publish()

    # ---- phases

    def _train(self, state: Path) -> None:
        """Train to the end of this round's epochs."""
        epochs = self.learning.first_epochs + self.learning.epochs * self.now.rounds[-1].round
        batches = self._batches(self.train, shuffle=True)
        while self.now.epoch < epochs:
            with self._timed("training"):
                for batch in self._shown(batches, "training", self.now.epoch, self.now.batch):
                    self._step(batch)
                    if self.now.step % self.learning.save_every == 0:
                        break
            if self.now.batch == batches.steps(self.now.epoch):
                self.now.epoch, self.now.batch = self.now.epoch + 1, 0
            self._save(state)
        self.now.phase = "judge"

    def _step(self, batch: Batch) -> None:
        (count,) = self.world.sum([batch.tokens])
        noise_from(self.learning.seed, self.now.step, self.world.rank)
        self.model.train()
        output, _ = self.parallel(batch.to(self.world.device))
        (output.loss * (self.world.size / count)).backward()  # the mean over processes is to be the sum over tokens
        norm = float(gradient_norm(self.model.parameters(), self.learning.clip))
        if not math.isfinite(norm):
            raise InputError(f"the gradient of step {self.now.step} is {norm}; lower the rate ({self.learning.rate})")
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.now.step, self.now.batch = self.now.step + 1, self.now.batch + 1

    def _judge(self) -> None:
        """Measure the trained model on held-out text, and remember the best table.

        Known words count: what a model pays for unknown ones, which it may never have seen, says nothing of a table.
        """
        last = self.now.rounds[-1]
        last.after_training = self._held_out()
        best = self.now.rounds[self.now.best].after_training if self.now.best >= 0 else None
        if best is None or last.after_training.nats_per_known_word < best.nats_per_known_word:
            self.now.best, self.best_coding = last.round, self.coding
        self.now.phase = "move"

    def _move(self, state: Path) -> None:
        """Begin a round: sum the costs, assign words to cells anew, and measure what that does at once."""
        before = self.now.rounds[-1]
        self.now.rounds.append(Round(before.round + 1, before=before.after_training))
        now = self.now.rounds[-1]
        with self._timed("costs"):
            batches = self._batches(self.train, shuffle=False)
            costs = table_costs(self.model, self.coding, self._shown(batches, "costs"), self.world)
        if self.world.first and self.learning.keep_costs:
            tensors = {"R": costs.R, "Q": costs.Q, "cells": torch.from_numpy(self.coding.cells)}
            write_tensors(state.with_name(f"costs-{now.round}.safetensors"), tensors, {"round": now.round})
        with self._timed("assignment"):
            cells, objective = self._assigned(costs)
        now.objective_before, now.objective_after = costs.objective, min(objective, costs.objective)
        if objective < costs.objective:  # `half` may find nothing better than the present table
            now.moved = int((cells != self.coding.cells).sum())
            self.coding = self.coding.with_cells(cells)
        now.straight_after = self._held_out()
        self.now.phase = "train"

    def _assigned(self, costs: TableCosts) -> tuple[Ints, float]:
        """New cells and what they cost; the first process finds them for all."""
        found = assign(costs.R, costs.Q, self.learning.method) if self.world.first else None
        answer = self.world.gather(None if found is None else (found.cells, found.cost))[0]
        assert answer is not None
        return answer

    def _held_out(self) -> HeldOut:
        with self._timed("held_out"):
            batches = self._batches(self.valid, shuffle=False)
            return held_out(self.model, self.coding, self._shown(batches, "held-out text"), self.world)

    # ---- batches and time

    def _batches(self, text: WordText, *, shuffle: bool) -> SentenceBatches:
        codes = text.codes(self.coding)
        longest = int(codes.lengths.max()) + 1
        return SentenceBatches(
            codes,
            tokens=max(self.learning.batch_tokens, longest),
            seed=self.learning.seed,
            rank=self.world.rank,
            world=self.world.size,
            shuffle=shuffle,
        )

    def _shown(self, batches: SentenceBatches, what: str, epoch: int = 0, start: int = 0) -> Iterator[Batch]:
        items = batches.epoch(epoch, start)
        if not self.world.first:
            return items
        return progress(items, f"round {self.now.rounds[-1].round}, {what}", batches.steps(epoch), start)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Add the seconds of a block to those of this round."""
        seconds, begin = self.now.rounds[-1].seconds, time.monotonic()
        yield
        seconds[part] = round(seconds.get(part, 0.0) + time.monotonic() - begin, 3)

    # ---- the state on disk

    def _save(self, path: Path) -> None:
        if not self.world.first:
            return
        tensors = {f"model/{name}": tensor for name, tensor in weights(self.model).items()}
        tensors |= {f"optimiser/{name}": tensor for name, tensor in optimiser_tensors(self.optimiser).items()}
        tensors |= {"cells": torch.tensor(self.coding.cells), "best": torch.tensor(self.best_coding.cells)}
        notes: dict[str, Any] = {"now": asdict(self.now), "learning": asdict(self.learning)}
        notes |= {"data": self.data, "processes": self.world.size}
        write_tensors(path, tensors, notes)

    def load(self, path: Path) -> None:
        """Go on from a saved state; everything that decides the result must be as it was."""
        tensors, notes = read_tensors(path)
        folder, learning = path.parent, asdict(self.learning)
        for name, value in notes["learning"].items():
            if learning[name] != value and name not in MAY_CHANGE:
                raise InputError(
                    f"{folder}: was begun with {name} {value}, not {learning[name]}; give another --output"
                )
        if notes["data"] != self.data:
            raise InputError(f"{folder}: the text has changed since learning began; give another --output")
        if notes["processes"] != self.world.size:
            raise InputError(f"{folder}: was begun by {notes['processes']} processes; start as many")
        self.now = Progress(**notes["now"])
        self.now.rounds = [Round.from_json(value) for value in notes["now"]["rounds"]]
        self.coding = self.coding.with_cells(tensors["cells"].numpy())
        self.best_coding = self.coding.with_cells(tensors["best"].numpy())
        parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimiser": {}}
        for name, tensor in tensors.items():
            room, _, rest = name.partition("/")
            if rest:
                parts[room][rest] = tensor
        load_weights(self.model, parts["model"], path)
        restore_optimiser(self.optimiser, parts["optimiser"])
