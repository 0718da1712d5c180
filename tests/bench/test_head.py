"""The benchmark of the head: its contenders compute the same loss, and its record is whole."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fastmos.bench import head as bench
from fastmos.files import read_json


@pytest.mark.parametrize("components", [1, 3])
def test_contenders_agree_on_the_loss(components: int) -> None:
    case = bench.make_case(bench.Shape(6, components, 32, 40))
    losses = bench.losses(case)
    exact = [bench.FUSED, bench.PUBLIC, "module", "module, contexts kept", "log-space formula"]
    if components == 1 and "linear_cross_entropy" in losses:
        exact.append("linear_cross_entropy")
    for name in exact:
        torch.testing.assert_close(losses[name](), losses[bench.FUSED](), rtol=1e-5, atol=1e-5)
    assert set(losses) | {bench.FLOOR} <= set(bench.ABOUT)


def test_the_floor_is_three_products_of_the_right_sizes() -> None:
    case = bench.make_case(bench.Shape(6, 3, 16, 40))
    products: list[tuple[int, ...]] = []

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            if "mm" in str(func):
                products.append(tuple(args[-2].shape + args[-1].shape))
            return func(*args, **(kwargs or {}))

    floor = bench.make_floor(case)
    with Watch():  # type: ignore[no-untyped-call]
        floor()
    assert products == [(18, 16, 16, 40), (18, 40, 40, 16), (40, 18, 18, 16)]


def test_run_prints_tables_and_writes_record_and_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(bench.SHAPES, "quick", [bench.Shape(6, 3, 32, 40), bench.Shape(4, 1, 32, 50)])
    monkeypatch.setitem(bench.VOCABULARIES, "quick", [(6, 16, 40)])
    monkeypatch.setattr(bench, "extra_memory", lambda prepare, name, shape: prepare(name, shape)() or 12_000_000)
    monkeypatch.setattr(bench, "with_pages_kept", lambda function, *arguments: function(*arguments))
    record = bench.run(quick=True, output=tmp_path / "head.json")
    assert read_json(tmp_path / "head.json") == json.loads(json.dumps(record))
    assert (tmp_path / "head.png").read_bytes().startswith(b"\x89PNG")
    assert {"command", "date", "machine", "commit", "seed"} <= set(record["provenance"])
    assert [shape["shape"]["K"] for shape in record["shapes"]] == [3, 1]
    (heads,) = record["heads"]
    assert [row["name"] for row in heads["rows"]] == list(bench.HEADS) and heads["rows"][0]["ratio"] == 1.0
    for shape in record["shapes"]:
        assert shape["rows"][0]["ratio"] == shape["rows"][0]["ratio_pages_kept"] == 1.0
        kept = [row["name"] for row in shape["rows"] if row["ratio_pages_kept"] is not None]
        assert set(kept) == {row["name"] for row in shape["rows"]} & set(bench.PAGES_KEPT)
        assert all(len(row["seconds"]) == bench.ROUNDS["quick"] for row in shape["rows"])
    printed = capsys.readouterr().out
    assert all(
        name in printed for name in (bench.FLOOR, bench.FUSED, bench.PUBLIC, "pages kept", "extra MB over tokens")
    )
