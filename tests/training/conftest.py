"""What the tests of training share."""

from pathlib import Path

import pytest

from fastmos.training import journal
from tests.training.tiny import write_digits


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    write_digits(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard takes seconds to import; the test that wants it undoes this."""
    monkeypatch.setattr(journal, "_board", lambda folder, step: None)
