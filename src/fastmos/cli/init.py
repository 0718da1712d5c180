"""`fastmos init`: a commented config for the user's own files."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fastmos.cli.arguments import Arguments, add_output, add_paths
from fastmos.errors import InputError
from fastmos.files import check_output, read_lines, written_whole

if TYPE_CHECKING:
    from fastmos.config import Section
    from fastmos.tasks import Task

NAMES = {"valid": ("valid", "val", "dev"), "test": ("test",)}  # what may stand in place of `train` in a file's name


def add_arguments(parser: Arguments) -> None:
    parser.add_argument("task", metavar="TASK", help="what is learned: translation, captioning or language-modeling")
    add_paths(parser, "--train", "source and target text, plain or gzip; for captioning, list of images and captions")
    for split, names in NAMES.items():
        about = f"likewise; if not given, files named like those of --train, with {', '.join(names)} in place of train"
        add_paths(parser, f"--{split}", about)
    add_output(parser, "the config; if not given, TASK.yaml")


def run(args: Namespace) -> None:
    """Write a commented YAML config for your own files. Sizes, language and case are chosen by a look at the text."""
    task = _task(args.task)
    output = args.output or Path(f"{args.task}.yaml")
    if output.exists():
        raise InputError(f"{output}: exists; give another --output")
    check_output(output)
    splits = {"train": _files(task, args.train)} if args.train else {}
    for split, names in NAMES.items() if splits else ():
        given = getattr(args, split)
        splits[split] = _files(task, given) if given else _siblings(splits["train"], names)
    settings = {"task": args.task, **choose(task, splits)}
    for split in ("train", *NAMES):
        for side, usual in task.train_files.items():
            file = splits[split][side] if splits else Path(usual.replace("train", split))
            name = os.path.relpath(file, output.parent)
            if "${" in name:
                raise InputError(f"{name}: a config would take what is in ${{}} from the environment; rename it")
            settings[f"data.{split}.{side}"] = name
    with written_whole(output) as stream:
        stream.write(commented(settings))
    for path in [path for split in splits.values() for path in split.values() if not path.exists()]:
        print(f"fastmos: {path}: not there yet; set some hundred lines of the training text aside", file=sys.stderr)
    print(f"{output}: look at it, then fastmos train {output}")


def _task(name: str) -> "type[Task]":
    from fastmos.config import TASKS, load_class

    if name not in TASKS:
        raise InputError(f"no task '{name}'; choose one of {', '.join(TASKS)}")
    found: type[Task] = load_class(TASKS[name])
    return found


def _files(task: "type[Task]", files: Sequence[Path]) -> dict[str, Path]:
    """The files of a split by their key."""
    sides = task.train_files
    for file in files:
        if not file.name or file.is_dir():
            raise InputError(f"{file}: is a folder; give a file")
    if len(files) != len(sides):
        raise InputError(f"a split has {len(sides)} files ({' and '.join(sides)}), not {len(files)}")
    return dict(zip(sides, files, strict=True))


def _siblings(files: dict[str, Path], names: Sequence[str]) -> dict[str, Path]:
    """The files of another split, whose names have one of `names` in place of train."""
    found = {}
    for side, file in files.items():
        candidates = [file.with_name(file.name.replace("train", name)) for name in names]
        found[side] = next((path for path in candidates if path.exists()), candidates[0])
        if found[side] == file and file.exists():
            raise InputError(f"{file}: has no 'train' in its name; give --valid and --test as well")
    return found


# ---- choosing settings


class Text(NamedTuple):
    """What a look at a text says."""

    lines: int
    characters: int  # distinct ones
    raw: bool
    lowercase: bool


def look(file: Path) -> Text:
    """Read a text; of captions, what stands behind the image's name."""
    from fastmos.tokenizers.detection import LINES, is_lowercase, looks_raw

    first: list[str] = []
    characters: set[str] = set()
    count = 0
    for line in read_lines(file):
        text = line.split("\t")[-1]
        characters.update(text)
        count += 1
        if count <= LINES:
            first.append(text)
    return Text(count, len(characters), looks_raw(first), is_lowercase(first))


def choose(task: "type[Task]", splits: dict[str, dict[str, Path]]) -> dict[str, Any]:
    """Settings for a task and its training files."""
    settings: dict[str, Any] = {}
    lines = 0
    for side in task.text_sides:
        file = splits["train"][side] if splits else None
        text = look(file) if file else Text(100_000, 0, False, False)
        lines = text.lines
        vocab_size = 2000 if lines < 10_000 else 5000 if lines < 100_000 else 10_000 if lines < 1_000_000 else 32_000
        settings |= {
            f"tokenizers.{side}.type": "bpe",
            f"tokenizers.{side}.vocab_size": max(vocab_size, 3 * text.characters),  # BPE begins with the characters
            f"tokenizers.{side}.language": _language(file) if file and text.raw else "",
            f"tokenizers.{side}.lowercase": text.lowercase,
        }
    settings["model.hidden_size"] = 128 if lines < 10_000 else 256 if lines < 100_000 else 512
    settings["model.dropout"] = 0.3
    settings |= {"head.type": "shortlist", "head.mixtures": 9, "head.near_softmax": True}
    settings |= {
        "training.learning_rate": 0.001,
        "training.lr_schedule": "plateau",
        "training.batch_size": 64,
        "training.max_epochs": 30,
        "training.validate_every": 5000 if lines > 500_000 else 0,
        "training.early_stopping_patience": 5,
        "training.seed": 1,
    }
    return settings | task.usual_settings


def _language(file: Path) -> str:
    """The language by the file's name, as in train.de.gz; English if it does not say one that Moses' rules know."""
    from fastmos.tokenizers.moses import check_language

    code = file.name.removesuffix(".gz").rpartition(".")[2]
    try:
        check_language(code)
    except InputError:
        return "en"
    return code


# ---- writing them


def commented(settings: dict[str, Any]) -> str:
    """The settings as YAML, each with what it means."""
    from fastmos.config import Config, describe, override

    config = override(Config(), {name: str(value) for name, value in settings.items()})
    help = {option.name: option.help for option in describe(config) if option.name in settings}
    head = "# Every key has a comment; fastmos train --help lists those that are not here, with their defaults."
    return "\n".join([head, *_lines(config, "", "", help)]) + "\n"


def _lines(section: "Section", prefix: str, indent: str, help: dict[str, str]) -> Iterator[str]:
    """The keys of a section that have help here, with it, and the headers above them."""
    from fastmos.config import Section

    for name, field in type(section).model_fields.items():
        value, dotted = getattr(section, name), f"{prefix}{name}"
        if isinstance(value, Section):
            inner = list(_lines(value, f"{dotted}.", f"{indent}  ", help))
            about = field.description or (value.__doc__ or "").split("\n")[0].rstrip(".")
            yield from [f"{indent}{name}:  # {about}", *inner] if inner else []
        elif dotted in help:
            yield f"{indent}{name}: {_yaml(value)}  # {help[dotted]}"


def _yaml(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(value, allow_unicode=True)).removesuffix("\n").removesuffix("\n...")
