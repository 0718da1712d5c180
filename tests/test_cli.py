"""The command line itself: what `fastmos` says, how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.cli import COMMANDS, explain, parser_of
from fastmos.errors import InputError


def fastmos(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "fastmos", *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tokenzer", "learn"], "no command 'tokenzer learn'; did you mean 'tokenizer learn'?"),
        (["tokenizer", "lern"], "no command 'tokenizer lern'; did you mean 'tokenizer learn'?"),
        (["docter"], "no command 'docter'; did you mean 'doctor'?"),
        (["trian", "config.yaml"], "no command 'trian'; did you mean 'train'?"),
        (["qqq"], "no command 'qqq'; see fastmos --help"),
        (["tokenizer", "show", "x", "--roows", "3"], "no option '--roows'; did you mean '--rows'?"),
    ],
)
def test_an_unknown_command_or_option_names_the_nearest(words: list[str], said: str) -> None:
    done = fastmos(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"fastmos: {said}\n")


@pytest.mark.parametrize("words", [[], ["--help"], ["tokenizer"], ["tokenizer", "--help"]])
def test_help_lists_commands(words: list[str]) -> None:
    done = fastmos(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tokenizer learn" in done.stdout


def test_help_needs_no_torch() -> None:
    program = """
import sys
from fastmos.cli import COMMANDS, dispatch
for words in ([], *(name.split() for name in COMMANDS)):
    try:
        dispatch([*words, "--help"])
    except SystemExit as end:
        assert not end.code
assert "torch" not in sys.modules and "numpy" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: fastmos ") == len(COMMANDS) + 1
    assert "--training.batch_tokens" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name: str) -> None:
    assert all(action.help for action in parser_of(name)._actions)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("x: no such file"), "x: no such file"),
        (MemoryError(), "there is not enough memory for this; choose smaller sizes or batches"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes."),
            "there is not enough memory for this; choose smaller sizes or batches",
        ),
        (OSError(28, "No space left on device", "mean"), "mean: No space left on device"),
        (
            ModuleNotFoundError("", name="PIL.Image"),
            "this needs the package PIL, which is not installed; pip install 'fastmos[caption]'",
        ),
        (ModuleNotFoundError("", name="fastmos.nothing"), None),
        (RuntimeError("a bug"), None),
    ],
)
def test_errors_that_can_be_mended_get_a_sentence(error: Exception, sentence: str | None) -> None:
    assert explain(error) == sentence


def test_the_bare_layer_needs_torch_and_numpy_alone(tmp_path: Path) -> None:
    """Without any extra: the layer works, help works, and other commands name the extra."""
    block = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""
    from fastmos.errors import EXTRAS

    packages = {package for extra in EXTRAS.values() for package in extra} | {"rich"}
    program = f"EXTRAS = {packages!r}\n{block}\nimport fastmos, torch\n"
    layer = "head = fastmos.MixtureOfSoftmaxes(4, 9, 2); head(torch.ones(3, 4), torch.arange(3)).loss.backward()\n"
    for action, said in [
        (f"{layer}print('fine')", "fine"),
        ("sys.argv = ['fastmos', 'demo', 'head', '--help']; from fastmos.cli import main; main()", "usage: fastmos"),
        ("sys.argv = ['fastmos', 'train', 'sample']; from fastmos.cli import main; main()", "'fastmos[text]'"),
        ("sys.argv = ['fastmos', 'features', '.']; from fastmos.cli import main; main()", "'fastmos["),
        ("try: fastmos.load('.')\nexcept fastmos.errors.InputError as error: print(error)", "'fastmos[text]'"),
    ]:
        done = subprocess.run(
            [sys.executable, "-c", program + action], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert said in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
