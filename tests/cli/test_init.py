"""`fastmos init`: a config for one's own files that trains as it is."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastmos.cli.init import look
from fastmos.config import TASKS, Config, check, options, read_config
from tests.cli.calling import Command

RAW = ["Der Hund bellt.", "Die Katze, sie schläft.", "Wer ist da?"]
TOKENIZED = ["the dog barks .", "the cat , she sleeps .", "who is there ?"]


def write_texts(folder: Path) -> None:
    """Raw German, gzipped, and tokenized English: train, dev and test."""
    for split, times in (("train", 30), ("dev", 1), ("test", 1)):
        (folder / f"{split}.de.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in RAW * times).encode()))
        (folder / f"{split}.en").write_text("".join(f"{line}\n" for line in TOKENIZED * times), encoding="utf-8")


def fastmos(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fastmos", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_init_train_translate(tmp_path: Path) -> None:
    """As a newcomer would, with nothing but two files."""
    (tmp_path / "text").mkdir()
    write_texts(tmp_path / "text")
    made = fastmos(tmp_path, "init", "translation", "--train", "text/train.de.gz", "text/train.en", "-o", "a/mine.yaml")
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == "a/mine.yaml: look at it, then fastmos train a/mine.yaml\n"
    values = options(read_config(tmp_path / "a" / "mine.yaml"))
    assert values["data.train.source"] == "../text/train.de.gz"
    assert values["data.valid.target"] == "../text/dev.en"
    assert (values["tokenizers.source.language"], values["tokenizers.source.lowercase"]) == ("de", False)
    assert (values["tokenizers.target.language"], values["tokenizers.target.lowercase"]) == ("", True)
    trained = fastmos(tmp_path, "train", "a/mine.yaml", "--training.max_steps", "3", "--search.max_length", "4")
    assert trained.returncode == 0, trained.stderr
    assert "warning" not in trained.stderr
    done = subprocess.run(
        [sys.executable, "-m", "fastmos", "translate", "runs/mine"],
        input="Wer schläft?\n",
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr


@pytest.mark.parametrize("task", TASKS)
def test_every_key_has_a_comment_and_the_config_is_usable(task: str, tmp_path: Path, run_command: Command) -> None:
    path = tmp_path / "config.yaml"
    assert run_command("init", task, "-o", path).code == 0
    for line in path.read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"#.*| *\w+:( .+)?  # .{5,}", line), line
    config = read_config(path)
    check(config)
    assert config.task == task
    assert config.model.task == task
    head = {name: value for name, value in options(config).items() if name.startswith("head.")}
    assert (head["head.type"], head["head.near_softmax"]) == ("shortlist", True)  # what is safe to switch on
    assert options(config)["training.batch_size"] != options(Config())["training.batch_size"]


def test_files_that_are_not_there_are_named(
    tmp_path: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("a b .\n" * 10)
    done = run_command("init", "language-modeling", "--train", "train.txt")
    assert done.code == 0
    assert "fastmos: valid.txt: not there yet; set some hundred lines of the training text aside\n" in done.err
    assert done.out == "language-modeling.yaml: look at it, then fastmos train language-modeling.yaml\n"


def test_sizes_follow_the_text(tmp_path: Path, run_command: Command) -> None:
    sizes = []
    for number, lines in enumerate((100, 20_000)):
        text = tmp_path / f"train{number}.txt"
        text.write_text("a b c .\n" * lines)
        run_command("init", "language-modeling", "--train", text, "-o", tmp_path / f"{number}.yaml")
        values = options(read_config(tmp_path / f"{number}.yaml"))
        sizes.append((values["tokenizers.target.vocab_size"], values["model.hidden_size"]))
    assert sizes == [(2000, 128), (5000, 256)]


def test_a_text_of_many_characters_gets_as_many_tokens(tmp_path: Path) -> None:
    text = tmp_path / "train.zh"
    text.write_text("".join(chr(0x4E00 + number) for number in range(3000)) + "\n", encoding="utf-8")
    assert look(text).characters == 3000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("translation --train train.txt", "a split has 2 files (source and target), not 1"),
        ("language-modeling --train none", "none: no such file"),
        ("language-modeling -o train.txt", "train.txt: exists; give another --output"),
        ("translation --train train.txt b.txt", "b.txt: has no 'train' in its name; give --valid and --test as well"),
        ("language-modeling --train b.txt", "b.txt: has no 'train' in its name; give --valid and --test as well"),
        (
            "language-modeling --train ${HOME}.train.txt",
            "${HOME}.train.txt: a config would take what is in ${} from the environment; rename it",
        ),
        ("parsing", "no task 'parsing'; choose one of translation, captioning, language-modeling"),
    ],
)
def test_refusals(words: str, said: str, tmp_path: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"train.txt", "b.txt", "${HOME}.train.txt"}
    for file in files:
        Path(file).write_text("a\n")
    done = run_command("init", *words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"fastmos: {said}") and done.err.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == files
