"""All heads by name, and the one function that makes them."""

from typing import Any

from torch import nn

from fastmos.heads.mixtape import Mixtape
from fastmos.heads.modules import ContextKind, Head, MixtureOfContexts, MixtureOfSoftmaxes, Softmax
from fastmos.heads.shortlist import ShortlistMixture, Tokens

HEADS: dict[str, type[Head]] = {
    "softmax": Softmax,
    "mos": MixtureOfSoftmaxes,
    "moc": MixtureOfContexts,
    "shortlist": ShortlistMixture,
    "mixtape": Mixtape,
}


def build_head(
    head_type: str,
    hidden_size: int,
    vocab_size: int,
    *,
    mixtures: int | None = None,
    shortlist: Tokens | None = None,
    contexts: ContextKind = "tanh",
    embedding_size: int | None = None,
    embedding: nn.Embedding | None = None,
    bias: bool = True,
    dropout: float = 0.0,
    softcap: float | None = None,
) -> Head:
    """The head of this type, a key of `HEADS`; options that it does not have are left aside."""
    if head_type not in HEADS:
        raise ValueError(f"head_type is {head_type!r}; it must be one of {', '.join(HEADS)}")
    head: Any = HEADS[head_type]
    given: dict[str, Any] = {"mixtures": mixtures, "shortlist": shortlist, "contexts": contexts}
    own = {name: given[name] for name in head.options if given[name] is not None}
    built: Head = head(
        hidden_size,
        vocab_size,
        embedding_size=embedding_size,
        embedding=embedding,
        bias=bias,
        dropout=dropout,
        softcap=softcap,
        **own,
    )
    return built
