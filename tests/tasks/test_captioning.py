"""Captioning from end to end, in small: train, resume, caption, evaluate, refuse."""

import dataclasses
import io
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import fastmos
from fastmos import experiment
from fastmos.checkpoints import read_tensors
from fastmos.config import changed, parse_config
from fastmos.errors import InputError
from fastmos.inference.run import Run, average, load
from fastmos.run_folder import RunFolder
from fastmos.tasks import build_task
from fastmos.tasks.captioning import CaptionEvaluation
from fastmos.vision.backbones import load_backbone
from fastmos.vision.extraction import extract
from fastmos.vision.features import Features, FeatureSource, read_features, write_features
from tests.tasks.captioner import tiny_captioner, without_java

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="no java on PATH")
pytestmark = pytest.mark.filterwarnings("ignore:no java on PATH")


def pictures(scenes: Path) -> list[Image.Image]:
    return [Image.open(path) for path in sorted((scenes / "images").iterdir())[:3]]


def test_a_run_captions_images(captioner: Path, scenes: Path) -> None:
    run: Run = fastmos.load(captioner)
    captions = run.caption(pictures(scenes))
    assert len(captions) == 3  # after two epochs, one may be empty
    several = run.caption(pictures(scenes), nbest=2)
    assert [best[0].text for best in several] == captions
    assert all(len({one.text for one in best}) == 2 and best[0].score >= best[1].score for best in several)
    assert run.caption(pictures(scenes)[1:2]) == captions[1:2]  # whatever its batch mates
    assert run.caption([]) == []
    values = read_features(scenes / "f.safetensors").values[:3].astype(np.float32)
    assert [best[0].text for best in run.caption_features(torch.from_numpy(values))] == captions


