"""The training loop. What to do next is always a function of the state alone, so a resumed run is the same run."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any, Protocol, TypeVar

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fastmos.data import Batch
from fastmos.errors import InputError
from fastmos.models import Generator
from fastmos.training.checkpoints import weights, write_tensors
from fastmos.training.config import Config, Training
from fastmos.training.distributed import World
from fastmos.training.folder import RunFolder
from fastmos.training.journal import Journal
from fastmos.training.optimisers import best_of, build_optimiser, gradient_norm, rate_at, stale
from fastmos.training.state import Carried, State, load_state, noise_from, save_state
from fastmos.training.validation import Validator

T = TypeVar("T")
HOPELESS = 20  # steps in a row without a finite gradient (a float16 scale that starts too high needs 16 at most)
COLLAPSED = 1.1  # effective number of mixtures below which they are one
PRECISIONS = {"none": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Batches(Protocol):
    """Sentences or running text, in steps."""

    def steps(self, epoch: int) -> int: ...
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]: ...


class Interrupted(BaseException):
    """A signal breaks off what it may; no error, so that nobody takes it for one."""


class Trainer:
    """One run: model, data and state, stepped until it ends."""

    def __init__(
        self, config: Config, folder: RunFolder, world: World, model: Generator, batches: Batches, validator: Validator
    ) -> None:
        self.config, self.folder, self.world = config, folder, world
        self.batches, self.validator = batches, validator
        self.model = model.to(world.device)
        self.parallel: nn.Module = self.model
        if world.size > 1:
            self.parallel = DistributedDataParallel(self.model)
        self.optimiser = build_optimiser(config.training, self.model.parameters())
        self.precision = PRECISIONS[config.training.autocast]
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=self.precision == torch.float16)
        self.carried: Carried = None
        self.asked_to_stop = 0  # a signal's number
        self.breakable = False  # what is being done may be broken off by one
        self.recent = _Recent()

    def begin(self, state: State) -> State:
        """Start with `state`, or with what the folder holds of an earlier start."""
        self.state = state
        if self.folder.state.exists():
            self.state, carried = load_state(
                self.folder.state, state, self.world.rank, self.model, self.optimiser, self.scaler
            )
            self.carried = None if carried is None else tuple(part.to(self.world.device) for part in carried)
        self.world.wait()  # nobody writes before everybody has read
        return self.state

    def run(self, journal: Journal) -> None:
        """Train to the end; a signal saves and leaves."""
        self.journal = journal
        self.groups = self._groups()
        self.group = next(self.groups)  # of the step to come
        with self._listening():
            while not reason_to_end(self.config.training, self.state):
                if validation_due(self.config.training, self.state):
                    done = self._validate()
                    self._save()
                    if not done:
                        self._leave()
                elif not self._step():
                    self._save()
                    self._leave()
                elif self.config.training.save_every and self.state.step % self.config.training.save_every == 0:
                    self._save()

    # ---- one step

    def _groups(self) -> Iterator[list[Batch]]:
        """The batches of each step, from where the state is."""
        epoch, start = self.state.epoch, self.state.batch
        while True:
            batches = self.batches.epoch(epoch, start)
            while group := list(islice(batches, self.config.training.accumulate)):
                yield group
            epoch, start = epoch + 1, 0

    def _step(self) -> bool:
        """Learn from a group of batches; False, and nothing done, if some process was asked to stop."""
        training, state, group = self.config.training, self.state, self.group
        tokens, sentences, stop = self.world.sum(
            [sum(batch.tokens for batch in group), sum(batch.sentences for batch in group), float(self.asked_to_stop)]
        )
        if stop:
            return False
        noise_from(training.seed, state.step, self.world.rank)
        count = tokens if training.normalise == "tokens" else sentences
        loss = self._backward(group, max(count, 1.0))
        self.scaler.unscale_(self.optimiser)
        on_device = gradient_norm(self.model.parameters(), training.clip)
        state.step, state.batch = state.step + 1, state.batch + len(group)
        if state.batch >= self.batches.steps(state.epoch):
            state.epoch, state.batch = state.epoch + 1, 0
        self.group = next(self.groups)  # made while a GPU is still at work
        norm = float(on_device)
        rate = rate_at(training, state.step, state.history)
        if math.isfinite(norm):
            for part in self.optimiser.param_groups:
                part["lr"] = rate
            self.scaler.step(self.optimiser)
            state.streak = 0
        else:
            state.skipped, state.streak = state.skipped + 1, state.streak + 1
        self.scaler.update()
        self.optimiser.zero_grad()
        if state.streak >= HOPELESS:
            raise InputError(
                f"loss or gradient was not finite for {HOPELESS} steps in a row, up to step {state.step}; "
                "lower training.rate or training.clip, and start in another folder"
            )
        self._log(loss, tokens, norm, rate)
        return True

    def _backward(self, group: list[Batch], count: float) -> torch.Tensor:
        """Add up the gradients of the group's loss over `count`, and give the loss of this process, summed."""
        training = self.config.training
        total = torch.zeros((), device=self.world.device)
        for number, batch in enumerate(group, 1):
            apart = isinstance(self.parallel, DistributedDataParallel) and number < len(group)
            with self.parallel.no_sync() if apart else nullcontext():  # type: ignore[operator]
                with torch.autocast(self.world.device.type, self.precision, enabled=self.precision is not None):
                    output, self.carried = self.parallel(
                        batch.to(self.world.device, non_blocking=True),
                        self.carried,
                        label_smoothing=training.smoothing,
                        smoothing=training.smoothing_kind,
                    )
                # DistributedDataParallel takes the mean over processes; we want the sum over the global count.
                self.scaler.scale(output.loss * (self.world.size / count)).backward()
            total += output.loss.detach()
        return total

    def _log(self, loss: torch.Tensor, tokens: float, norm: float, rate: float) -> None:
        self.journal.advance(self.state.step)
        if math.isfinite(norm):
            self.recent.loss, self.recent.tokens = self.recent.loss + loss, self.recent.tokens + tokens
        if self.state.step % self.config.training.log_every and not validation_due(self.config.training, self.state):
            return
        (total,) = self.world.sum([float(self.recent.loss)])
        seconds = time.monotonic() - self.recent.start
        record = {
            "step": self.state.step,
            "epoch": self.state.epoch,
            "loss": total / max(self.recent.tokens, 1.0),
            "gradient": norm,
            "rate": rate,
            "tokens_per_second": self.recent.tokens / seconds,
            "seconds": round(seconds, 2),
            "skipped": self.state.skipped,
        }
        self.journal.progress(record)
        self.recent = _Recent()

    # ---- validation and saving

    def _validate(self) -> bool:
        """Validate and keep the weights; False, and nothing kept, if some process was asked to stop."""
        begin = time.monotonic()
        state = self.state
        try:
            result = self.validator.run(self.model, self.world, self._alone)
        except Interrupted:
            return False
        value = result.value(self.config.training.measure)
        state.history.append((state.step, value if not math.isnan(value) else -math.inf))
        best = best_of(state.history) == len(state.history) - 1
        record = {"step": state.step, "epoch": state.epoch, **result.record(), "best": best}
        self.journal.write({**record, "seconds": round(time.monotonic() - begin, 1)})
        self.journal.say(f"validation at step {state.step:,}: {result.summary()}{' (best)' if best else ''}")
        if result.effective is not None and result.effective < COLLAPSED:
            self.journal.say(
                f"warning: the mixture has collapsed: {result.effective:.2f} of its {len(result.share)} softmaxes "
                "are in use; try another seed or rate, or less dropout"
            )
        if self.world.first:
            if result.translations is not None:
                self.validator.write(self.folder.validation / f"step-{state.step:08d}.txt", result.translations)
            notes = {"step": state.step, "value": value}
            write_tensors(self.folder.checkpoints.path(state.step), weights(self.model), notes)
            if best:
                write_tensors(self.folder.model, weights(self.model), notes)
        self.recent = _Recent()
        return True

    def _save(self) -> None:
        """Write the state, and then remove the checkpoints that it no longer needs."""
        carried = self.world.gather(None if self.carried is None else tuple(part.cpu() for part in self.carried))
        if self.world.first:
            save_state(self.folder.state, self.state, self.model, self.optimiser, self.scaler, carried)
            training = self.config.training
            self.folder.checkpoints.prune(self.state.history, training.keep_best, training.keep_last)

    # ---- signals

    def _alone(self, work: Callable[[], T]) -> T:
        """Do work that a signal breaks off; all processes learn of it afterwards, and break off together."""
        with suppress(Interrupted):
            self.breakable = True
            if not self.asked_to_stop:
                result = work()
            self.breakable = False
        (stop,) = self.world.sum([float(self.asked_to_stop)])
        if stop:
            raise Interrupted
        return result

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the step, or a validation at once, and save; a Ctrl-C after that does not even save.

        A second SIGTERM changes nothing: torchrun hands on one that its processes were sent already.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self.asked_to_stop and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked_to_stop = number
            if self.breakable:
                self.breakable = False
                raise Interrupted

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _leave(self) -> None:
        self.journal.say(f"saved at step {self.state.step:,}; the same command goes on from here")
        if self.asked_to_stop == signal.SIGTERM:
            sys.exit(128 + signal.SIGTERM)
        raise KeyboardInterrupt


class _Recent:
    """What happened since the last line of the log."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.loss: torch.Tensor | float = 0.0
        self.tokens = 0.0


def validation_due(training: Training, state: State) -> bool:
    """Is it time to validate, and not done yet?"""
    if not state.step or (state.history and state.history[-1][0] == state.step):
        return False
    if _at_limit(training, state):
        return True
    return state.batch == 0 if not training.validate_every else state.step % training.validate_every == 0


def reason_to_end(training: Training, state: State) -> str:
    """Why a run is over; empty if it is not, or not validated yet."""
    if not state.history or state.history[-1][0] != state.step:
        return ""
    if training.patience and stale(state.history) >= training.patience:
        return f"no new best in {training.patience} validations"
    return "all steps done" if _at_limit(training, state) else ""


def _at_limit(training: Training, state: State) -> bool:
    return bool(
        (training.steps and state.step >= training.steps) or (training.epochs and state.epoch >= training.epochs)
    )
