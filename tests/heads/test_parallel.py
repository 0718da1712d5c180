"""The vocabulary-parallel head: several processes beside one."""

from pathlib import Path

import pytest

from fastmos.heads.parallel import split
from tests.heads.test_modules import run_script


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_several_processes_get_the_loss_and_the_gradients_of_one(processes: int, tmp_path: Path) -> None:
    meeting = str(tmp_path / "rendezvous")
    run_script("parallel_script", FASTMOS_RENDEZVOUS=meeting, FASTMOS_PROCESSES=str(processes))


def test_the_split_is_even_and_complete() -> None:
    assert split(11, 3) == [range(3), range(3, 7), range(7, 11)]
    assert [len(rows) for rows in split(131_072, 8)] == [16_384] * 8
    with pytest.raises(ValueError, match="vocab_size is 2 and there are 3 processes"):
        split(2, 3)
