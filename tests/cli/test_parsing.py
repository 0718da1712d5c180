"""Arguments of commands: what is wrong with them is said in one sentence."""

from pathlib import Path
from typing import Literal

import pytest
from tyro.conf import Positional

from fastmos.cli.parsing import bind, override
from fastmos.errors import InputError
from fastmos.training.config import Config, Model, options

called: list[object] = []


def command(
    run: Positional[Path],
    files: Positional[tuple[Path, ...]] = (),
    beam: int | None = None,
    lines: int = 5,
    rate: float = 1.0,
    overlong: Literal["cut", "refuse"] = "cut",
    *,
    top_k: tuple[int, int] = (1, 2),
) -> None:
    """Do something.

    Args:
        run: folder that
            training made.
    """
    called.append((run, files, beam, lines, rate, overlong, top_k))


def test_a_command_is_called_with_what_was_parsed() -> None:
    called.clear()
    ready = bind(command, "do", ["RUN", "a", "b", "--beam", "3", "--overlong=refuse", "--top-k", "3", "4"])
    assert called == []
    ready()
    assert called == [(Path("RUN"), (Path("a"), Path("b")), 3, 5, 1.0, "refuse", (3, 4))]


@pytest.mark.parametrize("columns", ["40", "80", "200"])
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("RUN --bogus 1", "no option '--bogus'; fastmos do --help lists the options"),
        ("RUN --bem 3", "no option '--bem'; did you mean '--beam'?"),
        ("RUN --beam three", "--beam: must be INT, not 'three'"),
        ("RUN --lines 1.5", "--lines: must be a whole number, not '1.5'"),
        ("RUN --rate fast", "--rate: must be a number, not 'fast'"),
        ("", "missing PATH (folder that training made); fastmos do --help lists the options"),
        ("RUN --lines", "missing value for argument '--lines', expected 1 values; fastmos do --help lists the options"),
        (
            "RUN --overlong no",
            "invalid choice 'no' for argument '--overlong', expected one of ('cut', 'refuse'); "
            "fastmos do --help lists the options",
        ),
    ],
)
def test_bad_arguments_get_a_sentence(
    words: str, said: str, columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(InputError) as caught:
        bind(command, "do", words.split())
    assert str(caught.value) == said
    assert capsys.readouterr() == ("", "")


def test_help_is_shown_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        bind(command, "do", ["--help"])
    assert not ended.value.code
    assert "usage: fastmos do" in capsys.readouterr().out


# ---- overrides of a config


def test_overrides_come_on_top() -> None:
    words = [
        "--model.layers",
        "2",
        "--training.betas",
        "0.5",
        "0.6",
        "--head.tied",
        "--model.input-feeding",
        "--data.train.source=x",
    ]
    config = override(Config(model=Model(width=64)), words)
    expected = {"model.layers": 2, "model.width": 64, "training.betas": [0.5, 0.6], "head.tied": True}
    assert {name: options(config)[name] for name in expected} == expected
    assert config.model.input_feeding
    assert config.data.train.source == "x"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--model.layer 2", "no option '--model.layer'; did you mean '--model.layers'?"),
        ("--layers 2", "no option '--layers'; did you mean '--model.layers'?"),
        ("--model.layers two", "--model.layers: must be a whole number, not 'two'"),
        ("--model.layers 0", "--model.layers: input should be greater than or equal to 1, not 0"),
        ("--model.layers", "missing value for argument '--model.layers'"),
        (
            "--model.kind gru",
            "invalid choice 'gru' for argument '--model.kind', expected one of ('lstm', ",
        ),
        ("--training.rate -1", "--training.rate: input should be greater than 0, not -1.0"),
        ("stray", "no place for 'stray'; fastmos train --help lists the options"),
    ],
)
def test_bad_overrides_get_a_sentence(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        override(Config(), words.split())
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")
