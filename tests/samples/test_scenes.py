"""Generated scenes: what is drawn is what is said."""

import random
from pathlib import Path

import numpy as np
from PIL import ImageColor

from fastmos.samples.scenes import (
    COLORS,
    OPPOSITES,
    STEPS,
    Scene,
    Thing,
    captions_of,
    draw_scene,
    is_true,
    make_scene,
    write_scenes,
)
from fastmos.vision.captions import read_captions


def test_what_is_drawn_is_what_is_said() -> None:
    choose = random.Random(0)
    kinds = set()
    for _ in range(200):
        scene = make_scene(choose)
        pixels = np.asarray(draw_scene(scene, choose)).astype(int)
        captions = captions_of(scene, choose)
        assert len(captions) == 5 and all(scene.thing.color in line for line in captions)
        kinds.add(scene.relation or scene.count)
        color = ImageColor.getrgb(COLORS[scene.thing.color])
        drawn = (pixels == color).all(2)
        assert drawn.sum() > 300
        if scene.other is None:
            assert pixels[0].min() == 255 and ((pixels == 255).all(2) | drawn).all()
        elif scene.other.color != scene.thing.color:
            other = (pixels == ImageColor.getrgb(COLORS[scene.other.color])).all(2)
            across, down = STEPS[scene.relation]
            rows, columns = (np.nonzero(drawn)[axis].mean() - np.nonzero(other)[axis].mean() for axis in (0, 1))
            assert rows * down + columns * across > 30
            assert OPPOSITES[scene.relation] in captions[1] and scene.relation in captions[0]
        assert all(is_true(line, scene) for line in captions) and not is_true("a drawing of a pink egg", scene)
    assert kinds == {1, 2, 3, *OPPOSITES}


def test_what_is_true_of_a_scene() -> None:
    scene = Scene(Thing("circle", "red"), 1, "above", Thing("square", "blue"))
    for caption in ("the red disc is above the blue box", "the blue square is below the red circle"):
        assert is_true(caption, scene)
    for caption in ("the red disc is below the blue box", "a red disc", "a blue disc above a red box", ""):
        assert not is_true(caption, scene)
    assert is_true("two red boxes", Scene(Thing("square", "red"), 2))
    assert not is_true("three red boxes", Scene(Thing("square", "red"), 2))


def test_scenes_are_written_as_a_dataset_and_repeat(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_scenes(tmp_path / name, train=4, valid=2, test=1, seed=3)
    first = {path.relative_to(tmp_path / "one"): path.read_bytes() for path in (tmp_path / "one").rglob("*.*")}
    second = {path.relative_to(tmp_path / "two"): path.read_bytes() for path in (tmp_path / "two").rglob("*.*")}
    assert first == second and len(first) == 4 + 2 + 1 + 4
    found = read_captions(tmp_path / "one" / "captions.txt", "valid", tmp_path / "one" / "valid.txt")
    assert list(found) == ["000004.png", "000005.png"]
    assert all(len(lines) == 5 for lines in found.values())
