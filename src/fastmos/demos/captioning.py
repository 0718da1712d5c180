"""Captioning at work: a small NIC with a mixture learns to describe generated drawings, and describes new ones."""

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastmos.config import Config, parse_config

if TYPE_CHECKING:
    from PIL.Image import Image

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
    hidden_size: int = 128
    mixtures: int = 3
    seed: int = 1


def config_of(size: Size) -> Config:
    """The experiment; paths are relative to the demo's folder."""
    splits = {split: {"source": f"data/{split}.txt", "target": "data/captions.txt"} for split in SPLITS}
    return parse_config(
        {
            "task": "captioning",
            "data": {**splits, "features": "features.safetensors"},
            "tokenizers": {"target": {"type": "words", "vocab_size": 100}},
            "model": {"hidden_size": size.hidden_size, "dropout": 0.2, "init_range": 0.2},
            "head": {"type": "mos", "mixtures": size.mixtures, "near_softmax": True},
            "training": {
                "learning_rate": 0.003,
                "lr_schedule": "linear",
                "batch_size": BATCH,
                "max_epochs": 0,
                "max_steps": size.epochs * math.ceil(CAPTIONS * size.train / BATCH),
                "early_stopping_metric": "nll",
                "seed": size.seed,
            },
            "search": {"beam_size": 5, "max_length": 20},
        },
        "demo",
    )


def demo(folder: Path, size: Size = Size()) -> None:  # noqa: B008 (frozen)
    """Draw, train, evaluate, describe new drawings; an interrupted demo resumes."""
    from fastmos import experiment
    from fastmos.inference.run import load
    from fastmos.report.contact_sheet import write_sheet
    from fastmos.samples.scenes import draw_scene, is_true, make_scene, write_scenes
    from fastmos.vision.backbones import load_backbone
    from fastmos.vision.extraction import extract

    data, run = folder / "data", folder / "run"
    if not (data / "captions.txt").is_file():
        write_scenes(data, train=size.train, valid=size.held_out, test=size.held_out)
    if not (folder / "features.safetensors").is_file():
        extract(data / "images", folder / "features.safetensors", load_backbone("color-grid"))
    experiment.train(config_of(size), folder, run)
    loaded = load(run)
    print(loaded.evaluate("test").summary())

    choose = random.Random(size.seed + 1_000_000)  # drawings that no split has seen
    scenes = [make_scene(choose) for _ in range(NEW)]
    drawings = [draw_scene(scene, choose) for scene in scenes]
    paths = [folder / "new" / f"{number:02d}.png" for number in range(NEW)]
    (folder / "new").mkdir(exist_ok=True)
    captions, of_small = loaded.caption(drawings), loaded.caption([smaller(drawing) for drawing in drawings])
    for path, drawing, caption in zip(paths, drawings, captions, strict=True):
        drawing.save(path)
        print(f"{path}\t{caption}")
    write_sheet(folder / "sheet.html", [(path, [text]) for path, text in zip(paths, captions, strict=True)], "drawings")
    right, still_right = (
        sum(is_true(caption, scene) for caption, scene in zip(found, scenes, strict=True))
        for found in (captions, of_small)
    )
    print(f"\n{right} of {NEW} new drawings are described as they are, {still_right} of {NEW} at half the size.")
    print(
        f"It knows what {CAPTIONS * size.train:,} captions of such drawings taught it: one to three shapes of a color,"
    )
    print("or two beside or above each other, of one size and on white. Other drawings are beyond it.")
    print(f"{folder / 'sheet.html'} shows the new drawings; any of them can be described again:\n")
    print(f"    fastmos caption {run} {paths[0]}")


def smaller(drawing: "Image") -> "Image":
    """The drawing at half the size, in the middle of as large a white one."""
    from PIL import Image

    width, height = drawing.size
    found = Image.new("RGB", drawing.size, "white")
    found.paste(drawing.resize((width // 2, height // 2)), (width // 4, height // 4))
    return found
