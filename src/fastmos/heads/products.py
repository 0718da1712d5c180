"""Matrix products of float32 on a CPU, by the fastest exact kernels of this very machine.

torch multiplies by MKL, which runs at half speed on processors of other makers than its own. torch also brings oneDNN,
and multiplies by it while `torch.backends.mkldnn.matmul.fp32_precision` is "bf16". That setting permits more than it
says: where a processor has AMX, operands are rounded to bfloat16; elsewhere the arithmetic is that of float32. So the
first product of a process measures both kernels, and oneDNN is taken only where it is faster *and* as exact.

The setting is global, and other operations suffer from it (the backward pass of attention takes ten times as long), so
it is held for the time of a product only; other threads meet it in that time, too. Small products, other dtypes, other
devices, autocast and compiled code are left to torch.

oneDNN prepares a product for its very sizes, which takes half a megabyte to one, and keeps the last 1,024 of them, in
two caches. Text comes in ever new sizes, so a training process grew by gigabytes. Fewer are kept here, unless the
environment says how many; that costs no measurable time.

`FASTMOS_FAST_PRODUCTS=0` in the environment, or
`set_fast_products(False)`, leaves everything to torch.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.autograd.graph import saved_tensors_hooks

SMALLEST_PACKED = 2**14  # numbers of a weight that is worth a layout of its own
SMALLEST = 2**20  # multiplications of a product that oneDNN is asked for; it takes 10 us to get going
FASTER = 1.25  # by how much oneDNN must be faster, so that noise does not decide between equals
PLAIN = (Tensor, nn.Parameter)  # tensors of other classes have products of their own
KEPT = 128  # prepared products that oneDNN and torch's own cache of them may each keep; a deep network has some hundred
EXACT = 4.0  # by how much its error may be larger: other orders of summation stay below, tf32 is far above


def mm(a: Tensor, b: Tensor) -> Tensor:
    """`torch.mm`: a [n, m] times b [m, p]."""
    if not _is_fast(a, b, a.shape[0]):
        return torch.mm(a, b)
    with _onednn:
        return torch.mm(a, b)


def addmm_(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`total.addmm_(a, b)`: total [n, p] plus a [n, m] times b [m, p]."""
    if not _is_fast(a, b, a.shape[0]):
        return total.addmm_(a, b)
    with _onednn:
        return total.addmm_(a, b)


