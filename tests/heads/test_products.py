"""Fast products: as exact as torch's own, held for the time of a product only, and never on where they round."""

import copy
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from fastmos.heads import products

SETTING = products._setting
needs_setting = pytest.mark.skipif(SETTING is None, reason="this torch cannot multiply by oneDNN")
FAST = products.Choice(own_gflops=100, own_error=1e-6, onednn_gflops=200, onednn_error=1e-6)
SLOW = products.Choice(own_gflops=100, own_error=1e-6, onednn_gflops=100, onednn_error=1e-6)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every product is one for oneDNN, whatever this machine has; records the setting under which torch multiplied."""
    monkeypatch.setattr(products, "_choice", FAST)
    monkeypatch.setattr(products, "_enabled", True)
    monkeypatch.setattr(products, "SMALLEST", 0)
    entered: list[str] = []

    class Recording(products._OneDNN):
        def __enter__(self) -> None:
            super().__enter__()
            entered.append(SETTING.fp32_precision)

    monkeypatch.setattr(products, "_onednn", Recording())
    yield entered
    assert SETTING.fp32_precision == "none"


def error(found: Tensor, truth: Tensor) -> float:
    return float((found.detach().double() - truth.detach()).abs().max() / truth.detach().abs().max())


def operands(n: int, d: int, vocab_size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(n, d), torch.randn(vocab_size, d), torch.randn(vocab_size), torch.randn(n, vocab_size)


@needs_setting
@pytest.mark.parametrize(("n", "d", "vocab_size"), [(5, 8, 40), (64, 96, 1001), (200, 256, 2000)])
def test_products_are_those_of_float64(fast: list[str], n: int, d: int, vocab_size: int) -> None:
    contexts, weight, bias, gradient = operands(n, d, vocab_size)
    exact, exact_weight, exact_gradient = contexts.double(), weight.double(), gradient.double()
    room = torch.full((n, vocab_size + 7), 3.0)

    assert error(products.mm(gradient, weight), exact_gradient @ exact_weight) < 1e-5
    products.logits(contexts, weight, bias, room[:, :vocab_size])
    assert error(room[:, :vocab_size], exact @ exact_weight.t() + bias.double()) < 1e-5
    products.logits(contexts, weight, None, room[:, :vocab_size])
    assert error(room[:, :vocab_size], exact @ exact_weight.t()) < 1e-5
    assert (room[:, vocab_size:] == 3).all()
    total = torch.ones(vocab_size, d)
    products.addmm_(total, gradient.t(), contexts)
    assert error(total, 1 + exact_gradient.t() @ exact) < 1e-5
    assert fast == ["bf16"] * 4


@needs_setting
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(6, 8), (2, 5, 8), (2, 3, 4, 8)])
def test_a_linear_layer_is_that_of_torch(fast: list[str], shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    mine, plain = products.Linear(8, 12, bias=bias), nn.Linear(8, 12, bias=bias).double()
    plain.load_state_dict(mine.state_dict())
    x, upstream = torch.randn(shape, requires_grad=True), torch.randn(*shape[:-1], 12)
    exact = x.detach().double().requires_grad_()
    found, truth = mine(x), plain(exact)
    assert error(found, truth) < 1e-6
    found.backward(upstream)
    truth.backward(upstream.double())
    assert x.grad is not None and exact.grad is not None
    assert error(x.grad, exact.grad) < 1e-6
    for one, other in zip(mine.parameters(), plain.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None
        assert error(one.grad, other.grad) < 1e-6
    with torch.no_grad():
        assert torch.equal(mine(x), found)
    assert fast == ["bf16"] * 3  # forward, backward, and forward without gradients


@needs_setting
def test_a_linear_layer_gives_the_gradients_asked_for_and_second_derivatives(fast: list[str]) -> None:
    x, weight, bias, _ = operands(5, 8, 12)
    weight.requires_grad_()
    (d_weight,) = torch.autograd.grad(products.linear(x, weight, bias).sum(), [weight])
    assert error(d_weight, x.double().sum(0).expand(12, 8)) < 1e-6
    x, weight = x[:, :4].clone().requires_grad_(), weight[:, :4].detach().requires_grad_()

    def curved(linear: Callable[[Tensor, Tensor], Tensor]) -> list[Tensor]:
        first = torch.autograd.grad(linear(x, weight).pow(3).sum(), [x, weight], create_graph=True)
        return list(torch.autograd.grad(sum(one.square().sum() for one in first), [x, weight]))  # type: ignore[arg-type]

    for mine, plain in zip(curved(products.linear), curved(F.linear), strict=True):
        assert error(mine, plain.double()) < 1e-5
    rows = torch.func.vmap(products.linear, (0, None))(x.detach().view(5, 1, 4).expand(5, 4, 4), weight.detach())
    assert error(rows[:, 0], x.double() @ weight.double().t()) < 1e-5


@needs_setting
@pytest.mark.parametrize("frozen", [False, True])
def test_both_passes_of_a_packed_lstm(fast: list[str], frozen: bool) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(6, 5, bidirectional=True)
    lstm.weight_hh_l0.requires_grad_(not frozen)
    packed = pack_padded_sequence(torch.randn(7, 4, 6), torch.tensor([7, 5, 5, 2]))

    def read(tokens: Tensor) -> tuple[Tensor, ...]:
        outputs, final = layer(packed._replace(data=tokens))
        return outputs.data, *final

    def gradients(made: tuple[Tensor, ...], tokens: Tensor) -> list[Tensor]:
        learned = [one for one in layer.parameters() if one.requires_grad]
        return list(torch.autograd.grad(sum(one.sin().sum() for one in made[:2]), [tokens, *learned]))  # type: ignore[arg-type]

    layer, tokens = lstm, packed.data.clone().requires_grad_()
    made = products.both_passes(read, [tokens], list(layer.parameters()), rows=4)
    assert fast == ["bf16"]
    found = [*made, *gradients(made, tokens)]
    assert fast == ["bf16", "bf16"]
    with torch.no_grad():
        assert torch.equal(products.both_passes(read, [tokens], list(layer.parameters()), rows=4)[0], made[0])
    layer, tokens = copy.deepcopy(lstm).double(), packed.data.double().requires_grad_()
    made = products.both_passes(read, [tokens], list(layer.parameters()), rows=4)
    assert len(fast) == 3
    for mine, exact in zip(found, [*made, *gradients(made, tokens)], strict=True):
        assert error(mine, exact) < 1e-5


@needs_setting
def test_left_to_torch(fast: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, bias, _ = operands(8, 16, 32)
    products.linear(x.double(), weight.double(), bias.double())
    products.linear(x.bfloat16(), weight.bfloat16(), bias.bfloat16())
    products.linear(x.to("meta"), weight.to("meta"), bias.to("meta"))
    products.linear(x[:3], weight, bias)  # so few rows are no product
    products.linear(x[:0], weight, bias)
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(x, weight, bias).dtype == torch.bfloat16
    assert torch.compile(products.linear, backend="eager", fullgraph=True)(x, weight, bias).shape == (8, 32)
    products.set_fast_products(False)
    products.linear(x, weight, bias)
    assert products.describe() == "torch's own (fast products are turned off)"
    products.set_fast_products(True)
    monkeypatch.setattr(products, "SMALLEST", 8 * 16 * 32 + 1)
    products.linear(x, weight, bias)
    monkeypatch.setattr(products, "_choice", SLOW)
    monkeypatch.setattr(products, "SMALLEST", 0)
    products.linear(x, weight, bias)
    assert fast == []
    monkeypatch.setattr(products, "_choice", FAST)
    products.linear(x, weight, bias)
    assert fast == ["bf16"]


@needs_setting
def test_the_setting_of_the_user_comes_back() -> None:
    onednn = products._OneDNN()
    SETTING.fp32_precision = "ieee"
    try:
        with pytest.raises(ZeroDivisionError), onednn:
            assert SETTING.fp32_precision == "bf16"
            raise ZeroDivisionError
        assert SETTING.fp32_precision == "ieee"
    finally:
        SETTING.fp32_precision = "none"


@needs_setting
def test_the_setting_is_held_until_the_last_thread_is_done() -> None:
    onednn, inside, leave = products._OneDNN(), threading.Event(), threading.Event()

    def other() -> None:
        with onednn:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with onednn:
        pass
    assert SETTING.fp32_precision == "bf16"  # the other thread still multiplies
    leave.set()
    thread.join()
    assert SETTING.fp32_precision == "none"


@pytest.mark.parametrize(
    ("gflops", "error", "fast", "says"),
    [
        (200, 2e-6, True, "oneDNN, 200 GFLOPS, error 2e-06 (torch's own: 100 GFLOPS, error 1e-06)"),
        (110, 1e-6, False, "torch's own, 100 GFLOPS, error 1e-06 (oneDNN: 110 GFLOPS, error 1e-06; no faster)"),
        (900, 1e-3, False, "torch's own, 100 GFLOPS, error 1e-06 (oneDNN: 900 GFLOPS, error 1e-03; less exact)"),
        (0, 0, False, "torch's own, 100 GFLOPS, error 1e-06 (oneDNN is not there)"),
    ],
)
def test_chosen_where_faster_and_as_exact(gflops: float, error: float, fast: bool, says: str) -> None:
    choice = products.Choice(100, 1e-6, gflops, error)
    assert (choice.fast, str(choice)) == (fast, says)


@needs_setting
@pytest.mark.parametrize("digits", [torch.bfloat16, torch.float16], ids=["bfloat16", "as few digits as tf32"])
def test_kernels_that_round_are_refused(monkeypatch: pytest.MonkeyPatch, digits: torch.dtype) -> None:
    """As where the processor has AMX: under the setting, operands are rounded."""
    multiply = torch.mm

    def rounding(a: Tensor, b: Tensor) -> Tensor:
        if SETTING.fp32_precision == "bf16":
            a, b = a.to(digits).to(a.dtype), b.to(digits).to(b.dtype)
        return multiply(a, b)

    monkeypatch.setattr(torch, "mm", rounding)
    found = products._measure(rounds=1)
    assert not found.exact and not found.fast
    monkeypatch.setattr(torch, "mm", multiply)
    assert products._measure(rounds=1).own_error < 1e-5


def test_chosen_once_by_threads_that_start_together(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[products.Choice] = []
    together = threading.Barrier(4)
    measure = products._measure

    def counted() -> products.Choice:
        measured.append(measure(rounds=1))
        return measured[-1]

    def choose() -> None:
        together.wait(10)
        products.choice()

    monkeypatch.setattr(products, "_choice", None)
    monkeypatch.setattr(products, "_measure", counted)
    threads = [threading.Thread(target=choose) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(measured) == 1 and products.choice() is measured[0]


def test_measuring_leaves_random_numbers_alone_and_stays_on_the_cpu() -> None:
    before = torch.get_rng_state()
    with torch.device("meta"):  # where tensors are made on another device by default
        assert products._measure(rounds=1).own_gflops > 0
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("value", "off"), [("0", True), ("1", False)])
def test_the_switch_in_the_environment(value: str, off: bool) -> None:
    program = "from fastmos.heads import products; print(products.describe())"
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FASTMOS_FAST_PRODUCTS": value},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert ("turned off" in said) == off


def test_waiting_for_other_processes_does_not_count_in_the_choice() -> None:
    """A loaded scheduler can make every round of one kernel look slow, and the process would keep the wrong one."""

    def work() -> None:
        torch.mm(torch.ones(64, 64), torch.ones(64, 64))

    def wait_and_work() -> None:
        time.sleep(0.02)
        work()

    alone, interrupted = products._gflops([work, wait_and_work], 2 * 64**3, rounds=3)
    assert min(alone, interrupted) > 2 * 64**3 / 0.02 / 1e9  # faster than the wait alone would allow


@needs_setting
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_ever_new_sizes_take_no_more_memory() -> None:
    """Beside a process whose caches are as large as oneDNN makes them."""
    script = """
from pathlib import Path
import torch
from fastmos.heads import products

def megabytes():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024

def multiply(rows):
    x = torch.randn(rows, 128)
    y = products.mm(x, weight.t())
    products.mm(y, weight)
    products.addmm_(total, y.t(), x)

torch.set_num_threads(1)
products._choice = products.Choice(1.0, 1e-6, 2.0, 1e-6)  # oneDNN, whatever the machine
weight, total = torch.randn(512, 128), torch.zeros(512, 128)
for rows in range(100, 200):
    multiply(rows)
    before = megabytes()
for rows in range(200, 700):
    multiply(rows)
print(megabytes() - before)
"""
    grown = {}
    for kept in (None, "1024"):
        caches = {} if kept is None else {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": kept, "LRU_CACHE_CAPACITY": kept}
        inherited = {name: value for name, value in os.environ.items() if not name.endswith("CACHE_CAPACITY")}
        done = subprocess.run(
            [sys.executable, "-c", script], env=inherited | caches, capture_output=True, text=True, check=True
        )
        grown[kept] = float(done.stdout)
    assert grown["1024"] > 100  # or else nothing is tested here
    assert grown[None] < grown["1024"] / 3
