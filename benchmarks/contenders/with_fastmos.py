"""fastmos as a contender of side_by_side.py: its own trainer, its own beam search. Runs in fastmos's environment."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from serve import serve

from fastmos.codings import WordCoding
from fastmos.data import SentenceBatches, decoding_batch, encode_files
from fastmos.files import read_lines
from fastmos.search import beam_search
from fastmos.training.build import Pair, build_model, training_batches
from fastmos.training.config import Config, parse_config
from fastmos.training.distributed import World
from fastmos.training.folder import RunFolder
from fastmos.training.journal import Journal
from fastmos.training.loop import Trainer
from fastmos.training.state import State
from fastmos.training.validation import Validator


class Fastmos:
    """A trainer whose steps are taken one by one."""

    def __init__(self, spec: dict[str, Any]) -> None:
        folder = Path(spec["folder"])
        self.source, self.target = (WordCoding(list(read_lines(folder / f"words.{side}"))) for side in ("de", "en"))
        self.lines = list(read_lines(folder / "test.de"))
        config = config_of(spec)
        pair = Pair(
            encode_files([folder / "train.de"], self.source, folder / "cache"),
            encode_files([folder / "train.en"], self.target, folder / "cache"),
        )
        batches = training_batches(config, pair, rank=0, world=1)
        assert isinstance(batches, SentenceBatches)
        run = RunFolder(folder / spec["name"])
        world = World(0, 1, torch.device("cpu"))
        self.model = build_model(config, self.source, self.target)
        self.trainer = Trainer(config, run, world, self.model, batches, Validator(config, pair, self.target, []))
        self.trainer.begin(State("", 1))
        self.trainer.journal = Journal(run.root, run.log, 0, 0, None, silent=True)
        self.groups = self.trainer._groups()

    def train(self, steps: int) -> dict[str, float]:
        self.model.train()
        recent = self.trainer.recent
        tokens, loss = recent.tokens, float(recent.loss)
        for _ in range(steps):
            self.trainer._step(next(self.groups))
        tokens, loss = recent.tokens - tokens, float(recent.loss) - loss
        return {"tokens": tokens, "loss": loss / tokens}

    def translate(self, beam: int, batch: int, shortest: int, longest: int) -> dict[str, float]:
        self.model.eval()
        sources = self.source.encode_lines(self.lines)
        found = []
        for first in range(0, len(sources), batch):
            found += beam_search(
                self.model,
                self.target,
                decoding_batch(sources[first : first + batch]),
                beam=beam,
                normalise="none",
                min_length=min(shortest, longest - 1),
                max_length=longest - 1,  # our lengths leave eos out, which takes a step
            )
        texts = self.target.decode_lines([hypotheses[0].codes for hypotheses in found])
        return {"lines": len(texts), "codes": sum(len(text.split()) for text in texts)}


def config_of(spec: dict[str, Any]) -> Config:
    """The experiment as `fastmos train` would have it."""
    lstm = spec["body"] == "lstm"
    model = {
        "kind": spec["body"],
        "width": spec["width"],
        "layers": spec["layers"],
        "dropout": spec["dropout"],
        "embedding_dropout": spec["dropout"] if lstm else 0.0,
        "inner": spec["inner"],
        "inner_dropout": 0.0 if lstm else spec["dropout"],
        "heads": spec["heads"],
        "norm": "pre",
    }
    mixtures = spec["mixtures"]
    training = {
        "rate": spec["rate"],
        "batch_tokens": spec["tokens"],
        "clip": spec["clip"],
        "seed": spec["seed"],
        "log_every": 10**9,
    }
    head = {"kind": "softmax" if mixtures == 1 else "mos", "mixtures": mixtures}
    return parse_config({"model": model, "head": head, "training": training}, "side_by_side.py")


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(Fastmos(json.loads(sys.argv[1])))
