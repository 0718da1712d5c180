"""Reading a YAML file that anybody may have written: with limits, and without anything that YAML does beside data."""

from pathlib import Path
from typing import Any

from fastmos.errors import InputError
from fastmos.files import read_bytes

MAX_BYTES = 100_000
MAX_DEPTH = 20  # sections in sections
MAX_NODES = 20_000  # values, those behind aliases counted each time
MAX_SHOWN = 80  # characters of a value in a message


def read_yaml(path: Path) -> dict[str, Any]:
    """The sections of a YAML file."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it was compiled
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the YAML file of an experiment")
    if not path.exists():
        raise InputError(f"{path}: no such file; the first argument of fastmos train is a YAML file")
    try:
        text = read_bytes(path, MAX_BYTES).decode("utf-8")
        _check_depth(yaml.parse(text, loader), path)
        tree = yaml.compose(text, loader)
        _check_nodes(tree, path)
        value = yaml.load(text, loader)
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; give the YAML file of an experiment") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not valid YAML ({' '.join(str(error).split())[:300]})") from None
    except InputError:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:  # of a tag: !!int x
        raise InputError(f"{path}: a value that is not what its tag says ({str(error)[:MAX_SHOWN]})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no sections; see the configs folder for examples")
    if repeated := _repeated_key(tree):
        raise InputError(f"{path}: has {repeated} twice; keep one")
    return value


def shown(value: object) -> str:
    """A value in a message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python writes
        text = "a number of thousands of digits"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _check_depth(events: Any, path: Path) -> None:
    """Before a tree is made of the file, which the compiled parser does by recursion without a limit."""
    depth = 0
    for event in events:
        name = type(event).__name__
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > MAX_DEPTH:
            raise InputError(f"{path}: sections nested deeper than {MAX_DEPTH}; is it the right file?")


def _check_nodes(tree: Any, path: Path) -> None:
    """Count all values, as if each alias were written out: a short file can stand for an endless one."""
    count, level = 0, [] if tree is None else [tree]
    for _ in range(MAX_DEPTH + 1):
        count += len(level)
        if count > MAX_NODES:
            break
        level = [child for node in level for child in _children(node)]
    if level:
        raise InputError(f"{path}: aliases that stand for too many values, or for themselves; write the values out")


def _children(node: Any) -> list[Any]:
    if node.id == "mapping":
        return [part for pair in node.value for part in pair]
    return list(node.value) if node.id == "sequence" else []


def _repeated_key(node: Any, prefix: str = "") -> str | None:
    """The first key that stands twice in a section of a YAML tree; its parser would silently keep the last."""
    seen: set[str] = set()
    for key, value in node.value if getattr(node, "id", "") == "mapping" else []:
        name = f"{prefix}{key.value}"
        if name in seen:
            return name
        seen.add(name)
        if deeper := _repeated_key(value, f"{name}."):
            return deeper
    return None
