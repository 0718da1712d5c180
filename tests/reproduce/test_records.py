"""Results on disk: which files are read, and which are refused."""

from pathlib import Path

import pytest

from fastmos.errors import InputError
from fastmos.files import write_json
from fastmos.reproduce.records import read_log, read_result, read_results
from fastmos.reproduce.suites import suite_tables
from tests.reproduce import made


def test_files_and_folders_are_read(tmp_path: Path) -> None:
    for number, result in enumerate(made.results()):
        write_json(tmp_path / "results" / result["scale"] / f"{number}.json", result)
    write_json(tmp_path / "results" / "other.json", {"a": 1})
    write_json(tmp_path / "alone.json", made.run("alone"))
    results, left_out = read_results([tmp_path / "results", tmp_path / "alone.json"])
    assert len(results) == len(made.results()) + 1 and "alone" in {result.name for result in results}
    assert len(left_out) == 1 and "other.json: not a result" in left_out[0]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a": 1}', "not a result"),
        ("[1]", "not a result"),
        ('{"format": 1, "kind": "run"}', "format 1 and kind run"),
        ('{"format": 2, "kind": "song"}', "kind song"),
        ('{"format": 2, "kind": ["run"]}', "kind"),
        ('{"format": 2, "kind": "run", "curve": "up"}', "'curve' is no list"),
        ('{"format": 2, "kind": "run", "curve": [3]}', "'curve' is no list of dicts"),
        ('{"format": 2, "kind": "run", "table": ["word"]}', "'table' is no list of lists"),
        ('{"format": 2, "kind": "run", "scores": {"test": 5}}', "'scores' has a strange 'test'"),
        ('{"format": 2, "kind": "run", "outputs": {"test": 5}}', "'outputs' has a strange 'test'"),
        ("{", "not valid JSON"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "a.json").write_text(content, "utf-8")
    with pytest.raises(InputError, match=sentence):
        read_result(tmp_path / "a.json")
    with pytest.raises(InputError, match=f"no runs and no results there; left out .*{sentence}"):
        read_results([tmp_path])


def test_a_file_that_is_named_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = made.whole_results()[0]
    write_json(tmp_path / "a.json", run)
    monkeypatch.chdir(tmp_path)
    results, _ = read_results([Path("a.json"), tmp_path, tmp_path / "a.json"])
    assert len(results) == 1
    (overall, *_) = suite_tables([run, run])  # nor does a copy
    assert overall.lines[2].ours["BLEU"].count == 1


def test_a_log_that_ends_in_half_a_line_is_read(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step": 2, "lo')
    assert read_log(tmp_path / "log.jsonl") == [{"step": 1}]
    assert read_log(tmp_path / "none.jsonl") == []


def test_lines_of_a_log_without_a_step_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"stp": 2}\n{"step": "3"}\n[4]\n{"step": 5, "lo')
    assert read_log(tmp_path / "log.jsonl") == [{"step": 1}]
