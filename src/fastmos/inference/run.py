"""A trained run: `fastmos.load("runs/x")` translates, captions, samples, scores and evaluates."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import torch

from fastmos.checkpoints import average_weights, load_weights, read_tensors, write_tensors
from fastmos.config import Config, Search
from fastmos.distributed import World
from fastmos.errors import InputError
from fastmos.files import folder_written_whole
from fastmos.models import Generator, packed
from fastmos.progress import progress
from fastmos.run_folder import RunFolder
from fastmos.search import Hypothesis
from fastmos.tasks import Task, build_task
from fastmos.tasks.base import Split
from fastmos.tasks.evaluation import Evaluation, Evaluator
from fastmos.tokenizers import Tokenizer

if TYPE_CHECKING:
    from PIL.Image import Image

    from fastmos.vision.backbones import Backbone

Overlong = Literal["cut", "refuse"]


@dataclass(frozen=True)
class Output:
    """One output: a translation of a line, or a caption of an image."""

    text: str
    log_prob: float  # of its tokens and eos
    score: float  # with the length penalty: what the search ranks by
    tokens: Sequence[int] = ()  # without eos


def load(folder: Path | str, device: str | None = None, *, int8: bool = False) -> "Run":
    """The model of a run folder, ready for use, on `device` (by default the first GPU, or the CPU).

    With `int8`, it searches with weights of 8 bits, faster on a CPU; `score` and likelihoods stay those of all bits.
    """
    where = RunFolder(Path(folder))
    config, base = where.read()
    task = build_task(config, base, where)
    model = task.build_model()
    load_weights(model, where.read_weights(), where.model)
    place = _device(device)
    run = Run(task, model.to(place).eval(), place, int8)
    if int8:
        _ = run.searched  # a device that cannot is refused now
    return run


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device '{name}' cannot be used here ({str(error).splitlines()[0]}); try cpu") from None
    return device


@dataclass(frozen=True)
class Run:
    """A trained model with its task. What the task cannot do is refused in a sentence."""

    task: Task
    model: Generator
    device: torch.device
    int8: bool = False

    @cached_property
    def searched(self) -> Generator:
        """The model as it is searched: packed."""
        return packed(self.model, self.int8)

    @property
    def config(self) -> Config:
        return self.task.config

    @property
    def target(self) -> Tokenizer:
        """The tokenizer of the outputs."""
        return self.task.target

    @overload
    def translate(
        self, lines: Sequence[str], *, beam_size: int | None = None, overlong: Overlong = "cut"
    ) -> list[str]: ...

    @overload
    def translate(
        self, lines: Sequence[str], *, nbest: int, beam_size: int | None = None, overlong: Overlong = "cut"
    ) -> list[list[Output]]: ...

    def translate(
        self,
        lines: Sequence[str],
        *,
        nbest: int | None = None,
        beam_size: int | None = None,
        overlong: Overlong = "cut",
    ) -> list[str] | list[list[Output]]:
        """The best translation of each line; with `nbest`, lists of at most that many different ones, best first.

        Empty lines stay empty. Lines longer than training allowed are cut, with a warning that counts them, or refused.
        """
        search, wanted = self._search(beam_size, nbest)
        return self._texts(self.task.translate(self.searched, lines, search, wanted, overlong), nbest)

    @overload
    def caption(self, images: "Sequence[Image]", *, beam_size: int | None = None) -> list[str]: ...

    @overload
    def caption(self, images: "Sequence[Image]", *, nbest: int, beam_size: int | None = None) -> list[list[Output]]: ...

    def caption(
        self, images: "Sequence[Image]", *, nbest: int | None = None, beam_size: int | None = None
    ) -> list[str] | list[list[Output]]:
        """The best caption of each PIL image; with `nbest`, lists of at most that many different ones, best first."""
        search, wanted = self._search(beam_size, nbest)
        return self._texts(self.task.caption(self.searched, images, search, wanted), nbest)

    @property
    def backbone(self) -> "Backbone":
        """The network whose features a captioner reads."""
        return self.task.backbone

    def caption_features(
        self, features: torch.Tensor, *, nbest: int = 1, beam_size: int | None = None
    ) -> list[list[Output]]:
        """The best captions of images whose features [I, F] the run's backbone made."""
        search, wanted = self._search(beam_size, nbest)
        return self._outputs(self.task.caption_features(self.searched, features, search, wanted), nbest)

    def sample(
        self, lines: int, *, temperature: float = 1.0, top_p: float | None = None, seed: int = 0, prompt: str = ""
    ) -> list[str]:
        """Lines sampled from a language model; with a prompt, what may follow it on its line."""
        found = self.task.sample(self.searched, lines, temperature, top_p, seed, prompt)
        return self.target.decode_lines([hypothesis.tokens for hypothesis in found])

    def score(self, sources: Sequence[str] | None, targets: Sequence[str]) -> list[float]:
        """The log-probability of each target line, eos included, given its source; a language model has no sources."""
        return self.task.score(self.model, sources, targets)

    def evaluate(
        self,
        split: Split = "test",
        *,
        sources: Sequence[str] | None = None,
        references: Sequence[str] | None = None,
        beam_size: int | None = None,
        language: str | None = None,
    ) -> Evaluation:
        """Likelihood, and the metrics of the outputs, on the lines given or else on a split of the config.

        With the `language` of text that Moses has tokenized, also the two kinds of BLEU that are usual for WMT.
        """
        data = self.task.evaluation_data(split, sources, references)
        world = World(0, 1, self.device)

        def show(groups: list[list[int]], count: int) -> object:
            return progress(groups, "decoding, batches", count) if count > 1 else groups

        search, _ = self._search(beam_size, None)
        evaluator = Evaluator(self.model, self.target, search, world, show=show, int8=self.int8)  # type: ignore[arg-type]
        return self.task.evaluate(data, evaluator, language)

    def _search(self, beam_size: int | None, nbest: int | None) -> tuple[Search, int]:
        """The config's search, but with this beam, or one that is large enough; and how many outputs to ask it for.

        Different tokens may decode to the same text, so for `nbest` texts all that the beam finds are asked for.
        """
        count = 1 if nbest is None else nbest
        size = max(self.config.search.beam_size, count) if beam_size is None else beam_size
        if not 1 <= count <= size:
            raise InputError(f"nbest is {count} and beam_size {size}; 1 <= nbest <= beam_size is needed")
        return self.config.search.model_copy(update={"beam_size": size}), 1 if count == 1 else size

    def _texts(self, found: list[list[Hypothesis]], nbest: int | None) -> list[str] | list[list[Output]]:
        outputs = self._outputs(found, nbest or 1)
        return [best[0].text for best in outputs] if nbest is None else outputs

    def _outputs(self, found: list[list[Hypothesis]], nbest: int) -> list[list[Output]]:
        """The best outputs of each input, no text twice."""
        texts = iter(self.target.decode_lines([hypothesis.tokens for best in found for hypothesis in best]))
        outputs = []
        for best in found:
            different: dict[str, Output] = {}
            for one in best:
                text = next(texts)
                different.setdefault(text, Output(text, one.log_prob, one.score, one.tokens))
            outputs.append(list(different.values())[:nbest])
        return outputs


