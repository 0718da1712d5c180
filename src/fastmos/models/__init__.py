"""Models: bodies that turn tokens into hidden states, and the generator that adds a head."""

from fastmos.models.attention_lstm import AttentionLSTM
from fastmos.models.captioner import Captioner
from fastmos.models.generator import Generator, packed, uniform_
from fastmos.models.language_model import LanguageModel
from fastmos.models.transformer import Transformer

__all__ = ["AttentionLSTM", "Captioner", "Generator", "LanguageModel", "Transformer", "packed", "uniform_"]
