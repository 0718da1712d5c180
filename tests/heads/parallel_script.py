"""A vocabulary-parallel head of some processes beside the head of one: loss, gradients, log-probabilities, messages.

Run by test_parallel.py; the processes meet in the file that FASTMOS_RENDEZVOUS names, FASTMOS_PROCESSES of them.
"""

import copy
import itertools
import os
import pickle
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from fastmos.heads import (
    Mixtape,
    MixtureOfContexts,
    MixtureOfSoftmaxes,
    SharedTailMixture,
    ShortlistMixture,
    Softmax,
    kernel,
)
from fastmos.heads.parallel import OWN, VocabularyParallelMixture, grad_norm

V, D, E, K, N = 11, 6, 5, 3, 9
MESSAGES: list[tuple[str, list[int]]] = []


def process(rank: int, size: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    plain_reduce = dist.all_reduce

    def counted(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        MESSAGES.append((str(tensor.dtype), list(tensor.shape)))
        return plain_reduce(tensor, *args, **kwargs)

    dist.all_reduce = counted
    losses: list[dict[str, Any]] = [
        {"reduction": "sum"},
        {"reduction": "none"},
        {"label_smoothing": 0.2, "z_loss": 0.1},
        {"z_loss": 0.1, "count_correct": True},
    ]
    for contexts, softcap, bias, settings in itertools.product(
        ("tanh", "residual"), (None, 2.0), (True, False), losses
    ):
        check(contexts, softcap, bias, settings)
    kernel.BUFFER_BYTES["cpu"] = 400  # chunks of one or two tokens, of another size where a process has more rows
    check("tanh", None, True, {})
    check("tanh", None, True, {"label_smoothing": 0.2})
    no_tokens()
    other_heads()
    pickled()
    clipped()
    messages(size)
    if size > 1:
        try:
            VocabularyParallelMixture(D, size - 1, K)
        except ValueError as error:
            assert "each needs a token" in str(error)
        else:
            raise AssertionError("too few tokens were not refused")
    dist.destroy_process_group()


def heads(contexts: Any, softcap: float | None, bias: bool) -> tuple[MixtureOfSoftmaxes, VocabularyParallelMixture]:
    torch.manual_seed(0)
    alone = MixtureOfSoftmaxes(D, V, K, contexts=contexts, embedding_size=E, softcap=softcap, bias=bias).double()
    for one in alone.parameters():
        torch.nn.init.normal_(one)
    return alone, VocabularyParallelMixture.of(alone)


def check(contexts: Any, softcap: float | None, bias: bool, settings: dict[str, Any]) -> None:
    alone, parallel = heads(contexts, softcap, bias)
    case = f"{contexts} {softcap} {bias} {settings}"
    torch.manual_seed(1)
    targets = torch.randint(V, (N,))
    targets[2] = -100
    hidden = torch.randn(N, D, dtype=torch.float64)
    inputs = [hidden.clone().requires_grad_(), hidden.clone().requires_grad_()]
    found, expected = parallel(inputs[0], targets, **settings), alone(inputs[1], targets, **settings)
    torch.testing.assert_close(found.loss, expected.loss, msg=case)
    torch.testing.assert_close(found.nll, expected.nll, msg=case)
    assert found.correct is None or int(found.correct) == int(expected.correct)
    upstream = torch.arange(1.0, N + 1).double() if settings.get("reduction") == "none" else torch.tensor(2.0).double()
    found.loss.backward(upstream)
    expected.loss.backward(upstream)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, msg=case)
    for name, one in parallel.named_parameters():
        right = alone.get_parameter(name).grad
        assert one.grad is not None and right is not None, name
        own = right[parallel.own.start : parallel.own.stop] if name in OWN else right
        torch.testing.assert_close(one.grad, own, msg=f"{case} {name}")
    with torch.no_grad():
        torch.testing.assert_close(parallel(hidden), alone(hidden), msg=case)
    for name, one in parallel.gather().named_parameters():
        assert torch.equal(one, alone.get_parameter(name)), name
    same = VocabularyParallelMixture(D, V, K)  # drawn: the same contexts everywhere, other rows
    seen = [torch.empty_like(same.latent.weight) for _ in range(dist.get_world_size())]
    dist.all_gather(seen, same.latent.weight.detach())
    assert all(torch.equal(one, seen[0]) for one in seen)
    with pytest.raises(NotImplementedError, match="gather\\(\\) it first"):
        same.component_log_probs(torch.randn(N, D))
    full = same.gather().weight
    assert len({tuple(row) for row in full.tolist()}) == V


def no_tokens() -> None:
    _, parallel = heads("tanh", None, True)
    hidden = torch.zeros(2, 0, D, dtype=torch.float64)
    assert parallel(hidden).shape == (2, 0, V)
    assert parallel(hidden).dtype == torch.float64
    assert parallel(hidden, torch.zeros(2, 0, dtype=torch.long), reduction="sum").loss.item() == 0


def other_heads() -> None:
    """What a head computes by other formulas is refused, not split as if it were a plain mixture."""
    others = [Softmax(D, V), Mixtape(D, V), MixtureOfContexts(D, V, K), ShortlistMixture(D, V, K, 4)]
    parallel = VocabularyParallelMixture(D, V, K)
    for other in [*others, SharedTailMixture(D, V, K, 4), parallel]:
        with pytest.raises(TypeError, match=f"head is a {type(other).__name__}; only a MixtureOfSoftmaxes"):
            VocabularyParallelMixture.of(other)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="has no entropy; make it of the log-probabilities"):
        parallel.entropy(torch.randn(N, D))
    alone = MixtureOfSoftmaxes(D, V, K, dropout=0.5).eval()
    assert not VocabularyParallelMixture.of(alone).training
    assert not VocabularyParallelMixture.of(alone).gather().training