def test_it_looks_at_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every drawing on one bright ground, which a network can take for all there is: the colors must be told apart."""
    without_java(monkeypatch)
    colors = ["red", "green", "blue", "yellow"]
    (tmp_path / "images").mkdir()
    lines = []
    for number in range(32):
        image = Image.new("RGB", (64, 64), "white")
        image.paste(colors[number % 4], (20, 20 + number // 16, 36, 36 + number // 16))
        image.save(tmp_path / "images" / f"{number:02d}.png")
        lines.append(f"{number:02d}.png#0\ta drawing of a {colors[number % 4]} square")
    (tmp_path / "captions.txt").write_text("".join(f"{line}\n" for line in lines))
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("".join(f"{number:02d}.png\n" for number in range(32)))
    extract(tmp_path / "images", tmp_path / "f.safetensors", load_backbone("color-grid"))
    config = tiny_captioner(batch_size=8, max_epochs=90, validate_every=360, learning_rate=0.01, log_every=90)
    config = config.model_copy(update={"model": config.model.model_copy(update={"hidden_size": 24, "dropout": 0.0})})
    experiment.train(config, tmp_path, tmp_path / "run")
    found = load(tmp_path / "run").evaluate("test")
    blind = math.log(4) / 7  # NLL per word, of six words and an end, for one who knows the sentence but not the color
    assert found.likelihood.nll_per_word < blind / 2
    assert found.outputs is not None and len(set(found.outputs)) >= 3


def test_a_run_is_evaluated_by_split(captioner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_java(monkeypatch)
    run = load(captioner)
    for split, images in (("valid", 4), ("test", 3)):
        found = run.evaluate(split)  # type: ignore[arg-type]
        assert isinstance(found, CaptionEvaluation) and found.outputs is not None and found.caption_scores is not None
        assert (len(found.outputs), found.likelihood.lines) == (images, 5 * images)
        assert math.isfinite(found.likelihood.nll_per_word)
        assert found.caption_scores.bleu_4 is None  # never 0
        assert "BLEU-4 unavailable" in found.summary()


@needs_java
def test_the_best_weights_by_cider(scenes: Path, tmp_path: Path) -> None:
    experiment.train(tiny_captioner(early_stopping_metric="cider", max_epochs=1), scenes, tmp_path / "run")
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    _, notes = read_tensors(tmp_path / "run" / "model.safetensors")
    assert notes["value"] == pytest.approx(100 * last["cider"])
    assert last["meteor"] is None and last["caption_signature"] == "pycocoevalcap:1.2|tok:ptb"
    assert len((tmp_path / "run" / "validation" / "step-00000005.txt").read_text().splitlines()) == 4


def test_a_metric_that_needs_java_is_refused_without(
    scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_java(monkeypatch)
    with pytest.raises(InputError, match=r"training\.early_stopping_metric cider needs java"):
        experiment.train(tiny_captioner(early_stopping_metric="cider"), scenes, tmp_path / "run")


def test_an_interrupted_run_ends_with_the_same_weights(
    captioner: Path, scenes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_java(monkeypatch)
    experiment.train(tiny_captioner(max_epochs=1), scenes, tmp_path / "run")
    experiment.train(tiny_captioner(max_epochs=2), scenes, tmp_path / "run")
    ours, theirs = (read_tensors(folder / "state.safetensors")[0] for folder in (tmp_path / "run", captioner))
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == theirs[name]).all() for name in ours)


def test_other_features_are_refused(captioner: Path, scenes: Path, tmp_path: Path) -> None:
    about = json.loads((captioner / "features.json").read_text())
    assert FeatureSource(**about["source"]) == load_backbone("color-grid").source
    shutil.copytree(captioner, tmp_path / "other")
    about["source"]["weights"] = "other"
    (tmp_path / "other" / "features.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="features of weights"):
        load(tmp_path / "other").caption(pictures(scenes))

    for name in ("train.txt", "valid.txt", "test.txt", "captions.txt"):
        shutil.copy(scenes / name, tmp_path)
    shutil.copytree(captioner, tmp_path / "run")
    features = read_features(scenes / "f.safetensors")
    write_features(tmp_path / "f.safetensors", Features(features.names, features.values, FeatureSource("another")))
    with pytest.raises(
        InputError, match="features of backbone another, but the run was trained on those of color-grid"
    ):
        experiment.train(tiny_captioner(), tmp_path, tmp_path / "run")
    moved = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**moved, "base": str(tmp_path)}))
    with pytest.raises(InputError, match="features of backbone another"):
        load(tmp_path / "run").evaluate("test")
    write_features(tmp_path / "f.safetensors", Features(features.names, features.values * 2, features.source))
    with pytest.raises(InputError, match="the training or validation data has changed"):
        experiment.train(tiny_captioner(max_epochs=3), tmp_path, tmp_path / "run")
    assert (tmp_path / "run" / "config.yaml").read_bytes() == (captioner / "config.yaml").read_bytes()


def test_splits_must_be_told_apart(scenes: Path, tmp_path: Path) -> None:
    """A token file knows no splits: without lists of images all would be the same."""
    values = tiny_captioner().model_dump(mode="json")
    for split in ("train", "valid"):
        values["data"][split]["source"] = ""
    with pytest.raises(InputError, match="would be all of train and of valid; list the images of each"):
        experiment.train(parse_config(values, "test"), scenes, tmp_path / "run")


def test_what_is_no_image_is_refused(captioner: Path, scenes: Path) -> None:
    run = load(captioner)
    stream = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(stream, "PNG")
    half = Image.open(io.BytesIO(stream.getvalue()[:2000]))
    for images in ("photo.jpg", ["photo.jpg"], pictures(scenes)[0], np.zeros((1, 4, 4, 3))):
        with pytest.raises(InputError, match="a list of PIL images is captioned"):
            run.caption(images)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="image 2: damaged or incomplete image"):
        run.caption([pictures(scenes)[0], half])
    for shape, value, said in (
        ((2, 5), 0.0, r"shape \[2, 5\]; the run needs 768"),
        ((2, 768), math.nan, "finite"),
    ):
        with pytest.raises(InputError, match=said):
            run.caption_features(torch.full(shape, value))


def test_captions_in_the_form_of_coco(captioner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_java(monkeypatch)
    found = load(captioner).evaluate("test")
    assert isinstance(found, CaptionEvaluation)
    names = ["val2014/COCO_val2014_000000391895.jpg", "000000000139.jpg", "1000268201_693b08cb0e.jpg"]
    dataclasses.replace(found, names=names, outputs=["a", "b", "c"]).write_outputs(tmp_path / "captions.json")
    results = json.loads((tmp_path / "captions.json").read_text())
    assert [one["image_id"] for one in results] == [391895, 139, "1000268201_693b08cb0e.jpg"]
    assert [one["caption"] for one in results] == ["a", "b", "c"]


def test_averaged_checkpoints_caption_too(captioner: Path, scenes: Path, tmp_path: Path) -> None:
    average(captioner, tmp_path / "mean", last=2)
    assert len(load(tmp_path / "mean").caption(pictures(scenes))) == 3


def test_what_a_captioner_does_not_do(captioner: Path) -> None:
    run = load(captioner)
    with pytest.raises(InputError, match="trained for captioning and cannot translate; see fastmos caption"):
        run.translate(["x"])
    with pytest.raises(InputError, match="cannot score text"):
        run.score(None, ["x"])
    with pytest.raises(InputError, match="cannot make up text"):
        run.sample(1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": {"features": ""}}, "data.features is missing"),
        ({"model": {"type": "transformer"}}, "model.type transformer is for translation; for captioning set it to nic"),
        ({"training": {"bptt_length": 4}}, "training.bptt_length is for language modeling"),
        ({"tokenizers": {"joint": True}}, "tokenizers.joint needs a source text"),
    ],
)
def test_unusable_configs_are_refused(change: dict[str, Any], said: str) -> None:
    config = changed(tiny_captioner(), change)
    with pytest.raises(InputError, match=said):
        build_task(config, Path(), RunFolder(Path("run"))).check()
