"""The captioner: the image is its first input, and stepping equals reading at once."""

import pytest
import torch

from fastmos.data.batches import Batch
from fastmos.models import Captioner
from fastmos.vision.batches import image_batch


def batch_of(tokens: torch.Tensor, features: torch.Tensor) -> Batch:
    return Batch(tokens, tokens, None, torch.arange(len(tokens)), features=features)


@pytest.mark.parametrize("layers", [1, 2])
def test_stepping_equals_reading_at_once(layers: int) -> None:
    body = Captioner(11, 5, hidden_size=6, embedding_size=4, num_layers=layers).double().eval()
    features, tokens = torch.randn(3, 5, dtype=torch.float64), torch.randint(11, (3, 4))
    hidden, carried = body(batch_of(tokens, features))
    assert carried is None and hidden.shape == (3, 4, 6)
    state = body.start(image_batch(features))
    for time in range(4):
        g, state = body.step(tokens[:, time], state)
        torch.testing.assert_close(g, hidden[:, time])


def test_it_is_an_lstm_that_reads_the_projected_image_first() -> None:
    body = Captioner(11, 5, hidden_size=6).double().eval()
    features, tokens = torch.randn(2, 5, dtype=torch.float64), torch.randint(11, (2, 3))
    inputs = torch.cat([(features @ body.image.weight.T + body.image.bias)[:, None], body.embedding(tokens)], 1)
    expected, _ = body.lstm(inputs)
    torch.testing.assert_close(body(batch_of(tokens, features))[0], expected[:, 1:])


def test_rows_are_kept_dropped_and_repeated() -> None:
    body = Captioner(11, 5, hidden_size=6).eval()
    state = body.start(image_batch(torch.randn(3, 5)))
    rows = torch.tensor([2, 2, 0])
    moved = body.reorder(state, rows, torch.tensor([2, 0]))
    for part, before in zip(moved, state, strict=True):
        assert torch.equal(part, before[:, rows])


def test_dropout_is_for_training_only() -> None:
    body = Captioner(11, 5, hidden_size=64, dropout=0.5, embedding_dropout=0.5)
    batch = batch_of(torch.randint(11, (2, 3)), torch.randn(2, 5))
    assert (body(batch)[0] == 0).any()
    body.eval()
    assert torch.equal(body(batch)[0], body(batch)[0])


def test_a_batch_without_features_is_no_use() -> None:
    with pytest.raises(AssertionError, match="captions images"):
        tokens = torch.zeros(1, 1, dtype=torch.long)
        Captioner(11, 5).start(Batch(tokens, tokens, None, torch.arange(1)))


def test_what_all_images_share_is_taken_off() -> None:
    body = Captioner(11, 5, hidden_size=6).double().eval()
    features, common = torch.randn(3, 5, dtype=torch.float64), 1000 * torch.ones(5, dtype=torch.float64)
    before = body.start(image_batch(features)).hidden
    body.mean.data = common
    torch.testing.assert_close(body.start(image_batch(features + common)).hidden, before)
    assert not body.mean.requires_grad
