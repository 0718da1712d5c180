"""BPECoding: learnt alike everywhere, cut as subword-nmt cuts, unseen characters, thresholds, dropout."""

import io
import itertools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastmos.codings import UNK, UNK_TEXT, BPECoding, Text, load_coding, read_merges
from fastmos.codings.merges import learn_merges
from fastmos.errors import InputError
from fastmos.files import read_lines


def generated_lines(count: int, seed: int = 0, letters: str = "aeioubdgklmnrst") -> list[str]:
    """Lines of invented words, some of them frequent, some with odd characters."""
    random = Random(seed)
    stems = ["".join(random.choices(letters, k=random.randint(1, 6))) for _ in range(200)]
    endings = ["", "", "s", "en", "ung", "ß", "é", "'s", "-x", "@@", "</w>", "\u200dق", "日本", "."]

    def word() -> str:
        return stems[int(len(stems) * random.random() ** 2)] + random.choice(endings)

    return [" ".join(word() for _ in range(random.randint(0, 12))) for _ in range(count)]


LINES = generated_lines(600)
small_words = st.text(alphabet="ab", min_size=1, max_size=7)


def subword_nmt_merges(lines: list[str], count: int) -> list[str]:
    from subword_nmt.learn_bpe import learn_bpe

    out = io.StringIO()
    learn_bpe(io.StringIO("".join(f"{line}\n" for line in lines)), out, count)
    return out.getvalue().splitlines()


def subword_nmt_pieces(merges: list[str], lines: list[str], vocabulary: set[str] | None = None) -> list[str]:
    from subword_nmt.apply_bpe import BPE

    bpe = BPE(io.StringIO("".join(f"{line}\n" for line in merges)), vocab=vocabulary)
    return [bpe.segment(line) for line in lines]


def pieces(coding: BPECoding, lines: list[str]) -> list[str]:
    return [" ".join(its) for its in coding.pieces_lines(lines)]


@pytest.mark.parametrize("size", [100, 300, 1000])
def test_size_counts_pieces(size: int) -> None:
    coding = BPECoding.learn(LINES, size=size)
    assert len(coding) == size + 4
    assert coding.decode_lines(coding.encode_lines(LINES)) == LINES


def test_learning_ends_when_no_pair_occurs_twice() -> None:
    coding = BPECoding.learn(["abc abd"], size=1000)
    assert coding.merges == [("a", "b")]
    assert coding.pieces == ["a", "a</w>", "b", "b</w>", "c", "c</w>", "d", "d</w>", "ab"]


def test_same_text_gives_the_same_file(tmp_path: Path) -> None:
    """Byte for byte: in other processes with other hash seeds, and with the lines in another order."""
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    script = (
        "import sys; from fastmos.codings import BPECoding; from fastmos.files import read_lines\n"
        "BPECoding.learn(read_lines(sys.argv[1]), size=500).save(sys.argv[2])"
    )
    for seed in ("1", "2"):
        command = [sys.executable, "-c", script, str(tmp_path / "text"), str(tmp_path / seed)]
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, check=True)
    BPECoding.learn(LINES[::-1], size=500).save(tmp_path / "3")
    files = [(tmp_path / name).read_bytes() for name in ("1", "2", "3")]
    assert files[0] == files[1] == files[2]


def test_merges_are_those_of_subword_nmt() -> None:
    lines = [line.replace("</w>", "") for line in LINES]  # where it confuses such text with its own mark
    coding = BPECoding.learn(lines, size=600)
    assert coding.merges_lines() == subword_nmt_merges(lines, len(coding.merges))


@given(st.dictionaries(small_words, st.integers(1, 9), min_size=1, max_size=12), st.integers(4, 12))
def test_merges_agree_with_their_definition(counts: dict[str, int], size: int) -> None:
    """Count all pairs anew before each merge; that is slow and plain."""
    size = max(size, 2 * len(set("".join(counts))))
    words = {word: [*word[:-1], word[-1] + "</w>"] for word in counts}
    found, merges = learn_merges(counts, size)
    for merge in merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, symbols in words.items():
            for pair in itertools.pairwise(symbols):
                pairs[pair] += counts[word]
        assert merge == max(pairs, key=lambda pair: (pairs[pair], pair))
        assert pairs[merge] >= 2
        for word, symbols in words.items():
            merged: list[str] = []
            while symbols:
                step = 2 if tuple(symbols[:2]) == merge else 1
                merged, symbols = [*merged, "".join(symbols[:step])], symbols[step:]
            words[word] = merged
    assert len(found) == len(set(found)) <= size


