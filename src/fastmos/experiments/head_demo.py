"""The head at work: a task that one softmax cannot express, fitted by three heads, and the price of the fused loss."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fastmos.analysis import log_prob_rank
from fastmos.bench.measure import extra_memory, interleaved
from fastmos.heads import MixtureOfSoftmaxes, build_head, mixture_nll_reference
from fastmos.progress import progress

HIDDEN, WIDTH, MIXTURES = 16, 8, 3
BATCH = 512
NAMES = {"softmax": "one softmax", "moc": "mixture of contexts", "mos": "mixture of softmaxes"}


@dataclass(frozen=True)
class Task:
    """Tokens to learn from, and fresh hidden states with the true distribution after each to be judged by."""

    hidden: Tensor  # [N, D]
    targets: Tensor  # [N]
    test_hidden: Tensor  # [M, D]
    test_log_probs: Tensor  # [M, V]

    @property
    def entropy(self) -> float:
        """What no model can go below, in nats a token."""
        return self.cross_entropy(self.test_log_probs)

    def cross_entropy(self, log_probs: Tensor) -> float:
        return float(-(self.test_log_probs.exp() * log_probs).sum(1).mean())


@dataclass(frozen=True)
class Fit:
    """What a head made of the task."""

    loss: float  # nats a token on the test states
    rank: int  # of its log-probabilities there
    seconds: float


@torch.no_grad()
def draw_task(codes: int, tokens: int, tests: int, seed: int) -> Task:
    """Codes drawn from a random mixture of softmaxes with sharp components, given random hidden states."""
    generator = torch.Generator().manual_seed(seed)
    truth = MixtureOfSoftmaxes(HIDDEN, codes, MIXTURES, width=WIDTH)
    truth.weight.normal_(0, 2, generator=generator)
    truth.latent.weight.normal_(0, 2 * HIDDEN**-0.5, generator=generator)
    truth.latent.bias.zero_()
    truth.prior.weight.normal_(0, HIDDEN**-0.5, generator=generator)
    hidden = torch.randn(tokens, HIDDEN, generator=generator)
    targets = [torch.multinomial(truth(part).exp(), 1, generator=generator)[:, 0] for part in torch.split(hidden, 4096)]
    test_hidden = torch.randn(tests, HIDDEN, generator=generator)
    return Task(hidden, torch.cat(targets), test_hidden, truth(test_hidden))


def fit(kind: str, task: Task, seed: int) -> Fit:
    """Adam over the tokens once, with a short warm-up and a rate that falls to zero."""
    torch.manual_seed(seed)
    head = build_head(kind, HIDDEN, task.test_log_probs.shape[1], MIXTURES, width=WIDTH)
    steps = len(task.hidden) // BATCH
    optimiser = torch.optim.Adam(head.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1, (step + 1) / 50) * (1 - step / steps))
    start = time.perf_counter()
    for step in progress(range(steps), NAMES[kind], total=steps):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        optimiser.zero_grad()
        head(task.hidden[batch], task.targets[batch], reduction="mean").loss.backward()
        optimiser.step()
        schedule.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        log_probs = head.double()(task.test_hidden.double())
    return Fit(task.cross_entropy(log_probs), log_prob_rank([log_probs]).rank, seconds)


def training_step(fused: bool, tokens: int, mixtures: int, width: int, codes: int) -> Callable[[], object]:
    """Loss and gradients of a mixture's head, as one call; what they are computed from and into is allocated here."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    head = MixtureOfSoftmaxes(width, codes, mixtures)
    hidden = torch.randn(tokens, width, requires_grad=True)
    targets = torch.randint(codes, (tokens,))
    for parameter in (hidden, *head.parameters()):
        parameter.grad = torch.zeros_like(parameter)

    def step() -> None:
        if fused:
            loss = head(hidden, targets).loss
        else:
            loss = mixture_nll_reference(*head.parts(hidden), head.weight, head.bias, targets).loss
        loss.backward()

    return step


def demo(seed: int) -> None:
    """Print what is done and what comes out."""
    codes, tokens, tests = 500, 600 * BATCH, 2000
    print(f"""
The task: a random hidden state of {HIDDEN} numbers is followed by one of {codes} codes, drawn from a random mixture of
{MIXTURES} softmaxes whose embeddings have width {WIDTH}. All heads have that width and see the same {tokens:,}
tokens once. They are judged on {tests:,} fresh states, where the true distribution is known. Seed {seed}, one thread.
""")
    task = draw_task(codes, tokens, tests, seed)
    print(f"{'':21}{'nats a token':>13}{'above truth':>13}{'rank':>6}{'seconds':>9}")
    print(f"{'the truth':21}{task.entropy:13.3f}{0:13.3f}{log_prob_rank([task.test_log_probs]).rank:6}")
    for kind, name in NAMES.items():
        found = fit(kind, task, seed)
        print(
            f"{name:21}{found.loss:13.3f}{found.loss - task.entropy:13.3f}{found.rank:6}{found.seconds:9.1f}",
            flush=True,
        )
    print(f"\nOne softmax of width {WIDTH} with bias cannot exceed rank {WIDTH + 2}, nor can a mixture of contexts.\n")
    demo_price(512, 9, 128, 8000)


def demo_price(tokens: int, mixtures: int, width: int, codes: int) -> None:
    """Time and extra memory of one training step by the fused loss and by the plain formula."""
    print(f"One step (loss and gradients) of {tokens} tokens, {mixtures} mixtures, width {width}, {codes} codes:")
    shape = (tokens, mixtures, width, codes)
    ways = {"plain formula": False, "fused loss": True}
    timings = interleaved({name: training_step(fused, *shape) for name, fused in ways.items()}, rounds=3)
    print(f"{'':21}{'seconds':>13}{'extra MB':>13}")
    for name, fused in ways.items():
        print(
            f"{name:21}{timings[name].median:13.2f}{extra_memory(training_step, fused, *shape) / 1e6:13.0f}", flush=True
        )
