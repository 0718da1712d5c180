"""Configurations of models with a mixture, and how the Auto classes of transformers find them.

In memory, the configuration of a mixture is that of the plain model with one more entry, `mixture`. In config.json its
model type is "fastmos": a program that does not know our classes then stops, instead of loading the plain model.
"""

import copy
from typing import Any, ClassVar

from fastmos.errors import InputError, needs_extra
from fastmos.heads import HEADS

with needs_extra():
    import transformers
    from transformers import AutoConfig, PreTrainedConfig

MODEL_TYPE = "fastmos"  # in config.json
MODULE = "fastmos.integrations.huggingface"  # where our classes are found by name
PREFIXES = {"Mixture" if head == "mos" else head.title().replace("-", ""): head for head in HEADS}  # of class names


class SavedMixture:
    """What the configuration classes of mixtures add to the plain ones."""

    model_class: ClassVar[Any]  # the model with a mixture

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The contents of config.json, with the model type of the plain model."""
        values, unused = super().get_config_dict(*args, **kwargs)  # type: ignore[misc]
        return cls._as_plain(values), unused

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        return super().from_dict(cls._as_plain(config_dict), **kwargs)  # type: ignore[misc]

    @classmethod
    def _as_plain(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("model_type") != MODEL_TYPE:
            return values
        saved, name = _saved_class(values), cls.model_class.__name__
        if saved is not cls.model_class:
            raise InputError(f"a saved {saved.__name__} was given to {name}; load it with {saved.__name__}")
        return {**values, "model_type": cls.model_class.plain.config_class.model_type}

    def to_diff_dict(self) -> dict[str, Any]:
        """What is written to config.json."""
        return {**super().to_diff_dict(), "model_type": MODEL_TYPE}  # type: ignore[misc]


class MixtureConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """What `AutoConfig` knows: it gives way to the configuration of the model that was saved."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        return _saved_class(config_dict).config_class.from_dict(config_dict, **kwargs)


AutoConfig.register(MODEL_TYPE, MixtureConfig)


def config_class(name: str, plain: Any) -> Any:
    """The configuration class of the mixture with this name."""
    return type(f"{name}Config", (SavedMixture, plain.config_class), {"__module__": MODULE})


def with_entry(config: Any, cls: Any, entry: dict[str, Any]) -> Any:
    """A configuration of class `cls`, with this description of the head; the one given stays as it is."""
    if not isinstance(config, cls):
        config = copy.copy(config)
        config.__class__ = cls
    config.mixture = entry
    return config


def class_named(name: str) -> Any:
    """The model or configuration class of this name, such as MixtureGPT2LMHeadModel; None if there is none."""
    from fastmos.integrations.huggingface.model import with_mixture

    for prefix, head in PREFIXES.items():
        model_name = name.removeprefix(prefix).removesuffix("Config")
        plain = getattr(transformers, model_name, None) if name.startswith(prefix) else None
        if isinstance(plain, type) and getattr(plain, "can_generate", bool)():
            model_class = with_mixture(plain, head)
            return model_class.config_class if name.endswith("Config") else model_class
    return None


def _saved_class(values: dict[str, Any]) -> Any:
    entry = values.get("mixture")
    name = entry.get("model") if isinstance(entry, dict) else None
    found = class_named(name) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"config.json names the model {name}, which transformers {transformers.__version__} lacks")
    return found
