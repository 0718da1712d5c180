"""Arguments of commands: what is wrong with them is said in one sentence."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.cli.arguments import (
    Parser,
    add_beam_size,
    add_choice,
    add_count,
    add_files,
    add_flag,
    add_number,
    add_path,
    split_settings,
)
from fastmos.errors import InputError


@pytest.fixture
def parser() -> Parser:
    parser = Parser("do", "Do something.")
    add_path(parser, "run", "a folder", "RUN")
    add_files(parser, "text")
    add_beam_size(parser)
    add_count(parser, "--lines", "how many", 5, least=0)
    add_number(parser, "--rate", "how fast", 1.0)
    add_choice(parser, "--overlong", ["cut", "refuse"], "what to do", "cut")
    add_flag(parser, "--json", "as JSON")
    return parser


def test_arguments_are_parsed(parser: Parser) -> None:
    args = parser.parse(["RUN", "a", "b", "--beam-size", "3", "--overlong=refuse", "--rate", "1e-3"])
    assert (args.run, args.files) == (Path("RUN"), [Path("a"), Path("b")])
    assert (args.beam_size, args.lines, args.rate, args.overlong) == (3, 5, 1e-3, "refuse")
    assert args.json is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("RUN --bogus 1", "no option '--bogus'; fastmos do --help lists the options"),
        ("RUN --bem-size=3", "no option '--bem-size'; did you mean '--beam-size'?"),
        ("RUN --beam 3", "no option '--beam'; did you mean '--beam-size'?"),  # no abbreviations: scripts keep working
        ("RUN --beam-size three", "--beam-size: must be a whole number, not 'three'; fastmos do --help"),
        ("RUN --beam-size 0", "--beam-size: must be at least 1, not 0; fastmos do --help"),
        ("RUN --lines 1.5", "--lines: must be a whole number, not '1.5'; fastmos do --help"),
        ("RUN --rate nan", "--rate: must be a number, not 'nan'; fastmos do --help"),
        ("", "the following arguments are required: RUN; fastmos do --help lists the options"),
        ("RUN --lines", "--lines: expected one argument; fastmos do --help lists the options"),
        ("RUN --overlong no", "--overlong: invalid choice: 'no' (choose from "),
    ],
)
def test_bad_arguments_get_a_sentence(
    words: str, said: str, parser: Parser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError) as caught:
        parser.parse(words.split())
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


def test_names_that_are_not_utf8_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    """As bytes, in a process; of options, of files and of what a command takes as plain text."""
    each: tuple[list[str | bytes], ...] = (
        ["train", "c.yaml", "--folder", b"runs/\xfftrain"],
        ["init", "translation", "--train", b"b\xff/train.de", b"b\xff/train.en", "-o", "q.yaml"],
        ["train", b"\xff.yaml", "--training.seed=2"],
        ["runs", b"\xff"],
    )
    for words in each:
        command = [sys.executable, "-m", "fastmos", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        said = r"fastmos: '.*\\xff.*': not UTF-8 text; if it is the name of a file, rename it\n"
        assert re.fullmatch(said, done.stderr)
        assert not list(tmp_path.iterdir())


def test_other_scripts_are_names(parser: Parser) -> None:
    assert parser.parse(["läufe/走"]).run == Path("läufe/走")


def test_help_is_shown_and_ends_well(parser: Parser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser.parse(["--help"])
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert shown.startswith("usage: fastmos do [-h]")
    assert "RUN [FILE ...]" in shown
    assert "--beam-size N" in shown
    assert "how many (default: 5)" in shown


def test_settings_are_separated_from_arguments() -> None:
    words = [
        "CONFIG",
        "--model.num-layers",
        "2",
        "--folder",
        "RUN",
        "--task=captioning",
        "--head.tie_embedding",
        "--a.b",
        "0.5",
        "0.6",
        "-h",
    ]
    others, settings = split_settings(words)
    assert others == ["CONFIG", "--folder", "RUN", "-h"]
    assert settings == {
        "model.num_layers": "2",
        "task": "captioning",
        "head.tie_embedding": "true",
        "a.b": "[0.5, 0.6]",
    }


def test_settings_may_be_negative() -> None:
    assert split_settings(["--training.learning_rate", "-1"]) == ([], {"training.learning_rate": "-1"})


def test_an_option_without_its_section_finds_the_setting() -> None:
    parser = Parser("train")
    parser.settings = lambda: ["model.num_layers", "model.dropout"]
    with pytest.raises(InputError, match=r"no option '--num_layers'; did you mean '--model.num_layers'\?"):
        parser.parse(["--num_layers", "2"])
