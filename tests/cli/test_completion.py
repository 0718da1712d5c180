"""`fastmos completion`: the script, asked by a real shell what it would complete."""

import shutil
import subprocess

import pytest

from fastmos.cli.completion import script


def complete(shell: str, *words: str) -> list[str]:
    """What TAB offers after these words, the last of which may be begun."""
    line = " ".join(f"'{word}'" for word in words)
    if shell == "zsh":  # arrays count from 1, but bashcompinit's functions set KSH_ARRAYS
        ask = f"setopt KSH_ARRAYS; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _fastmos; print -l $COMPREPLY"
        ask = ask.replace("$COMPREPLY", '"${COMPREPLY[@]}"')
        command = ["zsh", "-fc", f"autoload -U compinit; compinit -u; {script()}\n{ask}"]
    else:
        ask = f'COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _fastmos; printf "%s\\n" "${{COMPREPLY[@]}}"'
        command = ["bash", "-c", f"{script()}\n{ask}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["fastmos", "tr"], ["train", "translate"]),
        (["fastmos", "tokenizer", ""], ["learn", "encode", "decode", "show"]),
        (["fastmos", "demo", "h"], ["head"]),
        (["fastmos", "demo", "--f"], ["--folder"]),
        (["fastmos", "translate", "RUN", "--b"], ["--beam-size"]),
        (["fastmos", "tokenizer", "learn", "--vo"], ["--vocab-size"]),
        (["fastmos", "train", "CONFIG", "--head.ti"], ["--head.tie_embedding"]),
    ],
)
def test_what_tab_offers(shell: str, words: list[str], offered: list[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    assert complete(shell, *words) == offered
