"""The benchmark of the table solvers: its instances, and that it reports facts; times and memory are not asserted."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from fastmos.bench import assignment as bench


@pytest.mark.parametrize("n", [1, 50, 1000])
def test_instances_are_repeatable_and_realistic(n: int) -> None:
    R, Q = bench.instance(n, seed=3)
    again, other = bench.instance(n, seed=3), bench.instance(n, seed=4)
    side = math.ceil(math.sqrt(n))
    assert R.shape == Q.shape == (n, side) and R.dtype == Q.dtype == np.float32
    assert (again[0] == R).all() and (again[1] == Q).all() and (other[0] != R).any()
    assert R.min() > 0 and np.isfinite(R).all()
    if n == 1000:  # a few words are frequent, hence dear; most are rare
        dear = np.sort(R.mean(1))
        assert dear[-1] > 50 * dear[n // 2]


def test_the_table_tells_the_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "SIZES", {True: (100, 200)})
    monkeypatch.setattr(bench, "extra_memory", lambda prepare, *arguments: len(prepare(*arguments)().cells))
    bench.run(True, tmp_path / "table.json", dense_to=100)
    report = json.loads((tmp_path / "table.json").read_text())
    assert report["provenance"]["seed"] == bench.SEED
    rows = {(row["words"], row["method"]): row for row in report["rows"]}
    assert list(rows) == [(100, "exact"), (100, "half"), (100, "dense"), (200, "exact"), (200, "half")]
    assert all(rows[n, "exact"]["gap"] <= 1e-6 for n in (100, 200))
    assert rows[100, "dense"]["cost"] == pytest.approx(rows[100, "exact"]["cost"], rel=1e-9)
    assert 0 <= rows[100, "half"]["above_optimum_percent"] <= 10
    assert rows[100, "exact"]["times_faster"] is not None and rows[200, "exact"]["times_faster"] is None
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(rows) and "method" in printed[0]


def test_memory_is_measured_in_a_process_of_its_own() -> None:
    assert bench._extra_megabytes(100, "dense") >= 0
