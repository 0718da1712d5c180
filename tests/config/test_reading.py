"""YAML files of strangers: each is read, or refused in one sentence at once."""

import os
from pathlib import Path

import pytest

from fastmos.config import read_config
from fastmos.errors import InputError

LAUGHS = "a: &a [x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (LAUGHS, "aliases that stand for too many values"),
        ("a: &a [*a]", "aliases that stand for too many values, or for themselves"),
        ("a: &a\n  <<: *a", "aliases that stand for too many values, or for themselves"),
        ("{a: " * 20_000, "nested deeper than 20"),
        ("\n".join(" " * depth + "a:" for depth in range(50)), "nested deeper than 20"),
        ("#" * 200_000, "has more than 100,000 bytes"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: !!int x", "a value that is not what its tag says"),
        ("a: 2001-99-99", "a value that is not what its tag says"),
        (f"training: {{seed: {'9' * 5000}}}", "a value that is not what its tag says"),
        (f"training: {{seed: 0x{'f' * 5000}}}", "less than 9223372036854775808, not a number of thousands of digits"),
        (f"data: {{max_length: {2**62}}}", "data.max_length: input should be less than or equal to 1000000000"),
        (f"head: {{mixtures: {2**62}}}", "head.mixtures: input should be less than or equal to 1000"),
        ("model: {num_layers: 100000}", "model.num_layers: input should be less than or equal to 1000"),
        ('data: {cache: "a\\0b"}', "data.cache: must be text without the character NUL"),
        ('data: {cache: "\\ud800"}', "not valid YAML"),
        ("1: x", "keys should be strings"),
        ("[a]: x", "not valid YAML"),
        ("- a", "holds no sections"),
        ("", "holds no sections"),
        ("task: [1]", "task: "),
        ("training: {batch_size: .nan}", "training.batch_size: input should be a finite number"),
        (f"training: {{batch_size: {'x' * 5000}}}", r"not 'x{79}\.\.\.$"),
    ],
    ids=str,
)
def test_a_hostile_file_gets_a_sentence(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=said) as refused:
        read_config(path)
    assert len(str(refused.value)) < 1000 and "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_regular_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is a folder" if kind == "folder" else "not a regular file"):
        read_config(path)


def test_plain_aliases_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("tokenizers:\n  source: &one {type: words, vocab_size: 7}\n  target: *one\n")
    assert read_config(path).tokenizers.target.arguments()["vocab_size"] == 7
