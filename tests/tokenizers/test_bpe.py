"""BPETokenizer: learned alike everywhere, splits words as subword-nmt does, unseen characters, thresholds, dropout."""

import io
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmos.errors import InputError
from fastmos.files import read_lines
from fastmos.tokenizers import UNK, UNK_TEXT, BPETokenizer, Pretokenizer, load_tokenizer, read_merges


def generated_lines(count: int, seed: int = 0, letters: str = "aeioubdgklmnrst") -> list[str]:
    """Lines of invented words, some of them frequent, some with odd characters."""
    random = Random(seed)
    stems = ["".join(random.choices(letters, k=random.randint(1, 6))) for _ in range(200)]
    endings = ["", "", "s", "en", "ung", "ß", "é", "'s", "-x", "@@", "</w>", "\u200dق", "日本", "."]

    def word() -> str:
        return stems[int(len(stems) * random.random() ** 2)] + random.choice(endings)

    return [" ".join(word() for _ in range(random.randint(0, 12))) for _ in range(count)]


LINES = generated_lines(600)


def subword_nmt_merges(lines: list[str], count: int) -> list[str]:
    from subword_nmt.learn_bpe import learn_bpe

    out = io.StringIO()
    learn_bpe(io.StringIO("".join(f"{line}\n" for line in lines)), out, count)
    return out.getvalue().splitlines()


def subword_nmt_pieces(merges: list[str], lines: list[str], vocabulary: set[str] | None = None) -> list[str]:
    from subword_nmt.apply_bpe import BPE

    bpe = BPE(io.StringIO("".join(f"{line}\n" for line in merges)), vocab=vocabulary)
    return [bpe.segment(line) for line in lines]


def pieces(tokenizer: BPETokenizer, lines: list[str]) -> list[str]:
    return [" ".join(its) for its in tokenizer.tokenize_lines(lines)]


@pytest.mark.parametrize("vocab_size", [100, 300, 1000])
def test_vocab_size_counts_pieces(vocab_size: int) -> None:
    tokenizer = BPETokenizer.learn(LINES, vocab_size=vocab_size)
    assert len(tokenizer) == vocab_size + 4
    assert tokenizer.decode_lines(tokenizer.encode_lines(LINES)) == LINES


def test_learning_ends_when_no_pair_occurs_twice() -> None:
    tokenizer = BPETokenizer.learn(["abc abd"], vocab_size=1000)
    assert tokenizer.merges == [("a", "b")]
    assert tokenizer.pieces == ["a", "a</w>", "b", "b</w>", "c", "c</w>", "d", "d</w>", "ab"]


def test_same_text_gives_the_same_file(tmp_path: Path) -> None:
    """Byte for byte: in other processes with other hash seeds, and with the lines in another order."""
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    script = (
        "import sys; from fastmos.tokenizers import BPETokenizer; from fastmos.files import read_lines\n"
        "BPETokenizer.learn(read_lines(sys.argv[1]), vocab_size=500).save(sys.argv[2])"
    )
    for seed in ("1", "2"):
        command = [sys.executable, "-c", script, str(tmp_path / "text"), str(tmp_path / seed)]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True)
    BPETokenizer.learn(LINES[::-1], vocab_size=500).save(tmp_path / "3")
    files = [(tmp_path / name).read_bytes() for name in ("1", "2", "3")]
    assert files[0] == files[1] == files[2]


def test_merges_are_those_of_subword_nmt() -> None:
    lines = [line.replace("</w>", "") for line in LINES]  # where it confuses such text with its own mark
    tokenizer = BPETokenizer.learn(lines, vocab_size=600)
    assert tokenizer.merges_lines() == subword_nmt_merges(lines, len(tokenizer.merges))


def test_pieces_are_those_of_subword_nmt() -> None:
    tokenizer = BPETokenizer.learn(LINES, vocab_size=500)
    others = [*generated_lines(300, seed=1, letters="aeiouzxyßق☃"), "☃ a☃ ☃a a☃b", "", "a\xa0b c\u2009d"]
    for lines in (LINES, others):
        assert pieces(tokenizer, lines) == subword_nmt_pieces(tokenizer.merges_lines(), lines)


