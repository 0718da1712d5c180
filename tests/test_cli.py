"""The command line itself: what `fastmos` says, how it ends."""

import subprocess
import sys

import pytest


def fastmos(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "fastmos", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cods", "learn"], "no command 'cods learn'; did you mean 'codes learn'?"),
        (["codes", "lern"], "no command 'codes lern'; did you mean 'codes learn'?"),
        (["docter"], "no command 'docter'; did you mean 'doctor'?"),
        (["qqq"], "no command 'qqq'; see fastmos --help"),
        (["codes", "show", "x", "--roows", "3"], "no option '--roows'; did you mean '--rows'?"),
    ],
)
def test_an_unknown_command_or_option_names_the_nearest(words: list[str], said: str) -> None:
    done = fastmos(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"fastmos: {said}\n")


@pytest.mark.parametrize("words", [[], ["--help"], ["codes"], ["codes", "--help"]])
def test_help_lists_commands_without_torch(words: list[str]) -> None:
    code = (
        f"import sys; sys.argv = ['fastmos', *{words!r}]; from fastmos.cli import main; main();"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "codes learn" in done.stdout