def pickled() -> None:
    _, parallel = heads("residual", 2.0, True)
    again, hidden = pickle.loads(pickle.dumps(parallel)), torch.ones(N, D, dtype=torch.float64)
    assert torch.equal(again(hidden), parallel(hidden))


def clipped() -> None:
    """Behind a body, clipping by the norm of the whole model leaves the gradients of one process."""
    alone, parallel = heads("tanh", None, True)
    torch.manual_seed(1)
    hidden, targets = torch.randn(N, D, dtype=torch.float64), torch.randint(V, (N,))
    body = nn.Linear(D, D).double()
    models = [nn.ModuleList([copy.deepcopy(body), head]) for head in (parallel, alone)]
    for layer, head in models:
        head(layer(hidden), targets, reduction="sum").loss.backward()
    norm = grad_norm(models[0])
    expected = nn.utils.clip_grad_norm_(models[1].parameters(), 0.1)
    assert expected > 0.1
    torch.testing.assert_close(norm, expected)
    nn.utils.clip_grads_with_norm_(models[0].parameters(), 0.1, norm)
    for name, one in models[0].named_parameters():
        right = models[1].get_parameter(name).grad
        assert one.grad is not None and right is not None, name
        own = right[parallel.own.start : parallel.own.stop] if name in ("1.weight", "1.bias") else right
        torch.testing.assert_close(one.grad, own, msg=name)
    torch.testing.assert_close(grad_norm(models[0]).item(), 0.1, atol=1e-6, rtol=0)


def messages(size: int) -> None:
    """Of one chunk: the largest logits, the sums and the targets' logits, the gradients by the contexts."""
    kernel.BUFFER_BYTES["cpu"] = 2**24
    _, parallel = heads("tanh", None, True)
    torch.manual_seed(1)
    MESSAGES.clear()
    parallel(torch.randn(N, D).double().requires_grad_(), torch.randint(V, (N,))).loss.backward()
    assert [shape for _, shape in MESSAGES] == [[N * K], [2, N * K], [N, K, E]], MESSAGES
    MESSAGES.clear()
    with torch.no_grad():
        parallel(torch.randn(N, D).double(), torch.randint(V, (N,)))
    assert [shape for _, shape in MESSAGES] == [[N * K], [2, N * K]], MESSAGES


if __name__ == "__main__":
    count = int(os.environ["FASTMOS_PROCESSES"])
    mp.start_processes(process, (count, os.environ["FASTMOS_RENDEZVOUS"]), nprocs=count, start_method="fork")  # type: ignore
