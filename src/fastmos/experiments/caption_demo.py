"""Captioning at work: a small NIC with a mixture learns to describe generated drawings, and describes new ones."""

import math
import random
from dataclasses import dataclass
from pathlib import Path

from fastmos.training.config import Config, parse_config

SPLITS = ("train", "valid", "test")
NEW = 12  # drawings that are described at the end
CAPTIONS = 5  # of each
BATCH = 64  # captions


@dataclass(frozen=True)
class Size:
    """How large a demo is; the full one takes two cores about two minutes."""

    train: int = 2000  # drawings, with five captions each
    held_out: int = 100  # for validation, and as many for the test
    epochs: int = 24
    width: int = 128
    mixtures: int = 3
    seed: int = 1


def config_of(size: Size) -> Config:
    """The experiment; paths are relative to the demo's folder."""
    splits = {split: {"source": f"data/{split}.txt", "target": "data/captions.txt"} for split in SPLITS}
    return parse_config(
        {
            "task": "captioning",
            "data": {**splits, "features": "features.safetensors"},
            "codings": {"target": {"kind": "words", "codes": 100}},
            "model": {"kind": "lstm", "width": size.width, "dropout": 0.2, "init": 0.2},
            "head": {"kind": "mos", "mixtures": size.mixtures, "near_softmax": True},
            "training": {
                "rate": 0.003,
                "schedule": "linear",
                "batch_sentences": BATCH,
                "epochs": 0,
                "steps": size.epochs * math.ceil(CAPTIONS * size.train / BATCH),
                "measure": "nats",
                "seed": size.seed,
            },
            "search": {"beam": 5, "max_length": 20},
        },
        "demo",
    )


def demo(folder: Path, size: Size = Size()) -> None:  # noqa: B008 (frozen)
    """Draw, train, judge, describe new drawings; an interrupted demo goes on."""
    from fastmos.data.backbones import extract, load_backbone
    from fastmos.data.scenes import draw_scene, is_true, make_scene, write_scenes
    from fastmos.data.sheet import write_sheet
    from fastmos.training import experiment
    from fastmos.training.run import load

    data, run = folder / "data", folder / "run"
    if not (data / "captions.txt").is_file():
        write_scenes(data, train=size.train, valid=size.held_out, test=size.held_out)
    if not (folder / "features.safetensors").is_file():
        extract(data / "images", folder / "features.safetensors", load_backbone("colour-grid"))
    experiment.train(config_of(size), folder, run)
    loaded = load(run)
    print(loaded.evaluate_captions("test").summary())

    choose = random.Random(size.seed + 1_000_000)  # drawings that no split has seen
    scenes = [make_scene(choose) for _ in range(NEW)]
    drawings = [draw_scene(scene, choose) for scene in scenes]
    paths = [folder / "new" / f"{number:02d}.png" for number in range(NEW)]
    (folder / "new").mkdir(exist_ok=True)
    captions = loaded.caption(drawings)
    for path, drawing, caption in zip(paths, drawings, captions, strict=True):
        drawing.save(path)
        print(f"{path}\t{caption}")
    write_sheet(folder / "sheet.html", [(path, [text]) for path, text in zip(paths, captions, strict=True)], "drawings")
    right = sum(is_true(caption, scene) for caption, scene in zip(captions, scenes, strict=True))
    print(f"\n{right} of {NEW} new drawings are described as they are")
    count = CAPTIONS * size.train
    print(f"learnt from {count:,} captions; {folder / 'sheet.html'} shows the new drawings. Draw one yourself:\n")
    print(f"    fastmos caption {run} drawing.png")
