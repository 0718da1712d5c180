"""What all sections of a config share, and how one of several types of a section is chosen by its key `type`."""

import importlib
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Union

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator

LARGEST = 10**9  # of a number that something is counted or measured by; more is a slip, and overflows somewhere
Count = Annotated[int, Field(ge=1, le=LARGEST)]
NonNegative = Annotated[int, Field(ge=0, le=LARGEST)]
Layers = Annotated[int, Field(ge=1, le=1000)]
Mixtures = Annotated[int, Field(ge=1, le=1000)]
Size = Annotated[int, Field(ge=1, le=65_536)]  # of vectors: the matrices between two of them have its square
OptionalSize = Annotated[int, Field(ge=0, le=65_536)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A part of the config: immutable, without keys that it does not know. The docstring of a key is its help."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*")
    @classmethod
    def _no_nul(cls, value: Any) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("must be text without the character NUL")
        return value


class Typed(Section):
    """A section of which there are several types; each names the class that it configures.

    The other keys are that class's keyword arguments, so building it needs no code of its own.
    """

    factory: ClassVar[str]
    """where the class is, as in fastmos.models.transformer.Transformer"""
    not_arguments: ClassVar[frozenset[str]] = frozenset({"type"})
    """keys that are used for something else than building it"""

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of the class."""
        return {name: getattr(self, name) for name in type(self).model_fields if name not in self.not_arguments}


def load_class(path: str) -> Any:
    """The class (or function) at a path such as fastmos.models.transformer.Transformer."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def one_of(registry: Mapping[str, type[Section]], default: str) -> Any:
    """The type of a field that holds one section of the registry, by its key `type`."""

    def type_of(value: Any) -> Any:
        return value.get("type", default) if isinstance(value, Mapping) else getattr(value, "type", None)

    choices = tuple(Annotated[section, Tag(name)] for name, section in registry.items())
    return Annotated[Union[choices], Discriminator(type_of)]  # noqa: UP007
