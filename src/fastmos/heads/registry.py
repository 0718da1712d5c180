"""All heads by name, and the one function that makes them."""

import inspect
from typing import Any

from torch import nn

from fastmos.heads.mixtape import Mixtape
from fastmos.heads.modules import ContextKind, Head, MixtureOfContexts, MixtureOfSoftmaxes, Softmax
from fastmos.heads.shared_tail import SharedTailMixture
from fastmos.heads.shortlist import ShortlistMixture, Tokens

HEADS: dict[str, type[Head]] = {
    "softmax": Softmax,
    "mos": MixtureOfSoftmaxes,
    "moc": MixtureOfContexts,
    "shortlist": ShortlistMixture,
    "shared-tail": SharedTailMixture,
    "mixtape": Mixtape,
}


def build_head(
    head_type: str,
    hidden_size: int,
    vocab_size: int,
    *,
    mixtures: int | None = None,
    shortlist: Tokens | None = None,
    contexts: ContextKind | None = None,
    embedding_size: int | None = None,
    embedding: nn.Embedding | None = None,
    bias: bool = True,
    dropout: float = 0.0,
    softcap: float | None = None,
) -> Head:
    """The head of this type, a key of `HEADS`. An option is None where it is not given, as where a head has none."""
    if head_type not in HEADS:
        raise ValueError(f"head_type is {head_type!r}; it must be one of {', '.join(HEADS)}")
    head: Any = HEADS[head_type]
    options: dict[str, Any] = {"mixtures": mixtures, "shortlist": shortlist, "contexts": contexts}
    given = {name: option for name, option in options.items() if option is not None}
    own = inspect.signature(head).parameters
    for name in options:
        if name in given and name not in own:
            raise ValueError(f"{name} is given, but the head {head_type!r} has no such option; leave it out")
        if name not in given and name in own and own[name].default is inspect.Parameter.empty:
            raise ValueError(f"{name} is not given, but the head {head_type!r} needs it")
    built: Head = head(
        hidden_size,
        vocab_size,
        embedding_size=embedding_size,
        embedding=embedding,
        bias=bias,
        dropout=dropout,
        softcap=softcap,
        **given,
    )
    return built
