"""How fast text becomes tokens and tokens become batches, and in how much memory, at the size of WMT.

Tokenized Europarl (the folder `europarl` of FASTMOS_DATA) is repeated to the number of pairs asked for, encoded with a
word tokenizer of 30,000 words a side, ordered for an epoch and cut into batches:

    FASTMOS_DATA=... python benchmarks/data_build.py --output out/data_build.json --page docs/scaling.md

A quarter of the text is encoded first, to show that memory does not grow with it. Repeated lines cost what new ones do:
a word tokenizer remembers nothing. `--page` puts the figures into the marked place of that page.
"""

import json
import multiprocessing
import os
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any

from fastmos.data.tokenized import encode_files
from fastmos.errors import InputError
from fastmos.files import read_lines, write_json, written_whole
from fastmos.provenance import provenance
from fastmos.tokenizers import Pretokenizer, WordTokenizer, load_tokenizer

SIDES = ("de", "en")
WMT_EN_FR = 36_000_000  # pairs
WATCH_EVERY_SECONDS = 0.02


def main(
    pairs: int,
    sides: Sequence[str],
    tokens: int,
    processes: int | None,
    folder: Path | None,
    output: Path | None,
    page: Path | None,
) -> None:
    """Build, order and batch `pairs` pairs of text, in a temporary place below `folder`."""
    corpus = Path(os.environ.get("FASTMOS_DATA", "")) / "europarl"
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such folder; set FASTMOS_DATA to the folder that holds europarl")
    with tempfile.TemporaryDirectory(dir=folder) as work:
        place = Path(work)
        figures: dict[str, Any] = {"pairs": pairs, "tokens": tokens, "processes": processes or "all cores"}
        for side in sides:
            prepare(corpus / f"train.{side}.gz", side, place, pairs)
            figures[side] = {
                "quarter": measured(build, place, f"quarter.{side}", side, processes),
                "whole": measured(build, place, f"whole.{side}", side, processes),
                "again": measured(build, place, f"whole.{side}", side, processes),
            }
        figures["epoch"] = measured(order, place, sides, tokens)
    figures["extrapolation"] = extrapolate(figures, sides)
    report = {"figures": figures, "provenance": provenance(seed=0)}
    print(json.dumps(report, indent=1))
    if output is not None:
        write_json(output, report)
    if page is not None:
        fill(page, table(report, sides))


