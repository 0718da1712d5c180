"""Batches of captions with the features of their images."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastmos.data.batches import Batch
from fastmos.vision.captions import Captions
from fastmos.vision.features import Features

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class CaptionImages:
    """The image of each line of a text; `take` is the argument `features` of `SentenceBatches`."""

    features: Features
    rows: Array  # int64 [L] the row of each line's image in the features

    @classmethod
    def of(cls, features: Features, captions: Captions) -> "CaptionImages":
        """For the captions in order, image by image."""
        rows = features.rows(list(captions))
        return cls(features, np.repeat(rows, [len(lines) for lines in captions.values()]))

    def __len__(self) -> int:
        return len(self.rows)

    def mean(self) -> Tensor:
        """The mean features [F] of the images, each counted once."""
        values = self.features.values[np.unique(self.rows)]
        return torch.from_numpy(values.mean(0, dtype=np.float64).astype(np.float32))

    def take(self, lines: Array) -> Tensor:
        """Features [B, F] of the images of some lines, on the host, in pinned memory if there is a GPU."""
        tensor = self.features.take(self.rows[lines])
        return tensor.pin_memory() if torch.cuda.is_available() else tensor


def image_batch(features: Tensor) -> Batch:
    """Images with features [B, F] to caption, without targets (T = 0)."""
    nothing = torch.empty(len(features), 0, dtype=torch.long)
    return Batch(nothing, nothing, None, torch.arange(len(features)), features=features, num_tokens=0)
