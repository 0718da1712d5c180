"""What all tasks share: tokenizers of every type, the shortlist of a head, and models of every body and head."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fastmos.checkpoints import load_weights, read_tensors, weights, write_tensors
from fastmos.config import HEADS, TOKENIZERS, TokenizerConfig, TokenizerFile, changed
from fastmos.errors import InputError
from fastmos.experiment import begin
from fastmos.files import read_json
from fastmos.heads import best_shortlist
from fastmos.run_folder import RunFolder
from fastmos.tasks import Task, build_task
from fastmos.tasks.base import learn_tokenizer
from fastmos.tokenizers import BPETokenizer, Pretokenizer, TableTokenizer, Tokenizer, WordTokenizer
from tests.training.tiny import tiny

LINES = ["Ten small cats", "ten SMALL cats sleep", "cats"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path / "text"


def test_a_missing_package_for_the_log_is_refused_before_any_work(
    digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    task = build_task(tiny(training={"log_to": "wandb"}), digits, RunFolder(digits / "run"))
    with pytest.raises(InputError, match=r"training\.log_to wandb needs the package wandb; pip install it"):
        task.check()
    assert not (digits / "run").exists()


# ---- tokenizers


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"type": "words"}, WordTokenizer),
        ({"type": "bpe", "vocab_size": 40}, BPETokenizer),
        ({"type": "table", "vocab_size": 6, "words": 6}, TableTokenizer),
        ({"type": "table", "vocab_size": 6, "words": 6, "layout": "neighbors", "learn": True}, TableTokenizer),
    ],
)
@pytest.mark.parametrize("lowercase", [False, True])
def test_tokenizers_are_learned_from_text(
    values: dict[str, Any], kind: type[Tokenizer], lowercase: bool, text: Path, tmp_path: Path
) -> None:
    section: TokenizerConfig = TOKENIZERS[values["type"]](**values, lowercase=lowercase)
    learned = learn_tokenizer(section, [text, text], tmp_path)
    assert isinstance(learned, kind)
    expected = [line.lower() for line in LINES] if lowercase else LINES
    assert learned.decode_lines(learned.encode_lines(LINES)) == expected


def test_a_tokenizer_is_read_from_its_file(text: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    WordTokenizer.learn(LINES, vocab_size=10, pretokenizer=Pretokenizer(lowercase=True)).save(path)
    for lowercase in (False, True):  # a file knows its own
        section = TokenizerFile(path="tokenizer.json", lowercase=lowercase)
        assert learn_tokenizer(section, [text], tmp_path).pretokenizer == Pretokenizer(lowercase=True)


def test_a_tokenizer_for_other_text_is_refused(text: Path, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    WordTokenizer.learn(LINES, vocab_size=10).save(path)
    said = f"{path}: was made for language '' and lowercase False, but the config says '' and True; leave both out"
    with pytest.raises(InputError) as refused:
        learn_tokenizer(TokenizerFile(path=str(path), lowercase=True), [text], tmp_path)
    assert str(refused.value) == said


# ---- shortlist


def begun(base: Path, changes: dict[str, Any]) -> Task:
    """A task with its tokenizers, for text in which the digits are ever rarer: 0 stands 512 times, 9 once."""
    lines = [" ".join(str(digit) for digit in range(10) if row % 2**digit == 0) for row in range(512)]
    for side in "ab":
        (base / f"train.{side}").write_text("".join(f"{line}\n" for line in lines))
    task = build_task(changed(tiny(), changes), base, RunFolder(base / "run"))
    begin(task)
    return task


@pytest.mark.parametrize(
    ("head", "size"),
    [
        ({"type": "shortlist", "shortlist": 6}, 6),
        ({"type": "mixtape", "shortlist": 6}, 6),
        ({"type": "mixtape"}, 1),  # a tenth of 14
    ],
)
def test_a_shortlist_has_the_size_given(head: dict[str, Any], size: int, digits: Path) -> None:
    task = begun(digits, {"head": head})
    task.choose_shortlist(task.dataset("train"))
    assert len(read_json(task.folder.shortlist)) == size


def test_the_frequent_tokens_are_on_the_shortlist(digits: Path) -> None:
    task = begun(digits, {"head": {"type": "shortlist", "shortlist": 7}})
    task.choose_shortlist(task.dataset("train"))
    tokenizer = task.target
    special = {tokenizer.pad, tokenizer.bos, tokenizer.unk, tokenizer.eos}
    assert set(read_json(task.folder.shortlist)) == special | set(tokenizer.encode("0 1 2"))


@pytest.mark.parametrize("mixtures", [1, 2, 4])
def test_a_shortlist_without_a_size_is_the_cheapest(mixtures: int, digits: Path) -> None:
    task = begun(digits, {"head": {"type": "shortlist", "mixtures": mixtures}})
    dataset = task.dataset("train")
    task.choose_shortlist(dataset)
    counts = np.bincount(dataset.target.tokens, minlength=len(task.target))
    counts[task.target.eos] = 512
    assert len(read_json(task.folder.shortlist)) == len(best_shortlist(torch.from_numpy(counts), mixtures))


@pytest.mark.parametrize("kind", ["shortlist", "mixtape"])
def test_a_shortlist_of_the_whole_vocabulary_is_refused(kind: str, digits: Path) -> None:
    task = begun(digits, {"head": {"type": kind, "shortlist": 14}})
    with pytest.raises(InputError, match=r"^head\.shortlist is 14; it must be below the 14 tokens of the vocabulary$"):
        task.choose_shortlist(task.dataset("train"))


def test_other_heads_have_no_shortlist_and_a_trained_one_keeps_its_own(digits: Path) -> None:
    task = begun(digits, {})
    task.choose_shortlist(task.dataset("train"))
    assert not task.folder.shortlist.exists()
    task = begun(digits, {"head": {"type": "shortlist"}})
    task.folder.state.touch()
    task.choose_shortlist(task.dataset("train"))
    assert not task.folder.shortlist.exists()


# ---- models


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("body", ["attention-lstm", "transformer"])
@pytest.mark.parametrize("head", list(HEADS))
def test_a_model_loads_its_own_weights_back(head: str, body: str, tied: bool, digits: Path) -> None:
    sizes = {"hidden_size": 8, "num_layers": 1, **({"num_heads": 2, "ffn_size": 8} if body == "transformer" else {})}
    changes = {"head": {"type": head, "tie_embedding": tied}, "model": {"type": body, **sizes}}
    task = begun(digits, changes)
    dataset = task.dataset("train")
    task.choose_shortlist(dataset)
    model, same = task.build_model().eval(), task.build_model().eval()
    other = build_task(changed(task.config, {"training": {"seed": 2}}), digits, task.folder).build_model().eval()
    batch = next(dataset.batches(max_sentences=4).epoch(0))

    def loss(model: torch.nn.Module) -> float:
        return float(model(batch)[0].loss.detach())

    expected = loss(model)
    assert loss(same) == expected  # the seed decides
    assert loss(other) != pytest.approx(expected, rel=1e-6)
    write_tensors(task.folder.model, weights(model), {})
    load_weights(other, read_tensors(task.folder.model)[0], task.folder.model)
    assert loss(other) == expected
    embedding = model.body.get_parameter("embedding.weight")
    assert any(parameter is embedding for parameter in model.head.parameters()) is tied
