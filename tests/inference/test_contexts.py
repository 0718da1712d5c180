"""The rows of the log-probability matrix: distributions, from which the likelihood of the text can be read."""

from pathlib import Path

import pytest
import torch

from fastmos.inference.contexts import log_prob_batches
from fastmos.inference.run import load


@pytest.mark.parametrize("name", ["run", "lm"])
def test_there_is_a_distribution_for_each_token(name: str, trained: Path) -> None:
    run = load(trained / name, "cpu")
    dataset = run.task.evaluation_data("test", None, None)
    rows = torch.cat(list(log_prob_batches(run, dataset)))
    assert rows.shape == (len(dataset.target.tokens) + len(dataset.target), len(run.target))
    torch.testing.assert_close(
        rows.double().exp().sum(1), torch.ones(len(rows), dtype=torch.float64), atol=1e-5, rtol=0
    )


def test_the_rows_of_a_line_hold_its_score(trained: Path) -> None:
    run = load(trained / "run", "cpu")
    dataset = run.task.evaluation_data("test", ["3 1 2"], ["1 2 3"])
    (rows,) = log_prob_batches(run, dataset)
    targets = [*run.target.encode("1 2 3"), run.target.eos]
    assert float(rows[range(4), targets].sum()) == pytest.approx(run.score(["3 1 2"], ["1 2 3"])[0], abs=1e-4)