def test_cuts_are_those_of_subword_nmt() -> None:
    coding = BPECoding.learn(LINES, size=500)
    others = [*generated_lines(300, seed=1, letters="aeiouzxyßق☃"), "☃ a☃ ☃a a☃b", "", "a\xa0b c\u2009d"]
    for lines in (LINES, others):
        assert pieces(coding, lines) == subword_nmt_pieces(coding.merges_lines(), lines)


@given(st.lists(st.text(alphabet="abcß☃</w>@", min_size=1, max_size=9), max_size=5))
def test_cuts_are_those_of_subword_nmt_for_any_word(words: list[str]) -> None:
    coding = BPECoding.learn(["abcabc abba cab bac ab ab ßa ßab </w> </w>a b@@ @@b"], size=60)
    line = " ".join(words)
    assert pieces(coding, [line]) == subword_nmt_pieces(coding.merges_lines(), [line])
    if "@" not in line:  # a word's own @@ cannot be told from the mark
        assert coding.join_pieces_lines(coding.pieces_lines([line])) == [line]


def test_fast_cut_is_the_slow_cut() -> None:
    coding = BPECoding.learn(LINES, size=400)
    assert coding.sample_lines(LINES, dropout=0.0, seed=0) == coding.encode_lines(LINES)


def test_real_text(real_data: Path) -> None:
    for language in ("de", "en"):
        lines = [
            re.sub(" +", " ", line.strip(" ")) for line in read_lines(real_data / "multi30k" / f"train.{language}.gz")
        ]
        coding = BPECoding.learn(lines, size=3000)
        assert coding.merges_lines() == subword_nmt_merges(lines, len(coding.merges))
        assert pieces(coding, lines) == subword_nmt_pieces(coding.merges_lines(), lines)
        assert coding.decode_lines(coding.encode_lines(lines)) == lines


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
    coding = BPECoding.learn(["abc ab a"], size=8)
    assert coding.decode(coding.encode(line)) == back
    assert coding.encode(line).count(UNK) == back.count(UNK_TEXT)


def test_pieces_end_words() -> None:
    coding = BPECoding.learn(["abc ab a"], size=8)
    for code in range(4, len(coding)):
        assert (
            coding.ends_word[code]
            == coding.pieces[code - 4].endswith("</w>")
            == (not coding.token(code).endswith("@@"))
        )


def test_no_piece_within_words_looks_like_the_end_of_one() -> None:
    """Text may hold `</w>` itself."""
    lines = ["a</w>b </w>b a</w>b"] * 5
    coding = BPECoding.learn(lines, size=40)
    assert coding.decode_lines(coding.encode_lines(lines)) == lines
    assert [coding.decode(coding.encode(line)) for line in ("a </w>", "a</w> b", "</w>a")] == [
        "a </w>",
        "a</w> b",
        "</w>a",
    ]


def test_white_space_and_control_characters_are_never_merged() -> None:
    coding = BPECoding.learn(["a\u00a0b \x00a\x85 a\u2028b a\rb"] * 5, size=50)
    assert all(len(f"x{''.join(merge)}x".split()) == 1 and "".join(merge).isprintable() for merge in coding.merges)


def test_codes_file_round_trip(tmp_path: Path) -> None:
    coding = BPECoding.learn(LINES, size=400)
    coding.write_merges(tmp_path / "codes")
    assert (tmp_path / "codes").read_text(encoding="utf-8").startswith("#version: 0.2\n")
    assert read_merges(tmp_path / "codes") == coding.merges
    again = BPECoding.learn(LINES, merges=read_merges(tmp_path / "codes"))
    assert again.to_json() == coding.to_json()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not a subword-nmt codes file of version 0.2"),
        ("a b\n", "not a subword-nmt codes file of version 0.2"),
        ("#version: 0.1\na b\n", "not a subword-nmt codes file of version 0.2"),
        ("#version: 0.2\na b\na b c\n", "codes, line 3: a merge is two symbols"),
        ("#version: 0.2\na b\n\nc d\n", "codes, line 3: a merge is two symbols"),
    ],
)
def test_damaged_codes_file(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "codes").write_text(content)
    with pytest.raises(InputError, match=said):
        read_merges(tmp_path / "codes")


