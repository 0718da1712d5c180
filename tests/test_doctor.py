"""The doctor: its report, its exit code, and what it says when something is wrong."""

import sys
from pathlib import Path

import pytest
import torch

from fastmos import doctor
from fastmos.cli import dispatch
from fastmos.heads import products


def in_this_process(device: str, numbers: str, smoothing: str) -> float:
    """Stands in for a process of its own, which would take seconds to start."""
    return doctor.self_check(device, "float32", smoothing)


def test_the_report(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "_in_process_of_its_own", in_this_process)
    for name in ("USER", "LOGNAME"):
        monkeypatch.setenv(name, "somebody")
    dispatch(["doctor"])
    report = capsys.readouterr().out
    assert f"torch {torch.__version__}" in report
    assert "transformers " in report
    assert f"products of float32: {products.describe()}\n" in report
    assert report.count(" ok\n") == 9 * (1 + torch.cuda.device_count())
    assert report.endswith("all is well\n")
    assert "somebody" not in report
    assert str(Path(doctor.__file__).parent) not in report


@pytest.mark.parametrize("smoothing", list(doctor.SMOOTHING))
@pytest.mark.parametrize(("numbers", "error"), [("float64", 1e-13), ("float32", 1e-5)])
def test_the_loss_is_right_here(numbers: str, error: float, smoothing: str) -> None:
    assert doctor.self_check("cpu", numbers, smoothing) < error


def test_a_wrong_loss_fails_the_examination(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(device: str, numbers: str, smoothing: str) -> float:
        if numbers == "float64":
            return 1e-3
        raise RuntimeError("the device fell over")

    monkeypatch.setattr(doctor, "self_check", wrong)
    monkeypatch.setattr(doctor, "_in_process_of_its_own", in_this_process)
    with pytest.raises(SystemExit) as ended:
        dispatch(["doctor"])
    assert ended.value.code == 1
    report = capsys.readouterr().out
    assert "1.0e-03 FAILED" in report
    assert "FAILED (RuntimeError: the device fell over)" in report


def test_what_dies_is_not_available_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An illegal instruction ends the process that tried it, and nothing else."""
    dying = tmp_path / "python"
    dying.write_text("#!/bin/sh\nkill -ILL $$\n")
    dying.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(dying))
    dispatch(["doctor"])
    assert capsys.readouterr().out.count("not available (SIGILL)") >= 3
