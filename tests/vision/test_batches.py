"""Batches that carry the features of each caption's image."""

import numpy as np
import pytest
import torch

from fastmos.data.batches import SentenceBatches
from fastmos.data.tokenized import TokenizedText
from fastmos.vision.batches import CaptionImages, image_batch
from fastmos.vision.features import Features, FeatureSource


def captions_of_images() -> tuple[TokenizedText, CaptionImages]:
    """Nine captions of three images; the features of image i are all i, and a line's tokens name its image."""
    features = Features(["a", "b", "c"], np.repeat(np.arange(3, dtype=np.float16), 4).reshape(3, 4), FeatureSource("x"))
    captions = {"c": ["x"] * 2, "a": ["x"] * 4, "b": ["x"] * 3}
    images = CaptionImages.of(features, captions)
    assert images.rows.tolist() == [2, 2, 0, 0, 0, 0, 1, 1, 1]
    lines = [[10 + row] * (1 + number % 3) for number, row in enumerate(images.rows.tolist())]
    return TokenizedText.of(lines), images


@pytest.mark.parametrize("world", [1, 2, 4])
def test_each_line_comes_with_its_image(world: int) -> None:
    text, images = captions_of_images()
    seen = []
    for rank in range(world):
        for batch in SentenceBatches(text, features=images.take, max_sentences=2, rank=rank, world=world).epoch(0):
            assert batch.features is not None
            assert batch.features.dtype.is_floating_point and batch.features.shape == (len(batch), 4)
            for row, line in enumerate(batch.index.tolist()):
                if line >= 0:
                    assert batch.features[row].tolist() == [int(batch.target[row, 0]) - 10] * 4
                    seen.append(line)
    assert sorted(seen) == list(range(9))


def test_all_that_is_copied_to_a_gpu_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned: list[torch.Tensor] = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    text, images = captions_of_images()
    for batch in SentenceBatches(text, features=images.take, max_sentences=2, rank=1, world=2).epoch(0):
        for part in (batch.inputs, batch.target, batch.features):
            assert any(part is one for one in pinned)


def test_images_to_caption_have_no_targets() -> None:
    _, images = captions_of_images()
    batch = image_batch(images.take(np.arange(5)))
    assert (len(batch), batch.num_tokens, tuple(batch.inputs.shape)) == (5, 0, (5, 0))


def test_the_mean_counts_each_image_once() -> None:
    _, images = captions_of_images()
    assert images.mean().tolist() == [1.0] * 4
