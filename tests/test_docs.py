"""Every command and every Python snippet of the documentation is executed.

Fenced blocks marked `bash`, `sh` or `python` run from top to bottom, each document in a folder of its own that looks
like a checkout. Where the text trains on the embedded sample, it does so on less of it. A block that needs data, hours
or the network is marked `not-run`: its commands are parsed, but not carried out, and the number of such blocks is
written down here. A block marked `text` right below a Python block is what that prints, word for word; `text varies`
only looks like it, where figures depend on rounding.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from fastmos.cli import command_of, parser_of
from fastmos.config import Config, find_config, override, read_config

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
NOT_RUN = {  # how many blocks of a document are only looked at
    "README.md": 2,  # installing, make demo and make test
    "docs/assignment.md": 1,  # a benchmark
    "docs/captioning.md": 2,  # photos, and real data
    "docs/data.md": 1,  # a download
    "docs/huggingface.md": 2,  # two processes
    "docs/recipes.md": 2,  # photos, several GPUs
    "docs/reliability.md": 2,  # a scheduler; minutes
    "docs/reproducing.md": 3,  # minutes, and real data
    "docs/results.md": 9,  # real data
    "docs/scaling.md": 3,  # a benchmark, eight GPUs, two machines
    "docs/serving.md": 2,  # a server
    "docs/training.md": 1,  # two processes
    "docs/tables.md": 4,  # two processes, a benchmark, real data
}
SMALLER = {  # what commands say -> what is run
    r"fastmos data sample \S+": r"\g<0> --pairs 120 --valid 4 --test 4",
    r"fastmos train sample": "fastmos train configs/sample.yaml",  # made smaller below
    r"vocab_size: 1500": "vocab_size: 100",  # these are lines of a config that a document writes
    r"hidden_size: 128": "hidden_size: 8",
    r"max_epochs: 10": "max_epochs: 1",
    r"max_length: 60": "max_length: 5",
    r"--training\.max_epochs 10": "--training.max_epochs 1 --model.hidden_size 8 --search.max_length 5",
    r"--training\.max_epochs 15": "--training.max_epochs 2 --model.hidden_size 8 --search.max_length 5",
}
SMALLER_CONFIG = {  # lines of configs/sample.yaml
    r"vocab_size: 1500": "vocab_size: 100",
    r"hidden_size: 128": "hidden_size: 8",
    r"embedding_size: 128": "embedding_size: 8",
    r"max_epochs: 4": "max_epochs: 1",
    r"beam_size: 5": "beam_size: 2",
    r"max_length: 60": "max_length: 5",
}
COMMAND = re.compile(r"    (\$ )?(fastmos|python3?|torchrun|pip|make|import|from|[A-Z_]+=\S+) ")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    runs: bool
    line: int  # its first one, in the document
    text: str
    shown: str | None = None  # what it prints, if the document says so


def blocks(document: str) -> list[Block]:
    """The blocks of commands and Python, in order."""
    found: list[Block] = []
    inside: list[str] | None = None
    begin, words = 0, [""]
    for number, line in enumerate((ROOT / document).read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("```") and inside is None:
            words = line.removeprefix("```").split() or [""]
            begin, inside = number + 1, []
        elif line.startswith("```") and inside is not None:
            if words[0] in ("bash", "sh", "python"):
                found.append(Block(words[0], "not-run" not in words[1:], begin, "\n".join(inside)))
            elif words == ["text"] and found and end_of(found[-1]) == begin - 2:
                found[-1] = replace(found[-1], shown="\n".join(inside))
            inside = None
        elif inside is not None:
            inside.append(line)
    assert inside is None, f"{document}, line {begin - 1}: this block does not end"
    return found


def end_of(block: Block) -> int:
    """The last line of a block's fence, with the empty line after it."""
    return block.line + len(block.text.splitlines()) + 1


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout, with a smaller configs/sample.yaml."""
    for name in ("benchmarks", "examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "configs").mkdir()
    for path in (ROOT / "configs").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        if path.name == "sample.yaml":
            text = substituted(text, SMALLER_CONFIG)
        (tmp_path / "configs" / path.name).write_text(text, encoding="utf-8")
    return tmp_path


def substituted(text: str, changes: dict[str, str]) -> str:
    for pattern, replacement in changes.items():
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_is_written_works(document: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(document):
        if block.runs and block.language == "python":
            program = "\n" * (block.line - 1) + block.text  # so that errors name the document's lines
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(program, str(ROOT / document), "exec"), names)
            if block.shown is not None:
                assert printed.getvalue().rstrip("\n") == block.shown, f"{document}, line {block.line}"
        elif block.runs:
            run_shell(document, block, checkout)


def run_shell(document: str, block: Block, folder: Path) -> None:
    ours = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", substituted(block.text, SMALLER)],
        cwd=folder,
        env={**os.environ, "PATH": ours, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{document}, line {block.line}: exit code {done.returncode}\n{done.stdout}"


def test_blocks_that_are_not_run_are_known() -> None:
    counts = {document: sum(not block.runs for block in blocks(document)) for document in DOCUMENTS}
    assert {document: count for document, count in counts.items() if count} == NOT_RUN


@pytest.mark.parametrize("document", [document for document in DOCUMENTS if document in NOT_RUN])
def test_what_is_not_run_can_be_parsed(document: str) -> None:
    for block in blocks(document):
        if not block.runs and block.language == "python":
            compile(block.text, document, "exec")
        elif not block.runs:
            for words in fastmos_commands(block.text):
                parse(words)


def fastmos_commands(text: str) -> list[list[str]]:
    """The words after `fastmos` of each command in a block, without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in lines]
    return [
        [word for word in words[words.index("fastmos") + 1 :] if word != "&"] for words in split if "fastmos" in words
    ]


def parse(words: list[str]) -> None:
    """Refuse what the command would refuse before it looks at files; configs of the checkout are read."""
    name = command_of(words)
    assert name is not None, f"no command {words[:2]}"
    args = parser_of(name).parse(words[len(name.split()) :])
    if name == "train":
        path = ROOT / args.config if (ROOT / args.config).is_file() else find_config(args.config)
        override(read_config(path) if path.is_file() else Config(), args.settings)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_stand_in_fences(document: str) -> None:
    """An indented block would not be run."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    fenced = {block.line + row for block in blocks(document) for row in range(len(block.text.splitlines()))}
    stray = [number for number, line in enumerate(lines, 1) if COMMAND.match(line) and number not in fenced]
    assert not stray, f"{document}: put the commands in lines {stray} into fences"


@pytest.mark.parametrize("document", [*DOCUMENTS, "CONTRIBUTING.md", "benchmarks/README.md"])
def test_links_lead_somewhere(document: str) -> None:
    """To a file, and to a heading in it; those of the project's own address, too."""
    page = ROOT / document
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        own = re.fullmatch(r"https://github.com/fastmos/fastmos/(?:blob|raw)/main/(.+)", target)
        if "://" in target and not own:
            continue
        name, _, heading = (own[1] if own else target).partition("#")
        file = (ROOT if own else page.parent) / name if name else page
        assert file.exists(), target
        assert not heading or heading in anchors(file), target


def anchors(page: Path) -> set[str]:
    """Those that GitHub gives to a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_links_from_anywhere() -> None:
    """PyPI shows it too, where a relative link leads nowhere."""
    targets = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert targets and all(target.startswith("https://") for target in targets)


def test_the_smaller_config_is_smaller() -> None:
    text = (ROOT / "configs/sample.yaml").read_text(encoding="utf-8")
    assert all(re.search(pattern, text) for pattern in SMALLER_CONFIG)
