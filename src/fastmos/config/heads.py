"""The section `head`: the output layer. A new head is a class in fastmos.heads and a section here."""

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fastmos.config.base import Fraction, Mixtures, NonNegative, OptionalSize, Typed, one_of


class HeadConfig(Typed):
    """What every head has."""

    not_arguments: ClassVar[frozenset[str]] = frozenset({"type", "tie_embedding", "near_softmax", "shortlist"})

    type: str
    dropout: Fraction = 0.0
    """right before the output embedding"""
    tie_embedding: bool = False
    """use the target embedding as output embedding"""

    @property
    def num_mixtures(self) -> int:
        """Components of the mixture; 1 for one softmax."""
        return getattr(self, "mixtures", 1)

    @property
    def output_size(self) -> int:
        """Size of the output embedding; 0: that of the hidden states."""
        return getattr(self, "embedding_size", 0)

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "embedding_size": self.output_size or None}


class Softmax(HeadConfig):
    """One softmax."""

    factory: ClassVar[str] = "fastmos.heads.Softmax"
    type: Literal["softmax"] = "softmax"
    """which head"""


class MoS(HeadConfig):
    """A mixture of softmaxes (Yang et al. 2018)."""

    factory: ClassVar[str] = "fastmos.heads.MixtureOfSoftmaxes"
    type: Literal["mos"] = "mos"
    """which head"""
    mixtures: Mixtures = 9
    """how many softmaxes"""
    embedding_size: OptionalSize = 0
    """size of contexts and output embedding; 0: that of the hidden states"""
    contexts: Literal["tanh", "residual"] = "tanh"
    """tanh(W_k g), as in the paper, or residual: g + s_k tanh(W_k g), which starts as one softmax"""
    near_softmax: bool = False
    """start tanh contexts near one softmax, rather than at random"""


class MoC(MoS):
    """A mixture of contexts: one softmax over their mean."""

    factory: ClassVar[str] = "fastmos.heads.MixtureOfContexts"
    type: Literal["moc"] = "moc"  # type: ignore[assignment]
    """which head"""
    mixtures: Mixtures = 9
    """how many contexts"""


class Shortlist(MoS):
    """A mixture over the frequent tokens and one softmax over the others, at about the price of one softmax."""

    factory: ClassVar[str] = "fastmos.heads.ShortlistMixture"
    type: Literal["shortlist"] = "shortlist"  # type: ignore[assignment]
    """which head"""
    shortlist: NonNegative = 0
    """how many frequent tokens are mixed; 0: as many as cost least, by their counts in the training text"""


class SharedTail(MoS):
    """A mixture over the frequent tokens whose components share the logits of all others."""

    factory: ClassVar[str] = "fastmos.heads.SharedTailMixture"
    type: Literal["shared-tail"] = "shared-tail"  # type: ignore[assignment]
    """which head"""
    shortlist: NonNegative = 0
    """how many frequent tokens are mixed; 0: a tenth of the vocabulary"""


class Mixtape(HeadConfig):
    """One softmax over logits that gates mix from four contexts (Yang et al. 2019)."""

    factory: ClassVar[str] = "fastmos.heads.Mixtape"
    type: Literal["mixtape"] = "mixtape"
    """which head"""
    shortlist: NonNegative = 0
    """how many frequent tokens have gates of their own; 0: a tenth of the vocabulary"""
    contexts: Literal["tanh", "residual"] = "tanh"
    """tanh(W_k g), as in the paper, or residual: g + s_k tanh(W_k g)"""
    near_softmax: bool = False
    """start tanh contexts near one softmax, rather than at random"""
    embedding_size: OptionalSize = 0
    """size of contexts and output embedding; 0: that of the hidden states"""

    @property
    def num_mixtures(self) -> int:
        return 4


HEADS: dict[str, type[HeadConfig]] = {
    "softmax": Softmax,
    "mos": MoS,
    "moc": MoC,
    "shortlist": Shortlist,
    "shared-tail": SharedTail,
    "mixtape": Mixtape,
}
if TYPE_CHECKING:
    AnyHead = HeadConfig
else:
    AnyHead = one_of(HEADS, "mos")
