"""The corpora of the paper: their URLs, and how their files become tokenized training, validation and test pairs.

Text is processed as a stream, in batches, so it need not fit into memory.
"""

import gzip
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO
from xml.sax.saxutils import unescape

from fastmos.data.downloads import Remote, fetch, proved, recorded_sha256, unpack
from fastmos.errors import InputError
from fastmos.files import read_json, read_lines, write_json, written_whole
from fastmos.progress import progress
from fastmos.tokenizers import moses

Pair = tuple[str, str]
LINES_AT_ONCE = 20_000
RECORD = "corpus.json"


@dataclass(frozen=True)
class Corpus:
    """A corpus: its languages, its files, and how it is cleaned."""

    about: str
    source: str
    target: str
    remotes: tuple[Remote, ...]
    splits: tuple[str, str, str] = ("train", "valid", "test")  # names of the prepared files, before the language
    suffix: str = ""  # and after it
    max_words: int = 0  # of a side of a training pair; 0: not cleaned
    max_ratio: float = 1.5  # of the longer side to the shorter


EUROPARL = Remote(
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    657_632_379,
    "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
COMMON_CRAWL = Remote(
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    918_311_367,
    "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
NEWS_COMMENTARY = Remote(
    "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
    80_418_416,
    "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
UNITED_NATIONS = Remote(
    "http://www.statmt.org/wmt13/training-parallel-un.tgz",
    2_365_634_246,
    "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
)
GIGA = Remote(
    "http://www.statmt.org/wmt10/training-giga-fren.tar",
    2_595_102_720,
    "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
)
NEWS_TESTS = Remote(
    "http://data.statmt.org/wmt19/translation-task/dev.tgz",
    38_654_961,
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)
MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/tok"
MULTI30K_SPLITS = ("train", "val", "test_2016_flickr")
NEWS_SPLITS = ("train", "newstest2013", "newstest2014")

CORPORA: dict[str, Corpus] = {
    "iwslt14-de-en": Corpus(
        "talks, 150,000 pairs, tokenized and lowercased",
        "de",
        "en",
        (Remote("http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"),),
        max_words=50,
    ),
    "wmt14-en-de": Corpus(
        "parliament, web and news, 4.5 million pairs, tokenized",
        "en",
        "de",
        (EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY, NEWS_TESTS),
        NEWS_SPLITS,
        max_words=250,
    ),
    "wmt14-en-fr": Corpus(
        "parliament, web, news and United Nations, 36 million pairs, tokenized",
        "en",
        "fr",
        (EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY, UNITED_NATIONS, GIGA, NEWS_TESTS),
        NEWS_SPLITS,
        max_words=175,
    ),
    "multi30k": Corpus(
        "image descriptions, 29,000 pairs, tokenized and lowercased",
        "de",
        "en",
        tuple(Remote(f"{MULTI30K}/{split}.lc.norm.tok.{side}") for split in MULTI30K_SPLITS for side in ("de", "en")),
        MULTI30K_SPLITS,
        ".gz",
    ),
}


def get_corpus(
    name: str, folder: Path, *, mirror: str | None = None, sleep: Callable[[float], None] = time.sleep
) -> dict[str, int]:
    """Download and prepare a corpus in a folder; returns the numbers of training, validation and test pairs.

    The downloads are kept in the folder `original`. A corpus that is there already is not changed.
    """
    if name not in CORPORA:
        raise InputError(f"no corpus '{name}'; there are {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    results = [folder / f"{split}.{side}{corpus.suffix}" for split in corpus.splits for side in _sides(corpus)]
    if (folder / RECORD).exists() and all(path.exists() for path in results):
        return dict(read_json(folder / RECORD)["pairs"])
    original = folder / "original"
    archives = {remote.name: fetch(remote, original, mirror=mirror, sleep=sleep) for remote in corpus.remotes}
    counts = PREPARE[name](corpus, archives, folder)
    files = [{"url": remote.url, "sha256": recorded_sha256(archives[remote.name])} for remote in corpus.remotes]
    write_json(folder / RECORD, {"corpus": name, "pairs": counts, "files": files})
    return counts


def _iwslt(corpus: Corpus, archives: dict[str, Path], folder: Path) -> dict[str, int]:
    """Every 23rd cleaned pair is for validation; the test set joins five sets; all pairs have at most 50 words."""
    names = [f"de-en/train.tags.de-en.{side}" for side in ("de", "en")]
    sets = ["TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"]
    tests = [f"de-en/IWSLT14.{part}.de-en.{side}.xml" for part in sets for side in ("de", "en")]
    with _unpacked(archives["de-en.tgz"], [*names, *tests], folder) as files:
        talks = aligned(talk_lines(files[names[0]]), talk_lines(files[names[1]]), names[0])
        training = cleaned(tokenized(talks, corpus, lowercase=True), corpus.max_words, corpus.max_ratio)
        numbered = ((int(number % 23 == 0), pair) for number, pair in enumerate(training, 1))
        counts = _write(folder, corpus, ("train", "valid"), numbered)
        sides = zip(tests[::2], tests[1::2], strict=True)
        test = chain.from_iterable(aligned(segments(files[de]), segments(files[en]), de) for de, en in sides)
        kept = cleaned(tokenized(test, corpus, lowercase=True), corpus.max_words, None)
        return counts | _write(folder, corpus, ("test",), ((0, pair) for pair in kept))


def _wmt(corpus: Corpus, archives: dict[str, Path], folder: Path) -> dict[str, int]:
    """The parallel corpora for training, newstest2013 for validation, newstest2014 for test."""
    other = corpus.target
    pair = f"{other}-en"
    texts = {
        EUROPARL.name: f"training/europarl-v7.{pair}",
        COMMON_CRAWL.name: f"commoncrawl.{pair}",
        NEWS_COMMENTARY.name: f"training/news-commentary-v9.{pair}",
        UNITED_NATIONS.name: f"un/undoc.2000.{pair}",
        GIGA.name: "giga-fren.release2.fixed",
    }

    def training() -> Iterator[Pair]:
        for archive in (archives[remote.name] for remote in corpus.remotes if remote.name in texts):
            end = ".gz" if archive.name == GIGA.name else ""
            names = [f"{texts[archive.name]}.{side}{end}" for side in ("en", other)]
            with _unpacked(archive, names, folder) as files:
                yield from aligned(read_lines(files[names[0]]), read_lines(files[names[1]]), names[0])

    kept = cleaned(tokenized(training(), corpus), corpus.max_words, corpus.max_ratio)
    counts = _write(folder, corpus, ("train",), ((0, each) for each in kept))
    valid = [f"dev/{corpus.splits[1]}.{side}" for side in ("en", other)]
    # newstest2014 is one set of pairs for both directions: the source of the one is the reference of the other.
    test = [f"dev/{corpus.splits[2]}-{other}en-{kind}.sgm" for kind in ("ref.en", f"src.{other}")]
    with _unpacked(archives[NEWS_TESTS.name], [*valid, *test], folder) as files:
        held_out = {
            corpus.splits[1]: aligned(read_lines(files[valid[0]]), read_lines(files[valid[1]]), valid[0]),
            corpus.splits[2]: aligned(segments(files[test[0]]), segments(files[test[1]]), test[0]),
        }
        for split, pairs in held_out.items():
            counts |= _write(folder, corpus, (split,), ((0, each) for each in tokenized(pairs, corpus)))
    return counts


def _multi30k(corpus: Corpus, archives: dict[str, Path], folder: Path) -> dict[str, int]:
    """The files, unchanged."""
    counts: dict[str, int] = {}
    for split in corpus.splits:
        files = [archives[f"{split}.lc.norm.tok.{side}"] for side in ("de", "en")]
        with proved(*files):
            de, en = map(read_lines, files)
            pairs = aligned(de, en, split)
            counts |= _write(folder, corpus, (split,), ((0, pair) for pair in pairs))
    return counts


PREPARE: dict[str, Callable[[Corpus, dict[str, Path], Path], dict[str, int]]] = {
    "iwslt14-de-en": _iwslt,
    "wmt14-en-de": _wmt,
    "wmt14-en-fr": _wmt,
    "multi30k": _multi30k,
}


@contextmanager
def _unpacked(archive: Path, members: list[str], folder: Path) -> Iterator[dict[str, Path]]:
    """Files of an archive, deleted at the end; an archive that is not what it should be goes, too."""
    inside = folder / "unpacked"
    try:
        with proved(archive):
            yield dict(zip(members, unpack(archive, members, inside), strict=True))
    finally:
        shutil.rmtree(inside, ignore_errors=True)


def _write(folder: Path, corpus: Corpus, splits: Sequence[str], pairs: Iterable[tuple[int, Pair]]) -> dict[str, int]:
    """Write each pair to the split of its number; all files are written, or none."""
    counts = dict.fromkeys(splits, 0)
    with ExitStack() as stack:
        files = [
            [stack.enter_context(_result(folder / f"{split}.{side}{corpus.suffix}")) for side in _sides(corpus)]
            for split in splits
        ]
        for which, pair in progress(pairs, f"{' and '.join(splits)}, pairs"):
            counts[splits[which]] += 1
            for file, text in zip(files[which], pair, strict=True):
                file.write(f"{text}\n".encode())
        empty = [split for split, count in counts.items() if not count]
        if empty:
            raise InputError(f"{folder}: no pairs for {empty[0]}; are the downloads the right ones?")
    return counts


def _sides(corpus: Corpus) -> tuple[str, str]:
    return corpus.source, corpus.target


@contextmanager
def _result(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, gzipped if its name ends in .gz (the same text gives the same bytes)."""
    with written_whole(path, "wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
                yield zipped  # type: ignore[misc]  # GzipFile writes like any binary stream
        else:
            yield file


def aligned(source: Iterable[str], target: Iterable[str], name: str) -> Iterator[Pair]:
    """Pairs of lines; refuses sides of different lengths."""
    left, right = iter(source), iter(target)
    count = 0
    for line in left:
        other = next(right, None)
        if other is None:
            raise InputError(f"{name}: has more lines than its translation ({count:,}); download the archive again")
        count += 1
        yield line, other
    if next(right, None) is not None:
        raise InputError(f"{name}: has fewer lines ({count:,}) than its translation; download the archive again")


def talk_lines(path: Path) -> Iterator[str]:
    """The text of an IWSLT `train.tags` file: titles, descriptions and sentences, without the other tagged lines."""
    for line in read_lines(path):
        text = line.strip()
        if re.match(r"</?(title|description)>", text):
            yield re.sub(r"</?(title|description)>", "", text).strip()
        elif not re.match(r"</?[a-z][^<>]*>", text):
            yield text


def segments(path: Path) -> Iterator[str]:
    """The text of each `<seg>` of an XML or SGML test set."""
    for number, line in enumerate(read_lines(path), 1):
        _, tag, rest = line.partition("<seg")
        if not tag:
            continue
        text, end, _ = rest.partition(">")[2].partition("</seg>")
        if not end:
            raise InputError(f"{path}, line {number}: a <seg> without </seg>; download the archive again")
        yield unescape(text.strip(), {"&quot;": '"', "&apos;": "'"})


def tokenized(pairs: Iterable[Pair], corpus: Corpus, lowercase: bool = False) -> Iterator[Pair]:
    """Both sides tokenized by Moses' rules, on all cores, in order."""
    stream = iter(pairs)
    while batch := list(islice(stream, LINES_AT_ONCE)):
        sides = []
        for side, language in enumerate((corpus.source, corpus.target)):
            lines = moses.tokenize([" ".join(pair[side].split()) for pair in batch], language, remember=False)
            sides.append([line.lower() for line in lines] if lowercase else lines)
        yield from zip(*sides, strict=True)


def cleaned(pairs: Iterable[Pair], max_words: int, max_ratio: float | None) -> Iterator[Pair]:
    """The pairs without an empty side, a side of more words, or a greater ratio of lengths."""
    for pair in pairs:
        short, long = sorted(len(text.split()) for text in pair)
        if short and long <= max_words and (max_ratio is None or long <= max_ratio * short):
            yield pair
