"""The section `model`: the body, everything before the output layer. A new body is a class and a section here."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from fastmos.config.base import Count, Fraction, Layers, OptionalSize, Size, Typed, one_of


class BodyConfig(Typed):
    """What every body has."""

    task: ClassVar[str]
    """what the body is for"""
    type: str
    hidden_size: Size = 256
    """size of the hidden states g that the head reads"""
    num_layers: Layers = 1
    """layers of the body (of encoder and decoder each)"""

    @property
    def target_embedding_size(self) -> int:
        """Size of the target embedding, to which a head may be tied."""
        return self.hidden_size

    def problem(self) -> str:
        """What is wrong with these sizes, as a sentence; empty if nothing is."""
        return ""


class RecurrentConfig(BodyConfig):
    """What every LSTM has."""

    not_arguments: ClassVar[frozenset[str]] = frozenset({"type", "init_range"})

    init_range: Annotated[float, Field(gt=0, le=100)] = 0.1
    """parameters, those of the head too, start from U(-init_range, init_range)"""
    dropout: Fraction = 0.3
    """on the hidden states and between layers"""
    embedding_size: OptionalSize = 0
    """size of the embeddings; 0: hidden_size"""

    @property
    def target_embedding_size(self) -> int:
        return self.embedding_size or self.hidden_size


class AttentionLSTM(RecurrentConfig):
    """LSTM encoder and decoder with dot-product attention (Luong et al. 2015)."""

    factory: ClassVar[str] = "fastmos.models.attention_lstm.AttentionLSTM"
    task: ClassVar[str] = "translation"
    type: Literal["attention-lstm"] = "attention-lstm"
    """which body"""
    embedding_dropout: Fraction = 0.0
    """on the embeddings"""
    input_feeding: bool = False
    """feed the last hidden state into the next step"""

    def problem(self) -> str:
        if self.hidden_size % 2:
            return f"model.hidden_size is {self.hidden_size}; it must be even, half of it for each encoder direction"
        return ""


class Transformer(BodyConfig):
    """Encoder and decoder of Vaswani et al. (2017)."""

    factory: ClassVar[str] = "fastmos.models.transformer.Transformer"
    task: ClassVar[str] = "translation"
    type: Literal["transformer"] = "transformer"
    """which body"""
    ffn_size: Size = 1024
    """size inside the feed-forward layers"""
    num_heads: Count = 4
    """attention heads"""
    dropout: Fraction = 0.3
    """on embeddings and sub-layers"""
    ffn_dropout: Fraction = 0.0
    """inside attention and feed-forward layers"""
    norm: Literal["post", "pre"] = "post"
    """layer normalization after or before each sub-layer"""
    share_embeddings: bool = False
    """one embedding for source and target (needs tokenizers.joint)"""

    def problem(self) -> str:
        if self.hidden_size % (2 * self.num_heads):
            twice = f"twice model.num_heads, {2 * self.num_heads}"
            return f"model.hidden_size is {self.hidden_size}; it must be a multiple of {twice}"
        return ""


class LSTM(RecurrentConfig):
    """An LSTM language model."""

    factory: ClassVar[str] = "fastmos.models.language_model.LanguageModel"
    task: ClassVar[str] = "language-modeling"
    type: Literal["lstm"] = "lstm"
    """which body"""
    dropout: Fraction = 0.3
    """on embeddings, hidden states and between layers"""


class NIC(RecurrentConfig):
    """The captioner of Vinyals et al. (2015): an LSTM whose first input is the image."""

    factory: ClassVar[str] = "fastmos.models.captioner.Captioner"
    task: ClassVar[str] = "captioning"
    type: Literal["nic"] = "nic"
    """which body"""
    embedding_dropout: Fraction = 0.0
    """on the embeddings, the image's included"""


BODIES: dict[str, type[BodyConfig]] = {
    "attention-lstm": AttentionLSTM,
    "transformer": Transformer,
    "lstm": LSTM,
    "nic": NIC,
}
if TYPE_CHECKING:
    AnyBody = BodyConfig
else:
    AnyBody = one_of(BODIES, "")


def default_body(task: str) -> str:
    """The type of body that a task has where the config names none."""
    return next(name for name, body in BODIES.items() if body.task == task)
