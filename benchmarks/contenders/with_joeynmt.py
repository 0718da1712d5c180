"""JoeyNMT 2.3 as a contender of side_by_side.py: its TrainManager's step, its `predict`. Runs in its environment."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import joeynmt.prediction
import torch
from joeynmt.batch import Batch
from joeynmt.config import parse_global_args
from joeynmt.prediction import predict, prepare
from joeynmt.search import search
from joeynmt.training import TrainManager
from serve import serve
from torch.utils.data import DataLoader


class JoeyNMT:
    """A TrainManager whose steps are taken one by one."""

    def __init__(self, spec: dict[str, Any]) -> None:
        folder = Path(spec["folder"])
        args = parse_global_args(config_of(spec, folder), rank=0, mode="train")
        args.model_dir.mkdir()
        self.model, self.data, _, self.test = prepare(args, rank=0, mode="train")
        self.args = args
        self.manager = TrainManager(
            rank=0,
            model=self.model,
            model_dir=args.model_dir,
            device=args.device,
            n_gpu=args.n_gpu,
            num_workers=args.num_workers,
            autocast=args.autocast,
            seed=args.seed,
            train_args=args.train,
            dev_args=args.test,
        )
        self.batches = self.endless(json.loads((folder / "batches.json").read_text()) if spec["given"] else None)

    def endless(self, given: list[list[int]] | None) -> Iterator[Batch]:
        """Its own batches, drawn anew each epoch; or the lines it is given for each batch, collated as its own are."""
        indices = {"pad_index": self.model.pad_index, "eos_index": self.model.eos_index, "device": self.args.device}
        own = self.data.make_iter(
            batch_size=self.args.train.batch_size,
            batch_type=self.args.train.batch_type,
            seed=self.args.seed,
            shuffle=True,
            **indices,
        )
        if given is not None:
            own = DataLoader(self.data, batch_sampler=given, collate_fn=partial(self.data.collate_fn, **indices))
        while True:
            yield from own

    def train(self, steps: int) -> dict[str, float]:
        """What `TrainManager.train_and_validate` does between two log lines."""
        manager, tokens, loss = self.manager, 0, 0.0
        for _ in range(steps):
            batch = next(self.batches)
            mean, _ = manager._train_step(batch)
            manager.clip_grad_fun(parameters=self.model.parameters())
            manager.optimizer.step()
            self.model.zero_grad()
            tokens, loss = tokens + batch.ntokens, loss + mean * batch.ntokens
        return {"tokens": tokens, "loss": loss / tokens}

    def translate(self, beam: int, batch: int, shortest: int, longest: int) -> dict[str, float]:
        # `predict` does not pass the least length on, so `search` gets it here.
        joeynmt.prediction.search = partial(search, min_output_length=shortest)
        args = self.args.test._replace(
            beam_size=beam, batch_size=batch, batch_type="sentence", beam_alpha=0.0, max_output_length=longest
        )
        _, _, texts, _, _, _ = predict(
            self.model, self.test, self.args.device, self.args.n_gpu, args=args, autocast=self.args.autocast
        )
        return {"lines": len(texts), "tokens": sum(len(text.split()) for text in texts)}


def config_of(spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The experiment as `joeynmt train` would have it."""
    width, dropout = spec["hidden_size"], spec["dropout"]
    embeddings = {"embedding_dim": width, "dropout": dropout}
    if spec["body"] == "lstm":
        both = {"type": "recurrent", "rnn_type": "lstm", "num_layers": spec["num_layers"], "embeddings": embeddings}
        encoder = {**both, "hidden_size": width // 2, "bidirectional": True}
        decoder = {
            **both,
            "hidden_size": width,
            "hidden_dropout": dropout,
            "attention": "luong",
            "input_feeding": False,
            "init_hidden": "last",
        }
    else:
        encoder = decoder = {
            "type": "transformer",
            "num_layers": spec["num_layers"],
            "num_heads": spec["num_heads"],
            "hidden_size": width,
            "ff_size": spec["ffn_size"],
            "dropout": dropout,
            "layer_norm": "pre",
            "embeddings": {**embeddings, "scale": True},
        }
    return {
        "name": "side by side",
        "model_dir": str(folder / spec["name"]),
        "use_cuda": False,
        "random_seed": spec["seed"],
        "data": {
            "train": str(folder / "train"),
            "test": str(folder / "test"),
            "dataset_type": "plain",
            "src": {"lang": "de", "level": "word", "voc_file": str(folder / "words.de")},
            "trg": {"lang": "en", "level": "word", "voc_file": str(folder / "words.en")},
        },
        "model": {"encoder": encoder, "decoder": dict(decoder)},
        "training": {
            "optimizer": "adam",
            "learning_rate": spec["learning_rate"],
            "scheduling": "decaying",  # at epochs, of which `train` knows nothing: the rate is constant
            "clip_grad_norm": spec["clip_grad_norm"],
            "normalization": "tokens",
            "batch_size": spec["tokens"],
            "batch_type": "token",
        },
        "testing": {},
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    serve(JoeyNMT(json.loads(sys.argv[1])))