def test_equal_merges_count_once(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b\nb c\na b\nab c\na bc\n")
    coding = BPECoding.learn(["abc"], merges=read_merges(tmp_path / "codes"))
    lines = ["abc abca bcabc xabcx"]
    assert len(coding.merges) == 4
    assert pieces(coding, lines) == subword_nmt_pieces(coding.merges_lines(), lines)


@pytest.mark.parametrize("threshold", [1, 5, 30, 200])
def test_threshold_is_that_of_subword_nmt(threshold: int) -> None:
    """Learnt jointly, restricted to what is frequent in one language."""
    both = [*LINES, *generated_lines(200, seed=2, letters="xyzaeiou")]
    both = [line.replace("@@", "") for line in both]  # in its vocabularies a word's own @@ looks like the mark
    one, other = both[: len(LINES)], both[len(LINES) :]
    joint = BPECoding.learn([*one, *other], size=500)
    coding = BPECoding.learn(one, merges=joint.merges, threshold=threshold)
    counts = Counter(piece for line in pieces(joint, one) for piece in line.split())
    vocabulary = {piece for piece, count in counts.items() if count >= threshold}
    assert {coding.token(code) for code in range(4, len(coding))} == vocabulary
    lines = [*one, *other]
    expected = subword_nmt_pieces(joint.merges_lines(), lines, vocabulary)
    assert pieces(coding, lines) == expected
    for line, codes in zip(expected, coding.encode_lines(lines), strict=True):
        if all(piece in vocabulary for piece in line.split()):
            assert [coding.token(code) for code in codes] == line.split()
        else:
            assert UNK in codes


def test_dropout() -> None:
    coding = BPECoding.learn(LINES, size=500)
    plain = coding.encode_lines(LINES)
    dropped = coding.sample_lines(LINES, 0.3, seed=1)
    assert dropped == coding.sample_lines(LINES, 0.3, seed=1)
    assert dropped != coding.sample_lines(LINES, 0.3, seed=2)
    assert sum(map(len, dropped)) > sum(map(len, plain))
    assert coding.decode_lines(dropped) == LINES
    characters = coding.sample_lines(LINES, 1.0, seed=1)
    assert [len(codes) for codes in characters] == [len(line.replace(" ", "")) for line in LINES]
    for dropout in (-0.1, 1.1):
        with pytest.raises(InputError, match="it must lie between 0 and 1"):
            coding.sample_lines(LINES, dropout, seed=1)


def test_few_codes_and_wrong_choices() -> None:
    with pytest.raises(InputError, match="5 codes are too few: the 3 characters of the text"):
        BPECoding.learn(["abc"], size=5)
    with pytest.raises(InputError, match="give one of the two"):
        BPECoding.learn(["abc"])
    with pytest.raises(InputError, match="a BPE coding needs at least one piece"):
        BPECoding.learn(["abc"], size=10, threshold=2)
    with pytest.raises(InputError, match="half of a surrogate pair"):
        BPECoding.learn(["abc"], size=10).encode("a\ud800")
    with pytest.raises(InputError, match="half of a surrogate pair"):
        BPECoding.learn(["a\ud800"], size=10)


def test_memory_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastmos.codings import bpe

    monkeypatch.setattr(bpe, "WORDS_REMEMBERED", 3)
    coding = BPECoding.learn(["abc ab a"], size=8)
    assert coding.decode(coding.encode("a b c ab bc abc a b c")) == "a b c ab bc abc a b c"
    assert len(coding._codes_of) <= 3


def test_moses_text_round_trip(tmp_path: Path) -> None:
    lines = ["Don't stop (now), he said: \"it's 5 > 4!\"", "Well, well."]
    coding = BPECoding.learn(lines, size=200, text=Text("moses", "en"))
    coding.save(tmp_path / "coding.json")
    assert load_coding(tmp_path / "coding.json").decode_lines(coding.encode_lines(lines)) == lines
