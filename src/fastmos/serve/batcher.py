"""Requests that arrive together are answered together: one thread works on batches of what waits in a queue.

An item waits with all others of its kind. The thread takes the kind of the item that has waited longest, up to WINDOW
items of it in the order of their arrival, and answers those in batches of similar size, the largest first.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastmos.serve.limits import Refusal

WINDOW = 256  # items sorted by size together


class Kind(Hashable, Protocol):
    """Items of equal kinds can be answered together, so many at a time."""

    @property
    def batch_size(self) -> int: ...

    def answer(self, items: Sequence[Any]) -> Sequence[Any]: ...


@dataclass(eq=False)
class Waiting:
    """An item, and where its answer is waited for."""

    item: Any
    size: int
    future: "Future[Any]" = field(default_factory=Future)


class Batcher:
    """A queue and its thread."""

    def __init__(self, limit: int, seen: Callable[[int], None] = lambda size: None) -> None:
        """`limit` is of the items that wait; `seen` is told the size of each batch."""
        self.limit, self.seen = limit, seen
        self._queues: dict[Kind, dict[Waiting, None]] = {}  # kinds and items in the order of their arrival
        self._count = 0
        self._open = True
        self._changed = threading.Condition(threading.RLock())
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """The number of items that wait."""
        return self._count

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def submit(self, kind: Kind, items: Sequence[Any], sizes: Sequence[int]) -> "list[Future[Any]]":
        """Queue the items, all or none. One whose future is cancelled leaves the queue at once."""
        waiting = [Waiting(item, size) for item, size in zip(items, sizes, strict=True)]
        with self._changed:
            if not self._open:
                raise Refusal(503, "the server is shutting down; try again in a moment")
            if self._count + len(waiting) > self.limit:
                raise Refusal(429, f"{self._count:,} lines wait already; try again in a moment")
            self._queues.setdefault(kind, {}).update(dict.fromkeys(waiting))
            self._count += len(waiting)
            self._changed.notify()
        for one in waiting:
            one.future.add_done_callback(lambda _, one=one: self._forget(kind, one))  # type: ignore[misc]
        return [one.future for one in waiting]

    def close(self) -> None:
        """Take nothing more, and answer what waits."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join()

    def _forget(self, kind: Kind, one: Waiting) -> None:
        """An item is done or cancelled: take it out of the queue, if it is still there."""
        with self._changed:
            queue = self._queues.get(kind, {})
            if one in queue:
                del queue[one]
                self._count -= 1
                if not queue:
                    del self._queues[kind]

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            kind, window = taken
            window.sort(key=lambda one: -one.size)
            for begin in range(0, len(window), kind.batch_size):
                batch = window[begin : begin + kind.batch_size]
                batch = [one for one in batch if one.future.set_running_or_notify_cancel()]
                if batch:
                    self.seen(len(batch))
                    _answer(kind, batch)
            del taken, window  # nothing is kept while nothing is asked

    def _take(self) -> tuple[Kind, list[Waiting]] | None:
        """The items to work on next; None at the end."""
        with self._changed:
            while not self._queues:
                if not self._open:
                    return None
                self._changed.wait()
            kind = next(iter(self._queues))
            queue = self._queues.pop(kind)
            window = list(queue)[:WINDOW]
            for one in window:
                del queue[one]
            self._count -= len(window)
            if queue:
                self._queues[kind] = queue  # behind the other kinds, so that each has its turn
            return kind, window


def _answer(kind: Kind, batch: list[Waiting]) -> None:
    """Answer a batch; if it fails, each item by itself, so that only the one to blame has no answer."""
    try:
        answers = kind.answer([one.item for one in batch])
    except BaseException as error:
        if len(batch) == 1:
            batch[0].future.set_exception(error)
            return
        for one in batch:
            _answer(kind, [one])
        return
    for one, answer in zip(batch, answers, strict=True):
        one.future.set_result(answer)
