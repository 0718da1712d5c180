"""Measuring: who is called how often, what is made of the times, and memory that is really used."""

import functools
import os

import pytest

from fastmos.measure import KEEP_PAGES, Timing, extra_memory, interleaved, with_pages_kept


def test_every_contender_runs_once_a_round_and_the_order_turns() -> None:
    calls: list[str] = []
    timings = interleaved({name: functools.partial(calls.append, name) for name in "abc"}, rounds=3)
    assert calls == [*"abc", *"abc", *"bca", *"cab"]
    assert all(len(timing.seconds) == 3 for timing in timings.values())


@pytest.mark.parametrize(
    ("seconds", "median", "spread"), [([2.0], 2.0, 0.0), ([1.0, 2.0, 3.0], 2.0, 0.5), ([4.0, 1.0, 2.0, 3.0], 2.5, 0.75)]
)
def test_median_and_spread(seconds: list[float], median: float, spread: float) -> None:
    assert (Timing(seconds).median, Timing(seconds).spread) == (median, spread)


def test_ratio_is_taken_round_by_round() -> None:
    assert Timing([2.0, 20.0, 3.0]).ratio(Timing([1.0, 10.0, 1.0])) == 2.0


def test_extra_memory_sees_what_a_step_holds_at_its_peak() -> None:
    size = 200_000_000
    used = extra_memory(functools.partial, bytes.__mul__, b"x", size)
    assert size * 0.9 < used < size * 1.5


def test_pages_are_kept_in_the_other_process_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TOP_PAD_", "7")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    for name, value in KEEP_PAGES.items():
        assert with_pages_kept(os.getenv, name) == value
    assert (os.environ["MALLOC_TOP_PAD_"], os.environ.get("MALLOC_TRIM_THRESHOLD_")) == ("7", None)
