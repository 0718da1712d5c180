"""The training loop. What to do next depends on the state alone, so a resumed run is the same run."""

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

from fastmos.checkpoints import weights, write_tensors
from fastmos.config import Training
from fastmos.data.batches import Batch
from fastmos.distributed import World
from fastmos.errors import InputError
from fastmos.metrics.likelihood import perplexity
from fastmos.models import Generator
from fastmos.run_folder import RunFolder
from fastmos.tasks.evaluation import Evaluation, Interruptible, write_lines
from fastmos.training.optimizers import (
    best_of,
    build_optimizer,
    clip_gradients,
    learning_rate_at,
    validations_since_best,
)
from fastmos.training.run_log import RunLog
from fastmos.training.state import Carried, State, load_state, noise_from, save_state

T = TypeVar("T")
HOPELESS = 20  # steps in a row without a finite gradient (a float16 scale that starts too high needs 16 at most)
DIVERGED = 100.0  # NLL of a token; a guess among a million tokens has 14
DIVERGED_WORD = 100 * DIVERGED  # NLL of a word, which may have many tokens
REQUEUE = 75  # the exit code of a run that saved and wants to be started again (EX_TEMPFAIL of sysexits.h)
PREEMPTING = {signal.SIGTERM, getattr(signal, "SIGUSR1", signal.SIGTERM)}  # Windows has no SIGUSR1
COLLAPSED = 1.1  # effective number of mixtures below which they are one
PRECISIONS = {"none": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Batches(Protocol):
    """Sentences or running text, in steps."""

    def steps(self, epoch: int) -> int: ...
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]: ...


class Validate(Protocol):
    """Evaluates the model on the validation data, all processes together."""

    def __call__(self, model: Generator, world: World, interruptible: Interruptible) -> Evaluation: ...


class Interrupted(BaseException):
    """A signal interrupts what may be interrupted; not an Exception, so that nobody handles it as an error."""


