"""fastmos as a contender of side_by_side.py: its own trainer, its own beam search. Runs in fastmos's environment."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from serve import serve
from torch import Tensor

from fastmos.config import Config, parse_config
from fastmos.data.batches import Batch, decoding_batch
from fastmos.distributed import World
from fastmos.files import read_lines
from fastmos.heads import PartialLogProbs
from fastmos.models import Generator
from fastmos.run_folder import RunFolder
from fastmos.search import beam_search
from fastmos.tasks.evaluation import Evaluation
from fastmos.tasks.translation import Translation
from fastmos.tokenizers import EOS, WordTokenizer
from fastmos.training.run_log import RunLog
from fastmos.training.state import State
from fastmos.training.trainer import Trainer


class Fastmos:
    """A trainer whose steps are taken one by one."""

    def __init__(self, spec: dict[str, Any]) -> None:
        folder = Path(spec["folder"])
        self.lines = list(read_lines(folder / "test.de"))
        config, run = config_of(spec), RunFolder(folder / spec["name"])
        run.root.mkdir()
        for side, path in (("de", run.source), ("en", run.target)):
            WordTokenizer(list(read_lines(folder / f"words.{side}"))).save(path)
        task = Translation(config, folder, run)
        self.source, self.target = task.tokenizers
        data = task.dataset("train")
        task.choose_shortlist(data)
        batches, self.model = task.training_batches(data, rank=0, world=1), task.build_model()
        world = World(0, 1, torch.device("cpu"))
        self.trainer = Trainer(config.training, run, world, self.model, batches, no_validation)
        self.trainer.begin(State("", 1))
        self.trainer.start(RunLog(run.root, run.log, 0, 0, None, silent=True))

    def train(self, steps: int) -> dict[str, float]:
        self.model.train()
        recent = self.trainer.recent
        tokens, loss = recent.tokens, float(recent.loss)
        for _ in range(steps):
            self.trainer.step()
        tokens, loss = recent.tokens - tokens, float(recent.loss) - loss
        return {"tokens": tokens, "loss": loss / tokens}

    def translate(self, beam: int, batch: int, shortest: int, longest: int) -> dict[str, float]:
        self.model.eval()
        sources = self.source.encode_lines(self.lines)
        found = []
        for first in range(0, len(sources), batch):
            found += beam_search(
                AtLeast(self.model, min(shortest, longest - 1)),
                self.target,
                decoding_batch(sources[first : first + batch]),
                beam_size=beam,
                max_length=longest - 1,  # our lengths leave eos out, which takes a step
            )
        texts = self.target.decode_lines([hypotheses[0].tokens for hypotheses in found])
        return {"lines": len(texts), "tokens": sum(len(text.split()) for text in texts)}


class AtLeast:
    """A model that does not end an output before it has so many tokens."""

    def __init__(self, model: Generator, tokens: int) -> None:
        self.model, self.tokens = model, tokens

    def start(self, batch: Batch) -> tuple[Any, int]:
        return self.model.start(batch), 0

    def step(self, tokens: Tensor, state: tuple[Any, int]) -> tuple[Any, tuple[Any, int]]:
        inner, time = state
        log_probs, inner = self.model.step(tokens, inner)
        if time < self.tokens:  # eos is on every shortlist
            known = log_probs.known if isinstance(log_probs, PartialLogProbs) else log_probs
            known[:, EOS] = -torch.inf
        return log_probs, (inner, time + 1)

    def reorder(self, state: tuple[Any, int], rows: Tensor, sentences: Tensor | None = None) -> tuple[Any, int]:
        return self.model.reorder(state[0], rows, sentences), state[1]


def no_validation(*_: Any) -> Evaluation:
    raise AssertionError("nothing is validated here")


def config_of(spec: dict[str, Any]) -> Config:
    """The experiment as `fastmos train` would have it."""
    model = {"hidden_size": spec["hidden_size"], "num_layers": spec["num_layers"], "dropout": spec["dropout"]}
    if spec["body"] == "lstm":
        model |= {"type": "attention-lstm", "embedding_dropout": spec["dropout"]}
    else:
        model |= {"type": "transformer", "norm": "pre", "ffn_dropout": spec["dropout"]}
        model |= {"ffn_size": spec["ffn_size"], "num_heads": spec["num_heads"]}
    training = {
        "learning_rate": spec["learning_rate"],
        "batch_tokens": spec["tokens"],
        "clip_grad_norm": spec["clip_grad_norm"],
        "seed": spec["seed"],
        "log_every": 10**9,
    }
    data = {"train": {"source": "train.de", "target": "train.en"}, "cache": "cache"}
    config = {"task": "translation", "data": data, "model": model, "head": spec["head"], "training": training}
    return parse_config(config, "side_by_side.py")


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(Fastmos(json.loads(sys.argv[1])))
