"""The batcher: every item gets its own answer, whatever it waits with."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from itertools import chain

import pytest

from fastmos.serve.batcher import Batcher
from fastmos.serve.limits import Refusal


@dataclass(frozen=True)
class Squares:
    """Squares numbers; stops at a gate, and cannot do negative ones."""

    name: str = ""
    batch_size: int = 4
    gate: threading.Event = field(default_factory=threading.Event, compare=False)
    done: list[list[int]] = field(default_factory=list, compare=False)

    def answer(self, items: Sequence[int]) -> list[int]:
        self.gate.wait(20)
        self.done.append(list(items))
        if min(items) < 0:
            raise ValueError(f"no square of {items}")
        return [item * item for item in items]


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    made = Batcher(100)
    yield made
    made.close()


def blocked(batcher: Batcher) -> Squares:
    """Something that the thread is busy with until its gate opens."""
    first = Squares("first")
    batcher.submit(first, [0], [0])
    while len(batcher):
        time.sleep(0.001)
    return first


def test_items_get_their_own_answers(batcher: Batcher) -> None:
    kind, choose = Squares(), random.Random(0)
    kind.gate.set()
    for _ in range(50):
        items = [choose.randrange(1000) for _ in range(choose.randint(1, 9))]
        futures = batcher.submit(kind, items, [choose.randrange(9) for _ in items])
        assert [future.result(20) for future in futures] == [item * item for item in items]


def test_what_waits_is_batched_the_largest_first(batcher: Batcher) -> None:
    first, kind = blocked(batcher), Squares()
    kind.gate.set()
    futures = [batcher.submit(kind, [size], [size])[0] for size in (3, 9, 1, 7, 5, 8)]
    first.gate.set()
    assert [future.result(20) for future in futures] == [9, 81, 1, 49, 25, 64]
    assert kind.done == [[9, 8, 7, 5], [3, 1]]


def test_kinds_are_not_mixed_and_take_turns(batcher: Batcher) -> None:
    first, kinds = blocked(batcher), [Squares("a"), Squares("b")]
    order: list[str] = []
    for kind in kinds:
        kind.gate.set()
    futures = [batcher.submit(kinds[number % 2], [number], [0])[0] for number in range(8)]
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _, name=kinds[number % 2].name: order.append(name))  # type: ignore[misc]
    first.gate.set()
    assert [future.result(20) for future in futures] == [number * number for number in range(8)]
    assert (kinds[0].done, kinds[1].done) == ([[0, 2, 4, 6]], [[1, 3, 5, 7]])
    assert order == ["a"] * 4 + ["b"] * 4


def test_equal_kinds_of_two_clients_share_a_batch(batcher: Batcher) -> None:
    first = blocked(batcher)
    one, other = Squares("same"), Squares("same")
    one.gate.set()
    futures = [batcher.submit(one, [1], [0])[0], batcher.submit(other, [2], [0])[0]]
    first.gate.set()
    assert [future.result(20) for future in futures] == [1, 4]
    assert (one.done, other.done) == ([[1, 2]], [])


def test_a_bad_item_spoils_nothing_but_itself(batcher: Batcher) -> None:
    first, kind = blocked(batcher), Squares()
    kind.gate.set()
    futures = batcher.submit(kind, [1, -2, 3, 4], [0] * 4)
    first.gate.set()
    assert [futures[n].result(20) for n in (0, 2, 3)] == [1, 9, 16]
    with pytest.raises(ValueError, match=r"^no square of \[-2\]$"):
        futures[1].result(20)
    assert batcher.alive


def test_a_cancelled_item_frees_its_place_at_once() -> None:
    batcher = Batcher(3)
    first, kind = blocked(batcher), Squares()
    kind.gate.set()
    futures = batcher.submit(kind, [1, 2, 3], [0] * 3)
    with pytest.raises(Refusal, match="3 lines wait already") as refused:
        batcher.submit(kind, [4], [0])
    assert refused.value.status == 429
    assert futures[1].cancel() and len(batcher) == 2
    (late,) = batcher.submit(kind, [4], [0])
    first.gate.set()
    assert [futures[0].result(20), futures[2].result(20), late.result(20)] == [1, 9, 16]
    with pytest.raises(CancelledError):
        futures[1].result(20)
    assert sorted(chain.from_iterable(kind.done)) == [1, 3, 4]
    batcher.close()


def test_a_request_enters_whole_or_not_at_all() -> None:
    batcher = Batcher(3)
    first, kind = blocked(batcher), Squares()
    kind.gate.set()
    batcher.submit(kind, [1, 2], [0, 0])
    with pytest.raises(Refusal):
        batcher.submit(kind, [3, 4], [0, 0])
    assert len(batcher) == 2
    first.gate.set()
    batcher.close()
    assert kind.done == [[1, 2]]


def test_closing_answers_what_waits_and_takes_no_more(batcher: Batcher) -> None:
    first, kind = blocked(batcher), Squares(batch_size=2)
    kind.gate.set()
    futures = batcher.submit(kind, list(range(7)), [0] * 7)
    closing = threading.Thread(target=batcher.close)
    closing.start()
    first.gate.set()
    closing.join(20)
    assert [future.result(0) for future in futures] == [number * number for number in range(7)]
    with pytest.raises(Refusal, match="shutting down") as refused:
        batcher.submit(kind, [1], [0])
    assert refused.value.status == 503


def test_sizes_of_batches_are_told() -> None:
    seen: list[int] = []
    batcher = Batcher(100, seen.append)
    first, kind = blocked(batcher), Squares()
    kind.gate.set()
    futures = batcher.submit(kind, list(range(6)), [0] * 6)
    first.gate.set()
    for future in futures:
        future.result(20)
    batcher.close()
    assert seen == [1, 4, 2]
