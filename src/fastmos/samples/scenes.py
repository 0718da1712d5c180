"""Generated scenes: colored shapes in numbers and relations, drawn with Pillow, five captions each from a grammar.

The same seed gives the same scenes everywhere. They are written as Flickr8k is: a token file and lists of names.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastmos.files import written_whole

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

SIDE = 128  # pixels
SHAPES = {"circle": ("circle", "disc"), "square": ("square", "box"), "triangle": ("triangle", "triangle")}
COLORS = {"red": "#d62728", "green": "#2ca02c", "blue": "#1f77b4", "yellow": "#ffd000", "black": "#222222"}
COUNTS = {1: "one", 2: "two", 3: "three"}
OPPOSITES = {"above": "below", "below": "above", "left of": "right of", "right of": "left of"}
STEPS = {"above": (0, -1), "below": (0, 1), "left of": (-1, 0), "right of": (1, 0)}


@dataclass(frozen=True)
class Thing:
    """A shape of some color."""

    shape: str
    color: str

    def said(self, choose: random.Random, many: bool = False) -> str:
        return f"{self.color} {choose.choice(SHAPES[self.shape])}{'s' if many else ''}".replace("boxs", "boxes")


@dataclass(frozen=True)
class Scene:
    """So many of one thing, or one thing in a relation to another."""

    thing: Thing
    count: int = 1
    relation: str = ""
    other: Thing | None = None


def make_scene(choose: random.Random) -> Scene:
    """A random scene."""

    def thing() -> Thing:
        return Thing(choose.choice(list(SHAPES)), choose.choice(list(COLORS)))

    first = thing()
    if choose.random() < 0.4:
        return Scene(first, count=choose.choice(list(COUNTS)))
    second = thing()
    while second == first:
        second = thing()
    return Scene(first, 1, choose.choice(list(OPPOSITES)), second)


def captions_of(scene: Scene, choose: random.Random) -> list[str]:
    """Five captions."""
    if scene.other is not None:
        first, second = scene.thing, scene.other
        relation, back = scene.relation, OPPOSITES[scene.relation]
        return [
            f"a {first.said(choose)} {relation} a {second.said(choose)}",
            f"a {second.said(choose)} {back} a {first.said(choose)}",
            f"the {first.said(choose)} is {relation} the {second.said(choose)}",
            f"there is a {first.said(choose)} {relation} a {second.said(choose)}",
            f"a drawing of a {second.said(choose)} {back} a {first.said(choose)}",
        ]
    many = scene.count > 1
    number = COUNTS[scene.count] if many else "a"
    things = [f"{number} {scene.thing.said(choose, many)}" for _ in range(5)]
    verb = "are" if many else "is"
    return [
        things[0],
        f"there {verb} {things[1]}",
        f"a drawing of {things[2]}",
        f"{things[3]} on white",
        f"{COUNTS[scene.count]} {scene.thing.said(choose, many)} and nothing else",
    ]


def is_true(caption: str, scene: Scene) -> bool:
    """Is it a caption that the grammar has for the scene, seen from either thing, whatever names the shapes go by?"""

    def plain(line: str) -> str:
        return line.replace("disc", "circle").replace("box", "square").replace("squarees", "squares")

    scenes = [scene]
    if scene.other is not None:
        scenes.append(Scene(scene.other, 1, OPPOSITES[scene.relation], scene.thing))
    return plain(caption) in {plain(line) for one in scenes for line in captions_of(one, random.Random(0))}


def draw_scene(scene: Scene, choose: random.Random) -> "Image":
    """The scene, its shapes of about one size, about in their places, so that a grid of colors tells them apart."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (SIDE, SIDE), "white")
    canvas = ImageDraw.Draw(image)
    middle = SIDE // 2
    if scene.other is not None:
        across, down = STEPS[scene.relation]
        shift = choose.randint(-3, 3)
        for thing, sign in ((scene.thing, 1), (scene.other, -1)):
            x = middle + sign * across * 30 + (shift if down else choose.randint(-3, 3))
            y = middle + sign * down * 30 + (shift if across else choose.randint(-3, 3))
            _draw(canvas, thing, x, y, choose.randint(21, 24))
    else:
        quarters = choose.sample([(x, y) for x in (34, 94) for y in (34, 94)], scene.count)
        for x, y in quarters:
            _draw(canvas, scene.thing, x + choose.randint(-3, 3), y + choose.randint(-3, 3), choose.randint(19, 22))
    return image


def _draw(canvas: "ImageDraw", thing: Thing, x: int, y: int, radius: int) -> None:
    color = COLORS[thing.color]
    box = (x - radius, y - radius, x + radius, y + radius)
    if thing.shape == "circle":
        canvas.ellipse(box, fill=color)
    elif thing.shape == "square":
        canvas.rectangle(box, fill=color)
    else:
        canvas.polygon([(x, y - radius), (x - radius, y + radius), (x + radius, y + radius)], fill=color)


def write_scenes(folder: Path, *, train: int = 2000, valid: int = 100, test: int = 100, seed: int = 0) -> None:
    """Write images/*.png, captions.txt, and the names of each split: train.txt, valid.txt, test.txt."""
    choose = random.Random(seed)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    number = 0
    for split, count in (("train", train), ("valid", valid), ("test", test)):
        names = [f"{number + index:06d}.png" for index in range(count)]
        number += count
        for name in names:
            scene = make_scene(choose)
            lines += [f"{name}#{index}\t{text}" for index, text in enumerate(captions_of(scene, choose))]
            with written_whole(folder / "images" / name, "wb") as file:
                draw_scene(scene, choose).save(file, "PNG")
        with written_whole(folder / f"{split}.txt") as file:
            file.writelines(f"{name}\n" for name in names)
    with written_whole(folder / "captions.txt") as file:
        file.writelines(f"{line}\n" for line in lines)
