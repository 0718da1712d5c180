"""What helps to mend an error: the nearest name, and the extra that brings a missing package."""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

from fastmos.errors import EXTRAS, InputError, did_you_mean, needs_extra

ROOT = Path(__file__).resolve().parents[1]
NAMES = {  # distributions whose package has another name
    "pyyaml": "yaml",
    "pillow": "PIL",
    "python-multipart": "python_multipart",
    "subword-nmt": "subword_nmt",
    "efficientnet-lite-pytorch": "efficientnet_lite_pytorch",
}


KNOWN = ["data", "model.num_layers", "model.dropout", "head.mixtures", "head.dropout", "training.learning_rate"]


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("model.num_layer", "model.num_layers"),
        ("model.layers", "model.num_layers"),
        ("mixture", "head.mixtures"),
        ("head.dropuot", "head.dropout"),
        ("training.rate", "training.learning_rate"),
        ("modle.num_layers", "model.num_layers"),
        ("dta", "data"),
        ("head", "head.mixtures"),
        ("model.learning_rates", "training.learning_rate"),
    ],
)
def test_the_nearest_name_is_offered(word: str, nearest: str) -> None:
    assert did_you_mean(word, KNOWN, "see help") == f"; did you mean '{nearest}'?"


def test_no_name_is_near() -> None:
    assert did_you_mean("zzz", KNOWN, "see help") == "; see help"
    assert did_you_mean("zzz.kind", KNOWN, "see help") == "; see help"


def test_a_section_without_a_near_key_lists_its_keys() -> None:
    known = [*KNOWN, "training.label_smoothing_kind"]
    assert did_you_mean("head.kind", known, "see help") == "; head has mixtures, dropout"
    many = [f"training.key{number}" for number in range(13)]
    assert did_you_mean("training.zzz", many, "see help") == "; see help"


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)  # so that its import fails
    said = r"this needs the package transformers, which is not installed; pip install 'fastmos\[hf\]'"
    with pytest.raises(InputError, match=said), needs_extra():
        importlib.import_module("transformers")


def test_a_missing_package_of_no_extra_stays_what_it_is() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), needs_extra():
        importlib.import_module("no_such_package")


def test_the_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [line.split(">")[0] for line in project["dependencies"]] == ["torch", "numpy"]
    for extra, packages in EXTRAS.items():
        listed = [line.split(">")[0] for line in project["optional-dependencies"][extra]]
        assert {NAMES.get(name, name) for name in listed} - {"rich"} == set(packages)  # rich is done without
