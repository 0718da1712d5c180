"""What runs need before they start: the scale's text, and learned tables; each is made once."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from fastmos.config import Config, data_path
from fastmos.errors import InputError
from fastmos.files import read_json, read_lines, written_whole
from fastmos.progress import progress
from fastmos.reproduce.plans import Plan, TablePlan
from fastmos.reproduce.records import read_result
from fastmos.reproduce.scales import MAIN, Scale, base_config
from fastmos.tables.learning import learn_table
from fastmos.tokenizers import Pretokenizer, TableTokenizer, load_tokenizer, moses
from fastmos.vision.captions import caption_lines, read_captions

SAMPLE = {"pairs": 3000, "valid": 100, "test": 100}  # of the embedded sample
EUROPARL = {"train": 50_000, "valid": 1000, "test": 1000}  # pairs that are cut from Europarl,
LONGEST = 30  # of so many words a side, at most
LINES_AT_ONCE = 5000


def prepare_text(scale: Scale, runs: Path) -> None:
    """Make the text that a scale cuts or makes up itself, in the runs folder."""
    if scale.name == "sample":
        from fastmos.samples.grammar import write_sample

        folder = runs / "sample-small"
        if len(list(folder.glob("*.??"))) < 6:  # three splits of two languages
            write_sample(folder, **SAMPLE)
    if scale.name == "europarl":
        for split, count in EUROPARL.items():
            _cut(split, count, runs / "europarl-50k")
    if scale.task == "captioning":
        data = base_config(scale, MAIN).data
        for part, texts in (("train", data.train), ("valid", data.valid)):
            path = runs / f"captions-{scale.name}" / f"{part}.txt"
            if not path.exists():
                images = data_path(texts.source, runs) if texts.source else None
                _write(path, caption_lines(read_captions(data_path(texts.target, runs), part, images)))


def check_text(scale: Scale, runs: Path) -> None:
    """Refuse a scale none of whose bases has its text here, with one sentence rather than one for each run."""
    problems = [_problem(base_config(scale, base), runs) for base in scale.bases]
    if all(problems):
        raise InputError(f"the scale {scale.name} cannot be trained: {problems[0]}")


def _problem(config: Config, runs: Path) -> str:
    """What is wrong with the files of a config; empty if nothing is."""
    data = config.data
    names = [name for split in (data.train, data.valid, data.test) for name in (split.source, split.target)]
    try:
        paths = [data_path(name, runs) for name in (*names, data.features) if name]
    except InputError as error:
        return str(error)
    return next((f"{path}: no such file" for path in paths if not path.is_file()), "")


def _cut(split: str, count: int, folder: Path) -> None:
    """The first pairs of a split of Europarl that are short enough, still raw."""
    paths = {language: folder / f"{split}.{language}" for language in ("de", "en")}
    if all(path.exists() for path in paths.values()):
        return
    names = [data_path(f"${{FASTMOS_DATA}}/europarl/{split}.{language}.gz", Path()) for language in paths]
    pairs = zip(*map(read_lines, names), strict=True)
    kept: list[tuple[str, ...]] = []
    chunks = iter(lambda: list(islice(pairs, LINES_AT_ONCE)), [])
    for some in progress(chunks, f"cutting {split} of Europarl, units of {LINES_AT_ONCE:,} lines"):
        lengths = [
            [len(line.split()) for line in moses.tokenize([pair[side] for pair in some], language)]
            for side, language in enumerate(paths)
        ]
        kept += [pair for pair, *words in zip(some, *lengths, strict=True) if min(words) > 0 and max(words) <= LONGEST]
        if len(kept) >= count:
            break
    for side, path in enumerate(paths.values()):
        _write(path, [pair[side] for pair in kept[:count]])


def _write(path: Path, lines: Sequence[str]) -> None:
    with written_whole(path) as file:
        file.writelines(f"{line}\n" for line in lines)


def prepare_table(table: TablePlan, runs: Path, record: Path) -> None:
    """Learn a table, or resume learning it, unless it or its record in the results exists already."""
    output, done = runs / table.path, runs / f"tables/{table.id}.done"
    if done.exists() and output.exists():
        return
    train, valid = data_path(table.train, runs), data_path(table.valid, runs)
    for path in (train, valid):
        if not path.is_file():
            raise InputError(f"{path}: no such file, from which a table is to be learned")
    pretokenizer = Pretokenizer(table.language or None, table.lowercase)
    if record.exists():
        static = TableTokenizer.learn(
            read_lines(train),
            vocab_size=table.vocab_size,
            words=table.words,
            unk_share=table.unk_share,
            pretokenizer=pretokenizer,
        )
        recorded_table(static, record).save(output)
    else:
        learn_table(
            [train],
            [valid],
            output,
            layout=table.layout,
            vocab_size=table.vocab_size,
            words=table.words,
            unk_share=table.unk_share,
            pretokenizer=pretokenizer,
            learning=table.learning,
        )
    _write(done, ())


def recorded_table(static: TableTokenizer, record: Path) -> TableTokenizer:
    """A table of the same words, with the cells that a record has: learned anew elsewhere, it would not be the same."""
    rows = read_result(record).get("table") or []
    cells = {word: row * static.columns + column for row, words in enumerate(rows) for column, word in enumerate(words)}
    cells.pop(None, None)  # empty cells
    if cells.keys() != set(static.table_words):
        raise InputError(f"{record}: its table has other words than the training text gives; delete it to learn anew")
    return static.with_cells([cells[word] for word in static.table_words])


def table_record(one: Plan, runs: Path) -> dict[str, object]:
    """A learned table for the results."""
    assert one.table is not None
    tokenizer = load_tokenizer(runs / one.table.path)
    assert isinstance(tokenizer, TableTokenizer)
    found = read_json((runs / one.table.path).with_suffix(".learning") / "rounds.json")
    return {
        "id": one.table.id,
        "vocab_size": one.table.vocab_size,
        "words": len(tokenizer.frequent) + len(tokenizer.table_words),
        "frequent": len(tokenizer.frequent),
        "table": [tokenizer.row_words(row) for row in range(tokenizer.rows)],
        "rounds": found["rounds"],
        "best": found["best"],
        "oov_rate": found["oov_rate"],
    }