@given(st.lists(st.text(alphabet="abcß☃</w>@", min_size=1, max_size=9), max_size=5))
def test_pieces_are_those_of_subword_nmt_for_any_word(words: list[str]) -> None:
    tokenizer = BPETokenizer.learn(["abcabc abba cab bac ab ab ßa ßab </w> </w>a b@@ @@b"], vocab_size=60)
    line = " ".join(words)
    assert pieces(tokenizer, [line]) == subword_nmt_pieces(tokenizer.merges_lines(), [line])
    if "@" not in line:  # a word's own @@ cannot be told from the mark
        assert tokenizer.detokenize_lines(tokenizer.tokenize_lines([line])) == [line]


def test_the_fast_split_is_the_slow_split() -> None:
    tokenizer = BPETokenizer.learn(LINES, vocab_size=400)
    assert tokenizer.encode_with_dropout(LINES, dropout=0.0, seed=0) == tokenizer.encode_lines(LINES)


def test_real_text(real_data: Path) -> None:
    for language in ("de", "en"):
        lines = [
            re.sub(" +", " ", line.strip(" ")) for line in read_lines(real_data / "multi30k" / f"train.{language}.gz")
        ]
        tokenizer = BPETokenizer.learn(lines, vocab_size=3000)
        assert tokenizer.merges_lines() == subword_nmt_merges(lines, len(tokenizer.merges))
        assert pieces(tokenizer, lines) == subword_nmt_pieces(tokenizer.merges_lines(), lines)
        assert tokenizer.decode_lines(tokenizer.encode_lines(lines)) == lines


@pytest.mark.parametrize(
    ("line", "back"),
    [
        ("☃", UNK_TEXT),
        ("☃ a", f"{UNK_TEXT} a"),
        ("ab☃ a", f"ab{UNK_TEXT} a"),
        ("a ☃☃☃ b", f"a {UNK_TEXT} b"),
        ("a☃b c", f"a{UNK_TEXT} c"),  # unk ends its word
        ("cba", "cba"),  # each character was seen, if not in this place
        (UNK_TEXT, UNK_TEXT),
    ],
)
def test_unseen_characters(line: str, back: str) -> None:
    tokenizer = BPETokenizer.learn(["abc ab a"], vocab_size=8)
    assert tokenizer.decode(tokenizer.encode(line)) == back
    assert tokenizer.encode(line).count(UNK) == back.count(UNK_TEXT)


def test_pieces_end_words() -> None:
    tokenizer = BPETokenizer.learn(["abc ab a"], vocab_size=8)
    for token in range(4, len(tokenizer)):
        assert (
            tokenizer.ends_word[token]
            == tokenizer.pieces[token - 4].endswith("</w>")
            == (not tokenizer.id_to_token(token).endswith("@@"))
        )


def test_no_piece_within_words_looks_like_the_end_of_one() -> None:
    """A text may have `</w>` itself."""
    lines = ["a</w>b </w>b a</w>b"] * 5
    tokenizer = BPETokenizer.learn(lines, vocab_size=40)
    assert tokenizer.decode_lines(tokenizer.encode_lines(lines)) == lines
    assert [tokenizer.decode(tokenizer.encode(line)) for line in ("a </w>", "a</w> b", "</w>a")] == [
        "a </w>",
        "a</w> b",
        "</w>a",
    ]


def test_merges_of_a_file_give_the_same_tokenizer(tmp_path: Path) -> None:
    tokenizer = BPETokenizer.learn(LINES, vocab_size=400)
    (tmp_path / "codes").write_text("\n".join(tokenizer.merges_lines()), encoding="utf-8")
    again = BPETokenizer.learn(LINES, merges=read_merges(tmp_path / "codes"))
    assert again.to_json() == tokenizer.to_json()