def logits(contexts: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """`out` [n, V], perhaps a view, filled with contexts [n, d] times weight [V, d] transposed, plus bias [V]."""
    fast = _is_fast(contexts, weight, contexts.shape[0])
    if not fast and bias is not None:
        return torch.addmm(bias, contexts, weight.t(), out=out)
    if not fast:
        return torch.mm(contexts, weight.t(), out=out)
    with _onednn:
        torch.mm(contexts, weight.t(), out=out)
    return out if bias is None else out.add_(bias)  # `addmm` with a bias takes oneDNN a fifth longer


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`, with fast products in its backward pass as well."""
    if not _is_fast(x, weight, x.numel() // max(1, x.shape[-1])):
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled():
        return _Linear.apply(x, weight, bias)  # type: ignore[no-any-return,no-untyped-call]
    with _onednn:
        return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """`nn.Linear` by fast products: same parameters, same start, same state dict."""

    packed: "PackedProduct | None" = None  # of a copy for inference (`fastmos.heads.packed`)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias) if self.packed is None else self.packed(input)

    def pack_(self, int8: bool) -> None:
        """Multiply by the weights of now, laid out for their kernel."""
        if self.weight.numel() >= SMALLEST_PACKED:
            self.packed = PackedProduct(self.weight, self.bias, int8)


class PackedProduct:
    """x [..., d] -> x W^T + b [..., V] without gradients, for a weight that stays: laid out for its kernel once.

    For the few rows of a search that layout matters most. In float32 the numbers are those of `linear`, to rounding.
    With int8, each row of W and of x is rounded to 8 bits on a scale of its own.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, int8: bool = False) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.scale: Tensor | None = None
        with torch.inference_mode():
            if int8:
                # Without VNNI sums of two products saturate at 16 bits, so inputs have 7.
                self.levels = 127 if torch.cpu._is_vnni_supported() else 63
                self.scale = self.weight.abs().amax(1).clamp_(min=1e-30).div_(127)  # [V]
                self.zeros = torch.zeros_like(self.scale, dtype=torch.long)
                rounded = (self.weight / self.scale[:, None]).round_().to(torch.int8)
                self.weight = torch.ops.onednn.qlinear_prepack(rounded, None)
                self.scale = self.scale / self.levels  # of a row's largest number, not of its levels
            elif can_pack() and choice().fast:
                self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous(), None)

    def __call__(self, x: Tensor) -> Tensor:
        if self.scale is not None:
            return self._int8(x)
        if self.weight.is_mkldnn:
            return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")  # type: ignore[no-any-return]
        return F.linear(x, self.weight, self.bias)

    def _int8(self, x: Tensor) -> Tensor:
        """A scale for each row, so that what a row gives does not depend on the others."""
        largest = x.abs().amax(-1, keepdim=True).clamp_(min=1e-30)  # a row of zeros stays one
        rounded = (x * (self.levels / largest)).add_(self.levels + 1.5).short().byte()  # at once takes twice as long
        weight = self.weight, self.scale, self.zeros
        product = torch.ops.onednn.qlinear_pointwise(
            *(rounded, 1.0, self.levels + 1, *weight, None, 1.0, 0, torch.float32, "none", [], "")
        )
        if self.bias is None:
            return product.mul_(largest)  # type: ignore[no-any-return]
        return torch.addcmul(self.bias, product, largest, out=product)


def can_pack() -> bool:
    """Does this torch have the kernels of packed weights?"""
    there: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return there and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


class _Linear(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        with _onednn:
            return F.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        rows = upstream.reshape(-1, upstream.shape[-1])  # [n, V]
        with _onednn:
            d_x = torch.mm(rows, weight).view(x.shape) if needs_x else None
            d_weight = torch.mm(rows.t(), x.reshape(-1, x.shape[-1])) if needs_weight else None
        return d_x, d_weight, rows.sum(0) if needs_bias else None


def both_passes(
    function: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor], parameters: Sequence[Tensor], rows: int
) -> tuple[Tensor, ...]:
    """`function(*inputs)`, which uses `parameters` and multiplies `rows` rows at a time, by fast products throughout.

    For layers whose products are out of reach, such as an `nn.LSTM` on a packed sequence. One backward pass only.
    """
    if not _is_fast(inputs[0], max(parameters, key=Tensor.numel), rows):
        return function(*inputs)
    if torch.is_grad_enabled():
        return _BothPasses.apply(function, len(inputs), *inputs, *parameters)  # type: ignore[no-any-return,no-untyped-call]
    with _onednn:
        return function(*inputs)


class _BothPasses(torch.autograd.Function):
    """The function's own graph, kept inside one node of the graph outside, and walked back by oneDNN too."""

    @staticmethod
    def forward(
        ctx: Any, function: Callable[..., tuple[Tensor, ...]], count: int, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        needs = ctx.needs_input_grad[2:]
        inputs = [tensor.detach().requires_grad_(need) for tensor, need in zip(tensors[:count], needs, strict=False)]
        with torch.enable_grad(), saved_tensors_hooks(_as_is, _as_is), _onednn:
            ctx.outputs = function(*inputs)
        ctx.wanted = [one if need else None for one, need in zip([*inputs, *tensors[count:]], needs, strict=True)]
        return tuple(output.detach() for output in ctx.outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        wanted = [one for one in ctx.wanted if one is not None]
        with _onednn:
            found = iter(torch.autograd.grad(ctx.outputs, wanted, upstream, allow_unused=True))
        return None, None, *(None if one is None else next(found) for one in ctx.wanted)


def _as_is(tensor: Tensor) -> Tensor:
    return tensor


class _OneDNN:
    """torch multiplies by oneDNN while any thread is inside."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, "none"

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.before = _setting.fp32_precision
                _setting.fp32_precision = "bf16"
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                _setting.fp32_precision = self.before


@dataclass(frozen=True)
class Choice:
    """What was measured of torch's own kernels and of oneDNN's."""

    own_gflops: float
    own_error: float  # largest, relative to the largest number of the product by float64
    onednn_gflops: float = 0.0
    onednn_error: float = 0.0

    @property
    def exact(self) -> bool:
        return self.onednn_error <= EXACT * self.own_error

    @property
    def fast(self) -> bool:
        return self.exact and self.onednn_gflops >= FASTER * self.own_gflops

    def __str__(self) -> str:
        own = f"{self.own_gflops:.0f} GFLOPS, error {self.own_error:.0e}"
        onednn = f"{self.onednn_gflops:.0f} GFLOPS, error {self.onednn_error:.0e}"
        if self.fast:
            return f"oneDNN, {onednn} (torch's own: {own})"
        if self.onednn_gflops == 0:
            return f"torch's own, {own} (oneDNN is not there)"
        return f"torch's own, {own} (oneDNN: {onednn}; {'no faster' if self.exact else 'less exact'})"


_setting: Any = getattr(torch.backends.mkldnn, "matmul", None)  # None before torch 2.9
_onednn = _OneDNN()
_choosing = threading.Lock()
_choice: Choice | None = None
_enabled = os.environ.get("FASTMOS_FAST_PRODUCTS", "1") != "0"


def set_fast_products(enabled: bool) -> bool:
    """Turn fast products on (as they are from the start) or off, for all threads; gives what was before."""
    global _enabled
    before, _enabled = _enabled, enabled
    return before


def describe() -> str:
    """One line on the kernels that multiply float32 on this CPU."""
    return str(choice()) if _enabled else "torch's own (fast products are turned off)"


def choice() -> Choice:
    """What the first call of the process measured, which takes a twentieth of a second."""
    global _choice
    if _choice is None:
        with _choosing:
            if _choice is None:
                with torch.no_grad(), torch.autocast("cpu", enabled=False):
                    _choice = _measure()
    return _choice


def _is_fast(a: Tensor, b: Tensor, rows: int) -> bool:
    """Is the product of `rows` rows of a, as wide as one side of b, one for oneDNN?"""
    return (
        _enabled
        and not torch.compiler.is_compiling()  # first, or the sizes of a compiled graph would be bound
        and a.is_cpu
        and a.dtype == b.dtype == torch.float32
        and rows * b.numel() >= SMALLEST
        and min(rows, *b.shape) >= 4
        and not torch.is_autocast_enabled("cpu")
        and type(a) in PLAIN
        and type(b) in PLAIN
        and choice().fast
    )


for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # read at the first product of the process
    os.environ.setdefault(_name, str(KEPT))


def _measure(rounds: int = 6) -> Choice:
    """Multiply as a linear layer does, forward and backward, by both kernels in turn; the best round counts."""
    n, d, V = 192, 256, 1000  # of no block size of any kernel, and small enough for the caches
    a, b, c = _numbers(n, d), _numbers(V, d), _numbers(n, V)
    pairs = [(a, b.t()), (c, b), (c.t(), a)]
    truths = [torch.mm(left.double(), right.double()) for left, right in pairs]

    def multiply() -> list[Tensor]:
        return [torch.mm(left, right) for left, right in pairs]

    def multiply_by_onednn() -> list[Tensor]:
        with _onednn:
            return multiply()

    own_error = _error(multiply(), truths)
    if _setting is None:
        return Choice(_gflops([multiply], 6 * n * d * V, rounds)[0], own_error)
    own, onednn = _gflops([multiply, multiply_by_onednn], 6 * n * d * V, rounds)
    return Choice(own, own_error, onednn, _error(multiply_by_onednn(), truths))


def _numbers(rows: int, columns: int) -> Tensor:
    """Numbers in [-1, 1] whose digits are as good as random; the generators of random numbers stay as they are."""
    places = torch.arange(1, rows * columns + 1, dtype=torch.float64, device="cpu")
    return places.square().sin().float().view(rows, columns)


def _error(products: list[Tensor], truths: list[Tensor]) -> float:
    return max(
        float((product.double() - truth).abs().max() / truth.abs().max())
        for product, truth in zip(products, truths, strict=True)
    )


def _gflops(contenders: list[Callable[[], object]], operations: int, rounds: int) -> list[float]:
    """The best of some rounds each, on the clock of this thread, which stands still while another process runs."""
    fine = time.get_clock_info("thread_time").resolution < 1e-6
    clock = time.thread_time if fine else time.perf_counter
    best = [float("inf")] * len(contenders)
    for contender in contenders:
        contender()
    for _ in range(rounds):
        for index, contender in enumerate(contenders):
            start = clock()
            contender()
            best[index] = min(best[index], clock() - start)
    return [operations / seconds / 1e9 for seconds in best]