def average(folder: Path, output: Path, *, last: int = 0, best: int = 0) -> list[int]:
    """Make a run folder with the mean of another's last, or best, checkpoints; gives the steps that were averaged."""
    where = RunFolder(folder)
    config, base = where.read()
    steps = where.checkpoints.steps()
    if best:
        values = {step: read_tensors(where.checkpoints.path(step))[1]["value"] for step in steps}
        steps.sort(key=lambda step: (values[step], -step))  # of equals the first, as everywhere
    count, kept = best or last, config.training.keep_best if best else config.training.keep_last
    if not 1 <= count <= min(kept, len(steps)):
        have = f"keeps the {'best' if best else 'last'} {kept} checkpoints and has {len(steps)} in all"
        raise InputError(f"{folder}: {have}, so {count} cannot be averaged; see training.keep_last and keep_best")
    chosen = steps[len(steps) - count :]
    mean = average_weights([where.checkpoints.path(step) for step in chosen])
    if output.exists():
        raise InputError(f"{output}: exists; give another --output")
    with folder_written_whole(output) as aside:
        new = RunFolder(aside)
        for part, copy in zip(where.inputs, new.inputs, strict=True):
            if part.exists():
                shutil.copyfile(part, copy)
        write_tensors(new.model, mean, {"averaged": sorted(chosen), "inputs": new.digests()})
        new.write(config, base)
    return sorted(chosen)
