"""`fastmos bench tables` in small."""

from pathlib import Path

import pytest

from fastmos.bench import assignment, tables
from fastmos.errors import InputError
from fastmos.files import read_json
from fastmos.tables.rounds import TableLearning
from tests.tables.tiny import write_texts


def test_every_table_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "QUICK", TableLearning(rounds=2, first_epochs=1, hidden_size=4, batch_tokens=100))
    train, valid = write_texts(tmp_path)
    output = tmp_path / "figures.json"
    tables.run(True, output, [train], [valid], tables.Sizes(vocab_size=14), folder=tmp_path / "kept")
    printed = capsys.readouterr().out
    figures = read_json(output)
    assert [one["table"] for one in figures["tables"]] == list(tables.TABLES)
    assert all(table in printed for table in tables.TABLES)
    assert [one["round"] for one in figures["assignment"]] == [1, 2]
    assert all(one["half_above_percent"] >= -1e-4 for one in figures["assignment"])
    some: tuple[tables.Table, ...] = ("frequency", "learned-half")
    again = tmp_path / "again.json"
    tables.run(True, again, [train], [valid], tables.Sizes(vocab_size=14), folder=tmp_path / "kept", tables=some)
    expected = [one for one in figures["tables"] if one["table"] in some]
    assert read_json(again)["tables"] == expected  # found, not learned again
    assignment.run_on_costs(tmp_path / "kept/learned-exact-0.learning", again)
    costs = [[one[name] for one in read_json(again)["rounds"]] for name in ("round", "half_above_percent")]
    assert costs == [[one[name] for one in figures["assignment"]] for name in ("round", "half_above_percent")]
    with pytest.raises(InputError, match="keeps no costs"):
        assignment.run_on_costs(tmp_path / "kept", None)