def prepare(corpus: Path, side: str, place: Path, pairs: int) -> None:
    """Tokenize the corpus, learn its tokenizer, and write it over and over until there are lines enough."""
    lines = [" ".join(words) for words in Pretokenizer(side).split(list(islice(read_lines(corpus), pairs)))]
    WordTokenizer.learn(lines, vocab_size=30_000).save(place / f"tokenizer.{side}.json")
    for name, count in (("quarter", pairs // 4), ("whole", pairs)):
        with open(place / f"{name}.{side}", "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in islice(endless(lines), count))


def endless(lines: list[str]) -> Iterator[str]:
    return chain.from_iterable(repeat(lines))


def build(place: Path, name: str, side: str, processes: int | None) -> dict[str, Any]:
    """Tokenize one file; the second time it is only hashed and mapped."""
    tokenizer = load_tokenizer(place / f"tokenizer.{side}.json")
    start = time.perf_counter()
    text = encode_files([place / name], tokenizer, place / "cache", processes=processes)
    seconds = time.perf_counter() - start
    size = (place / name).stat().st_size
    return {
        "seconds": seconds,
        "lines": len(text),
        "tokens": len(text.tokens),
        "lines per second": len(text) / seconds,
        "megabytes of text": size / 1e6,
        "megabytes of cache": (text.tokens.nbytes + text.offsets.nbytes) / 1e6,
    }


def order(place: Path, sides: Sequence[str], tokens: int) -> dict[str, Any]:
    """Order an epoch over the tokens built before, and make some 200 batches here and there in it."""
    from fastmos.data.batches import SentenceBatches

    texts = []
    for side in sides:
        tokenizer = load_tokenizer(place / f"tokenizer.{side}.json")
        texts.append(encode_files([place / f"whole.{side}"], tokenizer, place / "cache"))
    source, target = texts[0] if len(texts) > 1 else None, texts[-1]
    start = time.perf_counter()
    batches = SentenceBatches(target, source, max_tokens=tokens, max_length=250)
    opened = time.perf_counter()
    steps = batches.steps(0)
    ordered = time.perf_counter()
    chosen = range(0, steps, max(1, steps // 200))
    cells = real = 0
    for step in chosen:
        batch = next(batches.epoch(0, start=step))
        cells, real = cells + batch.target.numel(), real + batch.num_tokens
    return {
        "seconds to open": opened - start,
        "seconds to order": ordered - opened,
        "milliseconds per batch": 1e3 * (time.perf_counter() - ordered) / len(chosen),
        "steps": steps,
        "pairs left out": batches.empty + batches.overlong,
        "share of targets that are not padding": real / cells,
    }


def extrapolate(figures: dict[str, Any], sides: Sequence[str]) -> dict[str, float]:
    """What 36M pairs take if each takes what it took here: all of it is linear in pairs, as pools have a fixed size."""
    factor = WMT_EN_FR / figures["pairs"]
    return {
        "pairs": WMT_EN_FR,
        "minutes to build": factor * sum(figures[side]["whole"]["seconds"] for side in sides) / 60,
        "seconds to hash and map": factor * sum(figures[side]["again"]["seconds"] for side in sides),
        "gigabytes of cache": factor * sum(figures[side]["whole"]["megabytes of cache"] for side in sides) / 1e3,
        "seconds to open and order": factor
        * (figures["epoch"]["seconds to open"] + figures["epoch"]["seconds to order"]),
        "gigabytes of memory to order": factor * figures["epoch"]["extra megabytes"] / 1e3,
    }


def table(report: dict[str, Any], sides: Sequence[str]) -> str:
    """The figures as Markdown, and where they come from."""
    figures, made = report["figures"], report["provenance"]
    epoch, large = figures["epoch"], figures["extrapolation"]
    rows = []
    for side in sides:
        quarter, whole, again = (figures[side][part] for part in ("quarter", "whole", "again"))
        rows += [
            (f"{side}: build", f"{whole['seconds']:,.0f} s, {whole['lines per second']:,.0f} lines/s"),
            (f"{side}: memory of all its processes", f"{whole['extra megabytes']:,.0f} MB"),
            (f"{side}: the same for a quarter of the text", f"{quarter['extra megabytes']:,.0f} MB"),
            (f"{side}: hash and map what is built", f"{again['seconds']:,.1f} s"),
            (f"{side}: text, cache", f"{whole['megabytes of text']:,.0f} MB, {whole['megabytes of cache']:,.0f} MB"),
        ]
    rows += [
        ("open and order an epoch", f"{epoch['seconds to open']:,.1f} s + {epoch['seconds to order']:,.1f} s"),
        ("memory for that", f"{epoch['extra megabytes']:,.0f} MB"),
        (f"make a batch of {figures['tokens']:,} tokens", f"{epoch['milliseconds per batch']:,.1f} ms"),
        ("target cells that are not padding", f"{epoch['share of targets that are not padding']:.1%}"),
        (f"**{large['pairs']:,} pairs**: build", f"{large['minutes to build']:,.0f} min"),
        ("hash and map at each start", f"{large['seconds to hash and map']:,.0f} s"),
        ("open and order an epoch, in each process", f"{large['seconds to open and order']:,.0f} s"),
        ("memory for that, in each process", f"{large['gigabytes of memory to order']:,.1f} GB"),
        ("cache", f"{large['gigabytes of cache']:,.1f} GB"),
    ]
    lines = [
        f"| {figures['pairs']:,} pairs | measured |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows),
    ]
    source = "`{command}`, {date}, {machine}, {cores} cores, Python {python}, numpy {numpy}, commit {commit}"
    return "\n".join([*lines, "", source.format(**made), "The rows from the large number on are extrapolated."])


def fill(page: Path, text: str) -> None:
    """Replace what stands between the marks of a page."""
    begin, end = "<!-- data_build.py writes here -->", "<!-- up to here -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, also_found, after = rest.partition(end)
    if not found or not also_found:
        raise InputError(f"{page}: no place marked {begin} ... {end}; put the two marks in")
    with written_whole(page) as file:
        file.write(f"{before}{begin}\n{text}\n{end}{after}")


# ---- memory, watched from outside: a fresh process and all its children


def measured(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """What `work` reports, and the largest memory of its process and its children, whole and beyond the start."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        pid = process.submit(started).result()
        before = peak = resident(pid)
        future = process.submit(work, *arguments)
        while not future.done():
            peak = max(peak, resident(pid))
            time.sleep(WATCH_EVERY_SECONDS)
        return {**future.result(), "peak megabytes": peak / 1e6, "extra megabytes": (peak - before) / 1e6}


def started() -> int:
    """Wait until a process has loaded all it needs."""
    import torch  # noqa: F401

    return os.getpid()


def resident(pid: int) -> int:
    """Bytes that a process and its children hold, memory-mapped files left out; 0 if it has just ended."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    own = (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return own + sum(resident(int(child)) for child in children)


def arguments() -> Namespace:
    """The options of the command line, which are the arguments of `main`."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", metavar="N", type=int, default=5_000_000)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--tokens", metavar="N", type=int, default=25_000)
    parser.add_argument("--processes", metavar="N", type=int)
    parser.add_argument("--folder", metavar="FOLDER", type=Path)
    parser.add_argument("--output", metavar="FILE", type=Path)
    parser.add_argument("--page", metavar="FILE", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(arguments()))
