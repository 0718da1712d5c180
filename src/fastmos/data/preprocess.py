"""Corpora of the paper: where they lie, and how their files become tokenised training, validation and test pairs.

Everything streams: text passes through in batches, and only the downloads and the results touch the disk for long.
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

from fastmos.codings import moses
from fastmos.data.downloads import Remote, fetch, recorded_sha256, unpack
from fastmos.errors import InputError
from fastmos.files import read_json, read_lines, write_json, written_whole
from fastmos.progress import progress

Pair = tuple[str, str]
LINES_AT_ONCE = 20_000
RECORD = "corpus.json"


@dataclass(frozen=True)
class Corpus:
    """A corpus: its two languages, its files, and what is left of them after cleaning."""

    about: str
    source: str
    target: str
    remotes: tuple[Remote, ...]
    parts: tuple[str, str, str] = ("train", "valid", "test")  # names of the prepared files, before the language
    ending: str = ""  # and after it
    longest: int = 0  # words a side of a training pair; 0: taken as it is
    ratio: float = 1.5  # of the longer side to the shorter


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
MULTI30K_PARTS = ("train", "val", "test_2016_flickr")
NEWS_PARTS = ("train", "newstest2013", "newstest2014")

CORPORA: dict[str, Corpus] = {
    "iwslt14-de-en": Corpus(
        "talks, 150,000 pairs, tokenised and lowercased",
        "de",
        "en",
        (Remote("http://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"),),
        longest=50,
    ),
    "wmt14-en-de": Corpus(
        "parliament, web and news, 4.5 million pairs, tokenised",
        "en",
        "de",
        (EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY, NEWS_TESTS),
        NEWS_PARTS,
        longest=250,
    ),
    "wmt14-en-fr": Corpus(
        "parliament, web, news and United Nations, 36 million pairs, tokenised",
        "en",
        "fr",
        (EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY, UNITED_NATIONS, GIGA, NEWS_TESTS),
        NEWS_PARTS,
        longest=175,
    ),
    "multi30k": Corpus(
        "image descriptions, 29,000 pairs, tokenised and lowercased",
        "de",
        "en",
        tuple(Remote(f"{MULTI30K}/{part}.lc.norm.tok.{side}") for part in MULTI30K_PARTS for side in ("de", "en")),
        MULTI30K_PARTS,
        ".gz",
    ),
}


def get_corpus(
    name: str, folder: Path, *, mirror: str | None = None, sleep: Callable[[float], None] = time.sleep
) -> dict[str, int]:
    """Download and prepare a corpus in a folder; say how many pairs its training, validation and test parts hold.

    The downloads stay in the folder `original`. A corpus that is there already is left as it is.
    """
    if name not in CORPORA:
        raise InputError(f"no corpus '{name}'; there are {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    results = [folder / f"{part}.{side}{corpus.ending}" for part in corpus.parts for side in _sides(corpus)]
    if (folder / RECORD).exists() and all(path.exists() for path in results):
        return dict(read_json(folder / RECORD)["pairs"])
    original = folder / "original"
    archives = {remote.name: fetch(remote, original, mirror=mirror, sleep=sleep) for remote in corpus.remotes}
    counts = PREPARE[name](corpus, archives, folder)
    files = [{"url": remote.url, "sha256": recorded_sha256(archives[remote.name])} for remote in corpus.remotes]
    write_json(folder / RECORD, {"corpus": name, "pairs": counts, "files": files})
    return counts


def _iwslt(corpus: Corpus, archives: dict[str, Path], folder: Path) -> dict[str, int]:
    """Every 23rd cleaned pair is validation; the test joins five sets; none is longer than 50 words."""
    names = [f"de-en/train.tags.de-en.{side}" for side in ("de", "en")]
    sets = ["TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"]
    tests = [f"de-en/IWSLT14.{part}.de-en.{side}.xml" for part in sets for side in ("de", "en")]
    with _unpacked(archives["de-en.tgz"], [*names, *tests], folder) as files:
        talks = aligned(talk_lines(files[names[0]]), talk_lines(files[names[1]]), names[0])
        training = cleaned(tokenised(talks, corpus, lowercase=True), corpus.longest, corpus.ratio)
        numbered = ((int(number % 23 == 0), pair) for number, pair in enumerate(training, 1))
        counts = _write(folder, corpus, ("train", "valid"), numbered)
        sides = zip(tests[::2], tests[1::2], strict=True)
        test = chain.from_iterable(aligned(segments(files[de]), segments(files[en]), de) for de, en in sides)
        kept = cleaned(tokenised(test, corpus, lowercase=True), corpus.longest, None)
        return counts | _write(folder, corpus, ("test",), ((0, pair) for pair in kept))


def _wmt(corpus: Corpus, archives: dict[str, Path], folder: Path) -> dict[str, int]:
    """Train on the parallel corpora, validate on newstest2013, test on newstest2014."""
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

    kept = cleaned(tokenised(training(), corpus), corpus.longest, corpus.ratio)
    counts = _write(folder, corpus, ("train",), ((0, each) for each in kept))
    valid = [f"dev/{corpus.parts[1]}.{side}" for side in ("en", other)]
    # newstest2014 is one set of pairs for both directions: the source of the one is the reference of the other.
    test = [f"dev/{corpus.parts[2]}-{other}en-{kind}.sgm" for kind in ("ref.en", f"src.{other}")]
    with _unpacked(archives[NEWS_TESTS.name], [*valid, *test], folder) as files:
        held_out = {
            corpus.parts[1]: aligned(read_lines(files[valid[0]]), read_lines(files[valid[1]]), valid[0]),
            corpus.parts[2]: aligned(segments(files[test[0]]), segments(files[test[1]]), test[0]),
        }
        for part, pairs in held_out.items():
            counts |= _write(folder, corpus, (part,), ((0, each) for each in tokenised(pairs, corpus)))
    return counts


def _multi30k(corpus: Corpus, archives: dict[str, Path], folder: Path) -> dict[str, int]:
    """The files as they are."""
    counts: dict[str, int] = {}
    for part in corpus.parts:
        de, en = (read_lines(archives[f"{part}.lc.norm.tok.{side}"]) for side in ("de", "en"))
        counts |= _write(folder, corpus, (part,), ((0, pair) for pair in aligned(de, en, part)))
    return counts


PREPARE: dict[str, Callable[[Corpus, dict[str, Path], Path], dict[str, int]]] = {
    "iwslt14-de-en": _iwslt,
    "wmt14-en-de": _wmt,
    "wmt14-en-fr": _wmt,
    "multi30k": _multi30k,
}


@contextmanager
def _unpacked(archive: Path, members: list[str], folder: Path) -> Iterator[dict[str, Path]]:
    """Files taken out of an archive, gone when no longer needed."""
    inside = folder / "unpacked"
    try:
        yield dict(zip(members, unpack(archive, members, inside), strict=True))
    finally:
        shutil.rmtree(inside, ignore_errors=True)


def _write(folder: Path, corpus: Corpus, parts: Sequence[str], pairs: Iterable[tuple[int, Pair]]) -> dict[str, int]:
    """Write each pair to the part it is numbered for, all files whole or none."""
    counts = dict.fromkeys(parts, 0)
    with ExitStack() as stack:
        files = [
            [stack.enter_context(_result(folder / f"{part}.{side}{corpus.ending}")) for side in _sides(corpus)]
            for part in parts
        ]
        for which, pair in progress(pairs, f"{' and '.join(parts)}, pairs"):
            counts[parts[which]] += 1
            for file, text in zip(files[which], pair, strict=True):
                file.write(f"{text}\n".encode())
        empty = [part for part, count in counts.items() if not count]
        if empty:
            raise InputError(f"{folder}: no pair is left for {empty[0]}; are the downloads the right ones?")
    return counts


def _sides(corpus: Corpus) -> tuple[str, str]:
    return corpus.source, corpus.target


@contextmanager
def _result(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, gzipped if its name says so (and then the same bytes for the same text)."""
    with written_whole(path, "wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as zipped:
                yield zipped  # type: ignore[misc]  # GzipFile writes like any binary stream
        else:
            yield file


def aligned(source: Iterable[str], target: Iterable[str], name: str) -> Iterator[Pair]:
    """Pairs of lines, or a sentence when one side is longer."""
    left, right = iter(source), iter(target)
    count = 0
    for line in left:
        other = next(right, None)
        if other is None:
            raise InputError(f"{name}: has more lines than its translation ({count:,}); fetch the archive again")
        count += 1
        yield line, other
    if next(right, None) is not None:
        raise InputError(f"{name}: has fewer lines ({count:,}) than its translation; fetch the archive again")


def talk_lines(path: Path) -> Iterator[str]:
    """The text of an IWSLT `train.tags` file: titles, descriptions and sentences, without the other tagged lines."""
    for line in read_lines(path):
        text = line.strip()
        if re.match(r"</?(title|description)>", text):
            yield re.sub(r"</?(title|description)>", "", text).strip()
        elif not re.match(r"</?[a-z]+[^<>]*>", text):
            yield text


def segments(path: Path) -> Iterator[str]:
    """The text of each `<seg>` of an XML or SGML test set."""
    for number, line in enumerate(read_lines(path), 1):
        if "<seg" not in line:
            continue
        found = re.search(r"<seg[^>]*>(.*?)</seg>", line)
        if not found:
            raise InputError(f"{path}, line {number}: a <seg> without its end; fetch the archive again")
        yield unescape(found[1].strip(), {"&quot;": '"', "&apos;": "'"})


def tokenised(pairs: Iterable[Pair], corpus: Corpus, lowercase: bool = False) -> Iterator[Pair]:
    """Moses' tokens of both sides, on all cores, in order."""
    stream = iter(pairs)
    while batch := list(islice(stream, LINES_AT_ONCE)):
        sides = []
        for side, language in enumerate((corpus.source, corpus.target)):
            lines = moses.tokenise([" ".join(pair[side].split()) for pair in batch], language, remember=False)
            sides.append([line.lower() for line in lines] if lowercase else lines)
        yield from zip(*sides, strict=True)


def cleaned(pairs: Iterable[Pair], longest: int, ratio: float | None) -> Iterator[Pair]:
    """Drop pairs with an empty side, with a side of more words, or with sides too unequal."""
    for pair in pairs:
        short, long = sorted(len(text.split()) for text in pair)
        if short and long <= longest and (ratio is None or long <= ratio * short):
            yield pair
