"""Weights of the public code give the distribution of the public code."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fastmos.heads import load_public_mos


def public_state(mixtures: int, hidden_size: int, embedding_size: int, vocab_size: int) -> dict[str, Tensor]:
    """What their RNNModel saves of its output layer, and something of the rest."""
    return {
        "encoder.weight": torch.randn(vocab_size, embedding_size),
        "prior.weight": torch.randn(mixtures, hidden_size),
        "latent.0.weight": torch.randn(mixtures * embedding_size, hidden_size),
        "latent.0.bias": torch.randn(mixtures * embedding_size),
        "decoder.weight": torch.randn(vocab_size, embedding_size),
        "decoder.bias": torch.randn(vocab_size),
    }


def public_probabilities(state: dict[str, Tensor], output: Tensor) -> Tensor:
    """Their formula over recurrent outputs [N, D], without the 1e-8."""
    latent = torch.tanh(F.linear(output, state["latent.0.weight"], state["latent.0.bias"]))
    logits = F.linear(
        latent.reshape(-1, state["decoder.weight"].shape[1]), state["decoder.weight"], state["decoder.bias"]
    )
    prior = F.softmax(F.linear(output, state["prior.weight"]), -1)
    each = F.softmax(logits, -1).view(len(output), prior.shape[1], -1)
    return (each * prior[:, :, None]).sum(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("mixtures", "hidden_size", "embedding_size", "vocab_size"), [(1, 3, 3, 5), (4, 6, 5, 17), (15, 8, 12, 30)]
)
def test_equal_outputs(
    mixtures: int, hidden_size: int, embedding_size: int, vocab_size: int, dtype: torch.dtype
) -> None:
    state = {
        name: one.to(dtype) for name, one in public_state(mixtures, hidden_size, embedding_size, vocab_size).items()
    }
    head = load_public_mos(state)
    output, targets = torch.randn(9, hidden_size, dtype=dtype), torch.randint(vocab_size, (9,))
    expected = public_probabilities(state, output)
    torch.testing.assert_close(head(output).exp(), expected)
    torch.testing.assert_close(head(output, targets).nll, -expected[torch.arange(9), targets].log())


def test_a_state_of_something_else_is_refused() -> None:
    state = public_state(3, 4, 5, 6)
    del state["latent.0.bias"]
    with pytest.raises(ValueError, match=r"state lacks latent\.0\.bias"):
        load_public_mos(state)
    state = public_state(3, 4, 5, 6)
    for name, shape in [
        ("latent.0.weight", (14, 4)),
        ("latent.0.bias", (14,)),
        ("decoder.bias", (7,)),
        ("prior.weight", (3,)),
    ]:
        with pytest.raises(ValueError, match=f"state holds {name} of shape"):
            load_public_mos({**state, name: torch.zeros(shape)})
