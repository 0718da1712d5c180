"""transformers' own model tests, with a mixture in place of every output layer that can have one.

The package does not ship its tests: give a checkout of the same version, and `pip install parameterized`. Nothing is
fetched. With `--plain` the plain classes run, to see which failures are not the mixture's.

    python benchmarks/transformers_tests.py CHECKOUT --families gpt2 llama t5 bart -k "save_load or resize"
"""

import argparse
import functools
import inspect
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from fastmos.errors import InputError
from fastmos.integrations.huggingface import with_mixture

MIXTURES = 2


@functools.cache
def mixed(value: Any) -> Any:
    """The class with a mixture that needs no argument; what cannot have one stays as it is."""
    from transformers import PreTrainedModel

    if not (inspect.isclass(value) and issubclass(value, PreTrainedModel) and value.can_generate()):
        return value
    try:
        made = with_mixture(value)
    except InputError:
        return value

    def start(self: Any, config: Any, mixtures: int | None = None) -> None:
        made.__init__(self, config, mixtures or (None if hasattr(config, "mixture") else MIXTURES))

    return type(value.__name__, (made,), {"__init__": start, "plain": value})


class Mixtures:
    """A plugin of pytest: classes of models in test modules, and in their attributes, get a mixture."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        for module in {item.module for item in items}:
            owners = [module, *(value for value in vars(module).values() if inspect.isclass(value))]
            for owner in owners:
                if owner is module or owner.__module__ == module.__name__:
                    self.replace(owner)

    def replace(self, owner: Any) -> None:
        for name, value in list(vars(owner).items()):
            new = value
            if inspect.isclass(value):
                new = mixed(value)
            elif name == "all_model_classes" and isinstance(value, tuple):
                new = tuple(mixed(one) for one in value)
            if new is not value:
                setattr(owner, name, new)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--families", nargs="+", default=["gpt2", "llama", "qwen2", "t5", "bart", "marian"])
    parser.add_argument("-k", default="", help="as pytest's")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    files = [f"tests/models/{family}/test_modeling_{family}.py" for family in options.families]
    os.chdir(options.checkout)
    sys.path[:0] = [".", "utils"]
    arguments = ["-q", "--tb=line", "-p", "no:cacheprovider", "--show-capture=no", "-k", options.k, *files]
    return int(pytest.main(arguments, plugins=[] if options.plain else [Mixtures()]))


if __name__ == "__main__":
    sys.exit(main())
