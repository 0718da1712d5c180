"""`fastmos bench head`: the loss beside the formulas in use, in time (interleaved) and memory (a process for each).

All contenders compute loss and gradients of N tokens with K components, embedding size d and vocabulary size V, on one
thread, and are timed by its clock, so that other work on the machine counts little. The floor is what none of them can
avoid: three matrix products a component, at the best speed that this machine has for float32, with the chunks of the
fused loss. Plain formulas allocate much, so they are also timed where malloc keeps its pages. A
second table compares whole heads, which are different models, with one softmax: from hidden states, with targets as
frequent as words, each with the shortlist that costs least.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.bench import models
from fastmos.bench.models import draw_words, print_rows, rows_of, timed, zipf
from fastmos.files import write_json
from fastmos.heads import Head, LossOptions, MixtureOfSoftmaxes, SharedTailMixture, mixture_nll, products
from fastmos.heads.kernel import chunk_tokens, row_stride, slices
from fastmos.measure import Timing, extra_memory, with_pages_kept
from fastmos.progress import progress
from fastmos.provenance import provenance

SEED = 0
ROUNDS = {"full": 5, "quick": 3}


class Shape(NamedTuple):
    """Tokens, components, embedding size and vocabulary size."""

    N: int
    K: int
    d: int
    V: int


SHAPES = {
    "full": [
        Shape(1024, 9, 256, 10_000),
        Shape(1024, 3, 256, 30_000),
        Shape(1024, 1, 256, 30_000),
        Shape(1024, 9, 512, 32_000),
        Shape(1024, 9, 512, 3_000),
    ],
    "quick": [Shape(64, 9, 256, 10_000), Shape(128, 1, 256, 30_000)],
}
VOCABULARIES = {"full": [(1024, 256, 10_000), (1024, 256, 30_000)], "quick": [(256, 256, 10_000)]}  # N, d, V of heads
HEADS: dict[str, Callable[[int, Tensor], Head]] = {
    **models.HEADS,
    "shared tail, K = 4": lambda width, counts: SharedTailMixture(width, len(counts), 4, len(counts) // 10),
}
TOKENS = {"full": [1024, 4096, 16384], "quick": [64, 256]}  # memory over these, other sizes as in the first shape

FLOOR, FUSED, PUBLIC = "three GEMMs (floor)", "mixture_nll", "zihangdai/mos formula"
ABOUT = {
    FLOOR: "three bare matrix products a component, same chunks, by the fastest kernels",
    FUSED: "given contexts and log-prior",
    "mixture_nll, smoothed": "the same with label_smoothing=0.1",
    "module": "MixtureOfSoftmaxes from hidden states, contexts made inside the loss",
    "module, contexts kept": "the same, but contexts of all tokens live: what folding them in costs",
    PUBLIC: "softmax, mix, add 1e-8, log, nll_loss",
    "log-space formula": "log_softmax, add log-prior, logsumexp, nll_loss",
    "linear_cross_entropy": "of torch, chunked, with its default options; one softmax only, so K = 1 (it cannot mix)",
    "adaptive softmax": "nn.AdaptiveLogSoftmaxWithLoss on one context a token: another model, for scale",
}
PAGES_KEPT = (FLOOR, FUSED, PUBLIC, "log-space formula", "linear_cross_entropy")  # timed in that way as well


@dataclass
class Case:
    """What the contenders of one shape work on."""

    shape: Shape
    head: MixtureOfSoftmaxes
    adaptive: nn.AdaptiveLogSoftmaxWithLoss
    hidden: Tensor  # [N, d]
    contexts: Tensor  # [N, K, d]
    log_prior: Tensor  # [N, K]
    targets: Tensor  # [N]

    def tensors(self) -> list[Tensor]:
        """Everything that gets a gradient."""
        return [self.hidden, self.contexts, self.log_prior, *self.head.parameters(), *self.adaptive.parameters()]


def make_case(shape: Shape) -> Case:
    torch.manual_seed(SEED)
    head = MixtureOfSoftmaxes(shape.d, shape.V, shape.K)
    hidden = torch.randn(shape.N, shape.d)
    with torch.no_grad():
        contexts, log_prior = head.parts(hidden)
    return Case(
        shape,
        head,
        nn.AdaptiveLogSoftmaxWithLoss(shape.d, shape.V, [shape.V // 10, shape.V // 3]),
        hidden.requires_grad_(),
        contexts.requires_grad_(),
        log_prior.requires_grad_(),
        torch.randint(shape.V, (shape.N,)),
    )


def losses(case: Case) -> dict[str, Callable[[], Tensor]]:
    """The loss of every contender but the floor, which has none."""
    head, given, targets = case.head, (case.contexts, case.log_prior), case.targets
    every: dict[str, Callable[[], Tensor]] = {
        FUSED: lambda: mixture_nll(*given, head.weight, head.bias, targets).loss,
        "mixture_nll, smoothed": lambda: (
            mixture_nll(*given, head.weight, head.bias, targets, LossOptions(label_smoothing=0.1)).loss
        ),
        "module": lambda: head(case.hidden, targets).loss,
        "module, contexts kept": lambda: mixture_nll(*head.parts(case.hidden), head.weight, head.bias, targets).loss,
        PUBLIC: lambda: public_formula(*given, head.weight, head.bias, targets),
        "log-space formula": lambda: log_space_formula(case),
        "adaptive softmax": lambda: case.adaptive(case.contexts[:, 0], targets).loss,
    }
    if case.shape.K == 1 and hasattr(F, "linear_cross_entropy"):
        every["linear_cross_entropy"] = lambda: linear_cross_entropy(case)
    return every


def public_formula(
    contexts: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, ignore_index: int = -100
) -> Tensor:
    """As the public code mixes (Yang et al. 2018): probabilities [N, K, V] of everything at once."""
    each = F.softmax(F.linear(contexts, weight, bias), -1)  # [N, K, V]
    mixture = (each * log_prior.exp()[:, :, None]).sum(1)
    return F.nll_loss(torch.log(mixture.add_(1e-8)), targets, ignore_index=ignore_index)


def log_space_formula(case: Case) -> Tensor:
    each = F.log_softmax(F.linear(case.contexts, case.head.weight, case.head.bias), -1)  # [N, K, V]
    return F.nll_loss(torch.logsumexp(each + case.log_prior[:, :, None], 1), case.targets)


def linear_cross_entropy(case: Case) -> Tensor:
    loss: Tensor = F.linear_cross_entropy(
        case.contexts[:, 0],
        case.head.weight,
        case.targets,
        linear_bias=case.head.bias,
        options=torch.nn.LinearCrossEntropyOptions(),
    )
    return loss


def make_floor(case: Case) -> Callable[[], object]:
    """Three matrix products a component and chunk, and nothing else; the buffer is made once."""
    shape, weight = case.shape, case.head.weight.detach()
    most = min(shape.N, chunk_tokens(weight, shape.K, 1))
    buffer = torch.full((most * shape.K, row_stride(shape.V)), 1e-3)
    contexts, d_weight = case.contexts.detach(), torch.zeros_like(weight)

    def floor() -> None:
        for chunk in slices(shape.N, most):
            rows = contexts[chunk].flatten(0, 1)
            logits = buffer[: len(rows), : shape.V]
            products.logits(rows, weight, None, logits)
            products.mm(logits, weight)
            products.addmm_(d_weight, logits.t(), rows)

    return floor


def steps(case: Case) -> dict[str, Callable[[], object]]:
    """Forward and backward of every contender, from gradients that do not exist yet."""

    def step(loss: Callable[[], Tensor]) -> Callable[[], object]:
        def run() -> None:
            for one in case.tensors():
                one.grad = None
            torch.autograd.backward(loss())

        return run

    return {FLOOR: make_floor(case), **{name: step(loss) for name, loss in losses(case).items()}}


def prepare_memory(name: str, shape: Shape) -> Callable[[], object]:
    """One step for `extra_memory`: gradients are there already, and token is loaded by a small step before."""
    torch.set_num_threads(1)
    small = make_case(shape._replace(N=2, V=50))
    torch.autograd.backward(losses(small)[name]())
    case = make_case(shape)
    for one in case.tensors():
        one.grad = torch.zeros_like(one)
    loss = losses(case)[name]
    return lambda: torch.autograd.backward(loss())


def run(quick: bool = False, output: Path | None = None) -> dict[str, Any]:
    """Measure, print the tables, and write JSON and a plot where `output` says so."""
    size = "quick" if quick else "full"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        record: dict[str, Any] = {"provenance": provenance(SEED), "rounds": ROUNDS[size], "contenders": ABOUT}
        record["shapes"] = [
            measure_shape(shape, ROUNDS[size], quick) for shape in progress(SHAPES[size], "shapes", len(SHAPES[size]))
        ]
        record["heads"] = [measure_heads(*sizes, rounds=2 * ROUNDS[size]) for sizes in VOCABULARIES[size]]
        names = [FUSED] if quick else [FUSED, "module"]
        record["memory"] = measure_tokens(SHAPES[size][0], TOKENS[size], names)
    finally:
        torch.set_num_threads(threads)
    for one in record["shapes"]:
        print_shape(one)
    print("\npages kept: x floor where malloc keeps what is freed, so that large blocks cost no page faults")
    for one in record["heads"]:
        print_rows("heads, N = {N:,}, d = {d}, V = {V:,}".format(**one["shape"]), one["rows"])
    print_tokens(record["memory"])
    if output is not None:
        write_json(output, record)
        draw(record, output.with_suffix(".png"))
        print(f"written: {output} and {output.with_suffix('.png')}")
    return record


def measure_shape(shape: Shape, rounds: int, quick: bool) -> dict[str, Any]:
    """Times of all contenders, and their memory (in a quick run of those that matter most, with many components)."""
    timings = timed(steps(make_case(shape)), rounds)
    kept = with_pages_kept(time_pages_kept, shape, rounds)
    measured = [name for name in timings if name != FLOOR]
    if quick:
        measured = [FUSED, PUBLIC] if shape.K > 1 else []
    memory = {name: extra_memory(prepare_memory, name, shape) for name in progress(measured, f"memory at {shape}")}
    return {"shape": shape._asdict(), "rows": [row(name, timings, kept, memory.get(name)) for name in timings]}


def measure_heads(tokens: int, width: int, vocab_size: int, rounds: int) -> dict[str, Any]:
    """Forward and backward of every head, as multiples of one softmax."""
    torch.manual_seed(SEED)
    hidden, targets = torch.randn(tokens, width, requires_grad=True), draw_words((tokens,), vocab_size)

    def step(head: Head) -> Callable[[], object]:
        def run() -> None:
            for one in (hidden, *head.parameters()):
                one.grad = None
            head(hidden, targets).loss.backward()

        return run

    timings = timed({name: step(make(width, zipf(vocab_size))) for name, make in HEADS.items()}, rounds)
    return {"shape": {"N": tokens, "d": width, "V": vocab_size}, "rows": rows_of(timings)}


def time_pages_kept(shape: Shape, rounds: int) -> dict[str, Timing]:
    """Times of some contenders, for a process whose malloc keeps its pages."""
    torch.set_num_threads(1)
    return timed({name: step for name, step in steps(make_case(shape)).items() if name in PAGES_KEPT}, rounds)


def row(name: str, timings: dict[str, Timing], kept: dict[str, Timing], memory: int | None) -> dict[str, Any]:
    timing = timings[name]
    return {
        "name": name,
        "seconds": timing.seconds,
        "median": timing.median,
        "spread": timing.spread,
        "ratio": timing.ratio(timings[FLOOR]),
        "ratio_pages_kept": kept[name].ratio(kept[FLOOR]) if name in kept else None,
        "memory": memory,
    }


def measure_tokens(shape: Shape, tokens: list[int], names: list[str]) -> dict[str, Any]:
    """Extra memory as the number of tokens grows."""
    series: dict[str, list[int]] = {name: [] for name in names}
    for name, count in progress([(name, count) for name in names for count in tokens], "memory over tokens"):
        series[name].append(extra_memory(prepare_memory, name, shape._replace(N=count)))
    return {"shape": shape._asdict(), "tokens": tokens, "series": series}


def print_shape(record: dict[str, Any]) -> None:
    sizes = ", ".join(f"{name} = {size:,}" for name, size in record["shape"].items())
    print(f"\n{sizes}\n{'':26}{'seconds':>9}{'spread':>9}{'x floor':>9}{'pages kept':>12}{'extra MB':>10}")
    for one in record["rows"]:
        kept = "" if one["ratio_pages_kept"] is None else f"{one['ratio_pages_kept']:.2f}"
        memory = "" if one["memory"] is None else f"{one['memory'] / 1e6:,.0f}"
        print(f"{one['name']:26}{one['median']:9.3f}{one['spread']:9.3f}{one['ratio']:9.2f}{kept:>12}{memory:>10}")


def print_tokens(record: dict[str, Any]) -> None:
    shape = record["shape"]
    print(f"\nextra MB over tokens, K = {shape['K']}, d = {shape['d']}, V = {shape['V']:,}")
    print(f"{'':26}" + "".join(f"{count:>10,}" for count in record["tokens"]))
    for name, series in record["series"].items():
        print(f"{name:26}" + "".join(f"{size / 1e6:>10,.0f}" for size in series))


def draw(record: dict[str, Any], path: Path) -> None:
    """Time by the floor's, and memory, one group of bars a shape."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shapes = [{one["name"]: one for one in shape["rows"]} for shape in record["shapes"]]
    names = [name for name in ABOUT if any(name in one for one in shapes)]
    figure, both = pyplot.subplots(2, figsize=(11, 8), sharex=True, layout="constrained")
    width = 0.8 / len(names)
    for axes, key, unit in zip(both, ("ratio", "memory"), (1, 1e6), strict=True):
        for index, name in enumerate(names):
            places = [place + width * index for place in range(len(shapes))]
            axes.bar(places, [(one.get(name, {}).get(key) or 0) / unit for one in shapes], width, label=name)
    time, memory = both
    labels = ["N={N} K={K}\nd={d} V={V:,}".format(**shape["shape"]) for shape in record["shapes"]]
    memory.set_xticks([place + 0.4 - width / 2 for place in range(len(labels))], labels)
    time.axhline(1, color="black", linewidth=0.8)
    time.set_ylabel("time forward + backward,\nby three GEMMs a component")
    memory.set_yscale("log")
    memory.set_ylabel("memory beyond inputs and gradients, MB")
    figure.legend(*time.get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize="small")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