def test_repeated_merges_are_applied_as_in_subword_nmt(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b\nb c\na b\nab c\na bc\n")
    tokenizer = BPETokenizer.learn(["abc"], merges=read_merges(tmp_path / "codes"))
    lines = ["abc abca bcabc xabcx"]
    assert len(tokenizer.merges) == 4
    assert pieces(tokenizer, lines) == subword_nmt_pieces(tokenizer.merges_lines(), lines)


@pytest.mark.parametrize("threshold", [1, 5, 30, 200])
def test_threshold_is_that_of_subword_nmt(threshold: int) -> None:
    """Learned jointly, restricted to what is frequent in one language."""
    both = [*LINES, *generated_lines(200, seed=2, letters="xyzaeiou")]
    both = [line.replace("@@", "") for line in both]  # in its vocabularies a word's own @@ looks like the mark
    one, other = both[: len(LINES)], both[len(LINES) :]
    joint = BPETokenizer.learn([*one, *other], vocab_size=500)
    tokenizer = BPETokenizer.learn(one, merges=joint.merges, threshold=threshold)
    counts = Counter(piece for line in pieces(joint, one) for piece in line.split())
    vocabulary = {piece for piece, count in counts.items() if count >= threshold}
    assert {tokenizer.id_to_token(token) for token in range(4, len(tokenizer))} == vocabulary
    lines = [*one, *other]
    expected = subword_nmt_pieces(joint.merges_lines(), lines, vocabulary)
    assert pieces(tokenizer, lines) == expected
    for line, tokens in zip(expected, tokenizer.encode_lines(lines), strict=True):
        if all(piece in vocabulary for piece in line.split()):
            assert [tokenizer.id_to_token(token) for token in tokens] == line.split()
        else:
            assert UNK in tokens


def test_dropout() -> None:
    tokenizer = BPETokenizer.learn(LINES, vocab_size=500)
    plain = tokenizer.encode_lines(LINES)
    dropped = tokenizer.encode_with_dropout(LINES, 0.3, seed=1)
    assert dropped == tokenizer.encode_with_dropout(LINES, 0.3, seed=1)
    assert dropped != tokenizer.encode_with_dropout(LINES, 0.3, seed=2)
    assert sum(map(len, dropped)) > sum(map(len, plain))
    assert tokenizer.decode_lines(dropped) == LINES
    characters = tokenizer.encode_with_dropout(LINES, 1.0, seed=1)
    assert [len(tokens) for tokens in characters] == [len(line.replace(" ", "")) for line in LINES]
    for dropout in (-0.1, 1.1):
        with pytest.raises(InputError, match="it must lie between 0 and 1"):
            tokenizer.encode_with_dropout(LINES, dropout, seed=1)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="a vocab_size of 5 is too small: the 3 characters of the text"):
        BPETokenizer.learn(["abc"], vocab_size=5)
    with pytest.raises(InputError, match="give exactly one of the two"):
        BPETokenizer.learn(["abc"])
    with pytest.raises(InputError, match="a BPE tokenizer needs at least one piece"):
        BPETokenizer.learn(["abc"], vocab_size=10, threshold=2)
    with pytest.raises(InputError, match="half of a surrogate pair"):
        BPETokenizer.learn(["abc"], vocab_size=10).encode("a\ud800")
    with pytest.raises(InputError, match="half of a surrogate pair"):
        BPETokenizer.learn(["a\ud800"], vocab_size=10)


def test_the_cache_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastmos.tokenizers import bpe

    monkeypatch.setattr(bpe, "WORDS_REMEMBERED", 3)
    tokenizer = BPETokenizer.learn(["abc ab a"], vocab_size=8)
    assert tokenizer.decode(tokenizer.encode("a b c ab bc abc a b c")) == "a b c ab bc abc a b c"
    assert len(tokenizer._tokens_of) <= 3


def test_moses_text_round_trip(tmp_path: Path) -> None:
    lines = ["Don't stop (now), he said: \"it's 5 > 4!\"", "Well, well."]
    tokenizer = BPETokenizer.learn(lines, vocab_size=200, pretokenizer=Pretokenizer("en"))
    tokenizer.save(tmp_path / "tokenizer.json")
    assert load_tokenizer(tmp_path / "tokenizer.json").decode_lines(tokenizer.encode_lines(lines)) == lines
