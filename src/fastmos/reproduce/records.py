"""Results on disk: JSON files of runs and measurements, each with what made it."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmos.errors import InputError
from fastmos.files import read_json, read_json_lines, written_whole
from fastmos.provenance import provenance

FORMAT = 2
KINDS = {  # with their labels
    "run": "run",
    "table": "learned table",
    "cost": "time and memory",
    "rank": "ranks",
    "decoding": "decoding speed",
    "gradient": "shares of the gradient",
    "coherence": "similarity of words",
}
# What the parts of a result are, if it has them.
TYPES: dict[str, type] = {
    "name": str,
    "scale": str,
    "provenance": dict,
    "config": dict,
    "curve": list,
    "scores": dict,
    "by_frequency": dict,
    "outputs": dict,
    "inside": dict,
    "statistics": dict,
    "batch": dict,
    "table": list,
    "rows": list,
}


@dataclass(frozen=True)
class Result:
    """One file of results; any part of it may be missing."""

    anchor: str  # names it within a page
    file: str
    data: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.data["kind"])

    @property
    def scale(self) -> str:
        return str(self.data.get("scale") or "no scale")

    @property
    def name(self) -> str:
        return str(self.data.get("name") or KINDS[self.kind])

    @property
    def about(self) -> Mapping[str, Any]:
        """Who made it: command, date, machine, commit, seed."""
        return self.part("provenance")

    def part(self, key: str) -> Mapping[str, Any]:
        """A part that has parts itself; empty if it is missing."""
        return self.data.get(key) or {}

    def rows(self, key: str = "rows") -> list[Mapping[str, Any]]:
        """A list of rows; empty if it is missing."""
        return self.data.get(key) or []


def days(results: Iterable[Result]) -> str:
    """When these were made: the first and the last day."""
    found = sorted(str(result.about["date"])[:10] for result in results if result.about.get("date"))
    return " to ".join(dict.fromkeys(found[:1] + found[-1:]))


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a run's log.jsonl; of a killed run the last one may be cut off, and is left out."""
    return [record for record in read_json_lines(path) if type(record.get("step")) is int]


def number(value: Any) -> float | None:
    """The value if it is a finite number."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good else None


def figure_at(record: Mapping[str, Any], *path: str) -> float | None:
    """The number that lies there in a record, if one does."""
    value: Any = record
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return number(value)


def header(kind: str, scale: str, seed: int) -> dict[str, Any]:
    """What every result begins with."""
    return {"format": FORMAT, "kind": kind, "scale": scale, "provenance": provenance(seed)}


def write_result(path: Path, record: Mapping[str, Any]) -> None:
    """Whole or not at all, one line for each part: some are thousands of numbers."""
    parts = (f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in record.items())
    with written_whole(path) as file:
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


def read_results(paths: Sequence[Path]) -> tuple[list[Result], list[str]]:
    """The results of files and folders, and sentences about files of folders that hold none.

    A file that is asked for by name and holds no result is an error.
    """
    found: dict[Path, Any] = {}
    left_out = []
    for path in paths:
        if not path.is_dir():
            found[path.resolve()] = read_result(path)  # a file counts once, however often it is named
            continue
        for file in sorted(path.rglob("*.json")):
            try:
                found[file.resolve()] = read_result(file)
            except InputError as error:
                left_out.append(str(error))
    if not found:
        why = f"left out {left_out[0]}" if left_out else "fastmos train makes run folders, fastmos reproduce results"
        raise InputError(f"{', '.join(map(str, paths)) or 'nothing'}: no runs and no results there; {why}")
    data = sorted(found.items(), key=lambda item: (item[1].get("scale") or "", item[1]["kind"], item[0].as_posix()))
    return [Result(f"r{number}", path.name, value) for number, (path, value) in enumerate(data, 1)], left_out


def read_result(path: Path) -> dict[str, Any]:
    """One file, as far as all that use it can rely on."""
    value = read_json(path)
    if not isinstance(value, dict) or "format" not in value or "kind" not in value:
        raise InputError(f"{path}: not a result (it has no format and kind); fastmos reproduce writes results")
    if value["format"] != FORMAT or str(value["kind"]) not in KINDS:
        what = f"a result of format {value['format']} and kind {value['kind']}"
        raise InputError(f"{path}: {what}, but this fastmos reads format {FORMAT} and kinds {', '.join(KINDS)}")
    for key, kind in TYPES.items():
        part = value.get(key)
        if part is not None and not isinstance(part, kind):
            raise InputError(f"{path}: its part '{key}' is no {kind.__name__}; was it changed by hand?")
    for key, kind in {"curve": dict, "rows": dict, "table": list}.items():
        if not all(isinstance(row, kind) for row in value.get(key) or []):
            raise InputError(f"{path}: its part '{key}' is no list of {kind.__name__}s; was it changed by hand?")
    for key, kinds in {"scores": dict, "outputs": (list, dict)}.items():
        for name, part in (value.get(key) or {}).items():
            if not isinstance(part, kinds):  # type: ignore[arg-type]
                raise InputError(f"{path}: its part '{key}' has a strange '{name}'; was it changed by hand?")
    return value
