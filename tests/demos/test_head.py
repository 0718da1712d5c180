"""The demonstration of the head, in small: only the mixture of softmaxes fits, and escapes the rank of one softmax."""

import pytest

from fastmos.demos import head as head_demo
from fastmos.demos.head import BATCH, EMBEDDING, draw_task, fit


def test_the_mixture_of_softmaxes_fits_what_the_others_cannot() -> None:
    task = draw_task(vocab_size=80, tokens=500 * BATCH, tests=500, seed=2)
    found = {kind: fit(kind, task, seed=2) for kind in head_demo.NAMES}
    excess = {kind: fitted.nll - task.entropy for kind, fitted in found.items()}
    assert 0 < excess["mos"] < 0.5 * min(excess["moc"], excess["softmax"])
    assert found["softmax"].rank <= EMBEDDING + 2
    assert found["moc"].rank <= EMBEDDING + 2
    assert found["mos"].rank > 4 * (EMBEDDING + 2)


def test_a_task_is_known_by_its_seed() -> None:
    first, again, other = (draw_task(vocab_size=50, tokens=BATCH, tests=10, seed=seed) for seed in (1, 1, 2))
    assert first.targets.equal(again.targets)
    assert first.test_log_probs.equal(again.test_log_probs)
    assert not first.targets.equal(other.targets)


def test_the_price_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(head_demo, "extra_memory", lambda prepare, *shape: int(prepare(*shape)() is None) * 5e6)
    head_demo.demo_price(8, 2, 4, 10)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines[-2:]] == ["5", "5"]
    assert [line.split()[0] for line in lines[-2:]] == ["plain", "fused"]
