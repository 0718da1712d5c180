"""Counts and times in the text format of Prometheus."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
LINES = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """How often a value was at most each of these bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        total, comma = 0, "," * bool(labels)
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
        yield f"{name}_sum{{{labels}}} {self.sum:.6f}"
        yield f"{name}_count{{{labels}}} {total}"


class Metrics:
    """What a server has done. Paths and names of models are few: those that exist."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()  # by path and status
        self._seconds: dict[str, Histogram] = {}  # by path
        self._items: Counter[str] = Counter()  # by model
        self._batches = Histogram(LINES)
        self._left = 0

    def answered(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[path, status] += 1
            self._seconds.setdefault(path, Histogram(SECONDS)).add(seconds)

    def left(self) -> None:
        with self._lock:
            self._left += 1

    def done(self, model: str, items: int) -> None:
        with self._lock:
            self._items[model] += items

    def batch(self, size: int) -> None:
        with self._lock:
            self._batches.add(size)

    @property
    def requests(self) -> int:
        """How many were answered."""
        return self._requests.total()

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of it, with gauges given as name -> (help, value)."""
        with self._lock:
            return "\n".join([*self._text(gauges), ""])

    def _text(self, gauges: Mapping[str, tuple[str, float]]) -> Iterator[str]:
        yield from _head("fastmos_requests_total", "counter", "requests answered, by path and status")
        for (path, status), count in sorted(self._requests.items()):
            yield f'fastmos_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from _head("fastmos_request_seconds", "histogram", "time from the head of a request to its answer")
        for path, histogram in sorted(self._seconds.items()):
            yield from histogram.lines("fastmos_request_seconds", f'path="{path}"')
        yield from _head("fastmos_items_total", "counter", "lines and images answered, by model")
        for model, count in sorted(self._items.items()):
            yield f'fastmos_items_total{{model="{_escaped(model)}"}} {count}'
        yield from _head("fastmos_batch_items", "histogram", "lines and images worked on together")
        yield from self._batches.lines("fastmos_batch_items")
        yield from _head("fastmos_clients_left_total", "counter", "clients that left before their answer")
        yield f"fastmos_clients_left_total {self._left}"
        for name, (about, value) in gauges.items():
            yield from _head(name, "gauge", about)
            yield f"{name} {value:g}" if value < 1e6 else f"{name} {value:.0f}"


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resident_bytes() -> float:
    """Memory of this process, where the system tells it (Linux)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    import resource

    return float(pages * resource.getpagesize())