class Trainer:
    """One run: model, data and state, stepped until it ends."""

    def __init__(
        self,
        training: Training,
        folder: RunFolder,
        world: World,
        model: Generator,
        batches: Batches,
        validate: Validate,
    ) -> None:
        self.training, self.folder, self.world = training, folder, world
        self.batches, self.validate = batches, validate
        self.model = model.to(world.device)
        self.parallel: nn.Module = self.model
        if world.size > 1:
            self.parallel = DistributedDataParallel(self.model)
        self.optimizer = build_optimizer(training, self.model.parameters())
        self.precision = PRECISIONS[training.autocast]
        self._check_precision()
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=self.precision == torch.float16)
        self.carried: Carried = None
        self.asked_to_stop = 0  # a signal's number
        self.interruptible = False  # may what is being done be interrupted by one?

    def _check_precision(self) -> None:
        """Refuse a precision that this device has no LSTM for: a CPU has none in float16."""
        if self.precision is None or not any(isinstance(part, nn.LSTM) for part in self.model.modules()):
            return
        try:
            with torch.no_grad(), torch.autocast(self.world.device.type, self.precision):
                nn.LSTM(8, 8, device=self.world.device)(torch.zeros(1, 1, 8, device=self.world.device))
        except RuntimeError:
            device, asked = self.world.device.type, self.training.autocast
            raise InputError(f"training.autocast {asked} has no LSTM on this {device}; use bf16 or none") from None

    def begin(self, state: State) -> State:
        """Start with `state`, or with what the folder holds of an earlier start."""
        self.state = state
        if self.folder.state.exists():
            self.state, carried = load_state(
                self.folder.state, state, self.world.rank, self.model, self.optimizer, self.scaler
            )
            self.carried = None if carried is None else tuple(part.to(self.world.device) for part in carried)
        self.world.wait()  # nobody writes before everybody has read
        return self.state

    def start(self, run_log: RunLog) -> None:
        """Get ready for the first step."""
        self.run_log, self.recent = run_log, _Recent()
        self.model.train()
        self.groups = self._groups()
        self.group = next(self.groups)  # of the step to come

    def run(self, run_log: RunLog) -> None:
        """Train to the end; a signal saves and leaves."""
        self.start(run_log)
        with self._listening():
            while not reason_to_end(self.training, self.state):
                if validation_due(self.training, self.state):
                    done = self._validate()
                    self._save()
                    if not done:
                        self._leave()
                elif not self.step():
                    self._save()
                    self._leave()
                elif self.training.save_every and self.state.step % self.training.save_every == 0:
                    self._save()

    # ---- one step

    def _groups(self) -> Iterator[list[Batch]]:
        """The batches of each step, from where the state is."""
        epoch, start = self.state.epoch, self.state.batch
        while True:
            batches = self.batches.epoch(epoch, start)
            while group := list(islice(batches, self.training.accumulate_steps)):
                yield group
            epoch, start = epoch + 1, 0

    def step(self) -> bool:
        """Learn from a group of batches; False, and nothing done, if some process was asked to stop."""
        training, state, group = self.training, self.state, self.group
        tokens, sentences, stop = self.world.sum(
            [
                sum(batch.num_tokens for batch in group),
                sum(batch.sentences for batch in group),
                float(self.asked_to_stop),
            ]
        )
        if stop:
            return False
        noise_from(training.seed, state.step, self.world.rank)
        count = tokens if training.loss_normalization == "tokens" else sentences
        loss, nll = self._backward(group, max(count, 1.0))
        self.scaler.unscale_(self.optimizer)
        on_device = clip_gradients(self.model.parameters(), training.clip_grad_norm)
        state.step, state.batch = state.step + 1, state.batch + len(group)
        if state.batch >= self.batches.steps(state.epoch):
            state.epoch, state.batch = state.epoch + 1, 0
        self.group = next(self.groups)  # made while a GPU is still at work
        norm = float(on_device)
        learning_rate = learning_rate_at(training, state.step, state.history)
        if math.isfinite(norm):
            for part in self.optimizer.param_groups:
                part["lr"] = learning_rate
            self.scaler.step(self.optimizer)
            state.streak = 0
        else:
            state.skipped, state.streak = state.skipped + 1, state.streak + 1
        self.scaler.update()
        self.optimizer.zero_grad()
        if state.streak >= HOPELESS:
            raise InputError(
                f"loss or gradient was not finite for {HOPELESS} steps in a row, up to step {state.step}; "
                "lower training.learning_rate or training.clip_grad_norm, and start in another folder"
            )
        self._log(loss, nll, tokens, norm, learning_rate)
        return True

    def _backward(self, group: list[Batch], count: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Add up the gradients of the group's loss over `count`; gives loss and NLL of this process, summed."""
        training = self.training
        loss, nll = torch.zeros(2, device=self.world.device)
        for number, batch in enumerate(group, 1):
            apart = isinstance(self.parallel, DistributedDataParallel) and number < len(group)
            with self.parallel.no_sync() if apart else nullcontext():  # type: ignore[operator]
                with torch.autocast(self.world.device.type, self.precision, enabled=self.precision is not None):
                    output, self.carried = self.parallel(
                        batch.to(self.world.device, non_blocking=True),
                        self.carried,
                        label_smoothing=training.label_smoothing,
                        label_smoothing_kind=training.label_smoothing_kind,
                    )
                # DistributedDataParallel takes the mean over processes; we want the sum over the global count.
                self.scaler.scale(output.loss * (self.world.size / count)).backward()
            loss += output.loss.detach()
            nll += output.nll.sum()
        return loss, nll

    def _log(self, loss: torch.Tensor, nll: torch.Tensor, tokens: float, norm: float, learning_rate: float) -> None:
        self.run_log.advance(self.state.step)
        if math.isfinite(norm):
            self.recent.add(loss, nll, tokens)
        if self.state.step % self.training.log_every and not validation_due(self.training, self.state):
            return
        total, total_nll = self.world.sum([float(self.recent.loss), float(self.recent.nll)])
        seconds, count = time.monotonic() - self.recent.start, self.recent.tokens
        record = {
            "step": self.state.step,
            "epoch": self.state.epoch,
            "loss": total / count if count else None,  # all steps were skipped
            "perplexity": perplexity(total_nll / count) if count else None,
            "grad_norm": norm,
            "learning_rate": learning_rate,
            "tokens_per_second": self.recent.tokens / seconds,
            "seconds": round(seconds, 2),
            "skipped": self.state.skipped,
        }
        self.run_log.progress(record)
        self.recent = _Recent()
        if count:
            self._check_convergence(total_nll / count, DIVERGED)

    def _check_convergence(self, nll: float, limit: float) -> None:
        """Stop a run that has diverged, before its weights take the place of good ones."""
        if nll < limit:  # also false of nan
            return
        best = max(self.state.history, key=lambda item: item[1], default=None)
        kept = f"the best weights, of step {best[0]}, are in {self.folder.model}" if best else "no weights were kept"
        raise InputError(
            f"training has diverged: NLL {nll:.4g} at step {self.state.step}; {kept}; "
            "lower training.learning_rate, and start in another folder"
        )

    # ---- validation and saving

    def _evaluate(self) -> Evaluation:
        training = self.model.training
        result = self.validate(self.model, self.world, self._interruptibly)
        self.model.train(training)
        return result

    def _validate(self) -> bool:
        """Validate and keep the weights; False, and nothing kept, if some process was asked to stop."""
        begin = time.monotonic()
        state = self.state
        try:
            result = self._evaluate()
        except Interrupted:
            return False
        self._check_convergence(result.likelihood.nll_per_word, DIVERGED_WORD)
        value = result.metric(self.training.early_stopping_metric)
        state.history.append((state.step, value if not math.isnan(value) else -math.inf))
        best = best_of(state.history) == len(state.history) - 1
        record = {"step": state.step, "epoch": state.epoch, **result.record(), "best": best}
        self.run_log.write({**record, "seconds": round(time.monotonic() - begin, 1)})
        self.run_log.say(f"validation at step {state.step:,}: {result.headline()}{' (best)' if best else ''}")
        usage = result.usage
        if usage is not None and len(usage.share) > 1 and usage.effective < COLLAPSED:
            self.run_log.say(
                f"warning: the mixture has collapsed: {usage.effective:.2f} of its {len(usage.share)} softmaxes "
                "are in use; try another seed or learning rate, or less dropout"
            )
        if self.world.first:
            if result.outputs is not None:
                write_lines(self.folder.validation / f"step-{state.step:08d}.txt", result.outputs)
            notes = {"step": state.step, "value": value, "inputs": self.folder.digests()}
            write_tensors(self.folder.checkpoints.path(state.step), weights(self.model), notes)
            if best:
                write_tensors(self.folder.model, weights(self.model), notes)
        self.recent = _Recent()
        return True

    def _save(self) -> None:
        """Write the state, and then remove the checkpoints that it no longer needs."""
        carried = self.world.gather(None if self.carried is None else tuple(part.cpu() for part in self.carried))
        if self.world.first:
            save_state(self.folder.state, self.state, self.model, self.optimizer, self.scaler, carried)
            training = self.training
            self.folder.checkpoints.prune(self.state.history, training.keep_best, training.keep_last)

    # ---- signals

    def _interruptibly(self, work: Callable[[], T]) -> T:
        """Do work that a signal interrupts; all processes learn of it afterwards, and stop together."""
        with suppress(Interrupted):
            self.interruptible = True
            if not self.asked_to_stop:
                result = work()
            self.interruptible = False
        (stop,) = self.world.sum([float(self.asked_to_stop)])
        if stop:
            raise Interrupted
        return result

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Ctrl-C, SIGTERM and SIGUSR1 end the step, or a validation at once, and save; a Ctrl-C after that does not.

        A second SIGTERM changes nothing: torchrun hands on one that its processes were sent already.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: Any) -> None:
            if self.asked_to_stop and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.asked_to_stop = number
            if self.interruptible:
                self.interruptible = False
                raise Interrupted

        before = {number: signal.signal(number, stop) for number in {signal.SIGINT, *PREEMPTING}}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _leave(self) -> None:
        self.run_log.say(f"saved at step {self.state.step:,}; the same command resumes from here")
        if PREEMPTING & set(self.world.gather(self.asked_to_stop)):
            sys.exit(REQUEUE)
        raise KeyboardInterrupt


class _Recent:
    """What happened since the last line of the log."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.loss: torch.Tensor | float = 0.0
        self.nll: torch.Tensor | float = 0.0
        self.tokens = 0.0

    def add(self, loss: torch.Tensor, nll: torch.Tensor, tokens: float) -> None:
        self.loss, self.nll, self.tokens = self.loss + loss, self.nll + nll, self.tokens + tokens


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
    if training.early_stopping_patience and validations_since_best(state.history) >= training.early_stopping_patience:
        return f"no new best in {training.early_stopping_patience} validations"
    return "all steps done" if _at_limit(training, state) else ""


def _at_limit(training: Training, state: State) -> bool:
    return bool(
        (training.max_steps and state.step >= training.max_steps)
        or (training.max_epochs and state.epoch >= training.max_epochs)
    )
