"""Weights of the public Mixture of Softmaxes code (github.com/zihangdai/mos, Yang et al. 2018) in our head."""

from collections.abc import Mapping

from torch import Tensor

from fastmos.heads.modules import MixtureOfSoftmaxes

# Our parameter -> theirs, in the state of their RNNModel. The layouts are the same.
NAMES = {
    "prior.weight": "prior.weight",  # [K, D]
    "latent.weight": "latent.0.weight",  # [K d, D]
    "latent.bias": "latent.0.bias",  # [K d]
    "weight": "decoder.weight",  # [V, d]
    "bias": "decoder.bias",  # [V]
}


def load_public_mos(state: Mapping[str, Tensor], *, dropout: float = 0.0) -> MixtureOfSoftmaxes:
    """The head in the state dict of a public MoS language model; its encoder and recurrent layers are left aside.

    The distribution is the same but for the 1e-8 which their code adds to every probability.
    """
    missing = [name for name in NAMES.values() if name not in state]
    if missing:
        raise ValueError(f"state lacks {', '.join(missing)}; it must be the state dict of a zihangdai/mos model")
    for name in ("prior.weight", "decoder.weight"):
        if state[name].ndim != 2:
            raise ValueError(f"state holds {name} of shape {list(state[name].shape)}; it must be a matrix")
    mixtures, hidden_size = state["prior.weight"].shape
    vocab_size, embedding_size = state["decoder.weight"].shape
    expected = {
        "latent.0.weight": [mixtures * embedding_size, hidden_size],
        "latent.0.bias": [mixtures * embedding_size],
        "decoder.bias": [vocab_size],
    }
    for name, shape in expected.items():
        if list(state[name].shape) != shape:
            raise ValueError(
                f"state holds {name} of shape {list(state[name].shape)}; "
                f"prior.weight and decoder.weight ask for {shape}"
            )
    head = MixtureOfSoftmaxes(hidden_size, vocab_size, mixtures, embedding_size=embedding_size, dropout=dropout)
    head.to(state["decoder.weight"].dtype)
    head.load_state_dict({ours: state[theirs] for ours, theirs in NAMES.items()})
    return head
