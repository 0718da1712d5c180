"""A mixture as output layer of a Hugging Face model, causal or encoder-decoder.

`with_mixture(GPT2LMHeadModel)` is a model class like any other of transformers. Its `lm_head` is one of our heads, its
`logits` are log-probabilities, and its loss is the fused one. After `import fastmos.integrations.huggingface` the Auto
classes, and what loads through them, know saved mixtures.
"""

from typing import Any

from fastmos.integrations.huggingface.config import MODEL_TYPE, MixtureConfig, class_named
from fastmos.integrations.huggingface.evaluation import Likelihood, sliding_window
from fastmos.integrations.huggingface.model import with_mixture

__all__ = ["MODEL_TYPE", "Likelihood", "MixtureConfig", "sliding_window", "with_mixture"]


def __getattr__(name: str) -> Any:
    """`MixtureGPT2LMHeadModel` and all others by name, as pickle, PEFT and saved configs ask for them."""
    found = class_named(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
