"""The head at work: a task that one softmax cannot express, fitted by three heads, and the price of the fused loss."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fastmos.heads import MixtureOfSoftmaxes, build_head, log_prob_rank, mixture_nll_reference
from fastmos.measure import extra_memory, interleaved
from fastmos.progress import progress

HIDDEN, EMBEDDING, MIXTURES = 16, 8, 3
BATCH = 512
NAMES = {"softmax": "one softmax", "moc": "mixture of contexts", "mos": "mixture of softmaxes"}


@dataclass(frozen=True)
class Task:
    """Tokens to train on, and fresh hidden states with the true distribution after each to evaluate on."""

    hidden: Tensor  # [N, D]
    targets: Tensor  # [N]
    test_hidden: Tensor  # [M, D]
    test_log_probs: Tensor  # [M, V]

    @property
    def entropy(self) -> float:
        """The NLL per token that no model can go below."""
        return self.cross_entropy(self.test_log_probs)

    def cross_entropy(self, log_probs: Tensor) -> float:
        return float(-(self.test_log_probs.exp() * log_probs).sum(1).mean())


@dataclass(frozen=True)
class Fit:
    """How well a head fits the task."""

    nll: float  # per token on the test states
    rank: int  # of its log-probabilities there
    seconds: float


@torch.no_grad()
def draw_task(vocab_size: int, tokens: int, tests: int, seed: int) -> Task:
    """Tokens drawn from a random mixture of softmaxes with sharp components, given random hidden states."""
    generator = torch.Generator().manual_seed(seed)
    truth = MixtureOfSoftmaxes(HIDDEN, vocab_size, MIXTURES, embedding_size=EMBEDDING)
    truth.weight.normal_(0, 2, generator=generator)
    truth.latent.weight.normal_(0, 2 * HIDDEN**-0.5, generator=generator)
    truth.latent.bias.zero_()
    truth.prior.weight.normal_(0, HIDDEN**-0.5, generator=generator)
    hidden = torch.randn(tokens, HIDDEN, generator=generator)
    targets = [torch.multinomial(truth(part).exp(), 1, generator=generator)[:, 0] for part in torch.split(hidden, 4096)]
    test_hidden = torch.randn(tests, HIDDEN, generator=generator)
    return Task(hidden, torch.cat(targets), test_hidden, truth(test_hidden))


def fit(kind: str, task: Task, seed: int) -> Fit:
    """Adam over the tokens once, with a short warm-up and a learning rate that falls to zero."""
    torch.manual_seed(seed)
    mixtures = None if kind == "softmax" else MIXTURES
    head = build_head(kind, HIDDEN, task.test_log_probs.shape[1], mixtures=mixtures, embedding_size=EMBEDDING)
    steps = len(task.hidden) // BATCH
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 50) * (1 - step / steps))
    start = time.perf_counter()
    for step in progress(range(steps), NAMES[kind], total=steps):
        batch = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        head(task.hidden[batch], task.targets[batch]).loss.backward()
        optimizer.step()
        schedule.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        log_probs = head.double()(task.test_hidden.double())
    return Fit(task.cross_entropy(log_probs), log_prob_rank([log_probs]).rank, seconds)


def training_step(fused: bool, tokens: int, mixtures: int, hidden_size: int, vocab_size: int) -> Callable[[], object]:
    """Loss and gradients of a mixture's head, as one call; what they are computed from and into is allocated here."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    head = MixtureOfSoftmaxes(hidden_size, vocab_size, mixtures)
    hidden = torch.randn(tokens, hidden_size, requires_grad=True)
    targets = torch.randint(vocab_size, (tokens,))
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
    """Print the task, what each head makes of it, and the price of a training step."""
    vocab_size, tokens, tests = 500, 600 * BATCH, 2000
    print(f"""
The task: a random hidden state of {HIDDEN} numbers is followed by one of {vocab_size} tokens, drawn from a random
mixture of {MIXTURES} softmaxes whose embeddings have size {EMBEDDING}. All heads have that size and see the same
{tokens:,} tokens once. They are evaluated on {tests:,} fresh states, where the true distribution is known.
Seed {seed}, one thread.
""")
    task = draw_task(vocab_size, tokens, tests, seed)
    print(f"{'':21}{'NLL per token':>14}{'perplexity':>12}{'above truth':>13}{'rank':>6}{'seconds':>9}")
    print(_line("the truth", task.entropy, task, log_prob_rank([task.test_log_probs]).rank))
    for kind, name in NAMES.items():
        found = fit(kind, task, seed)
        print(f"{_line(name, found.nll, task, found.rank)}{found.seconds:9.1f}", flush=True)
    bound = f"cannot exceed rank {EMBEDDING + 2}"
    print(f"\nOne softmax with bias of embedding size {EMBEDDING} {bound}, nor can a mixture of contexts.\n")
    demo_price(512, 9, 128, 8000)


def _line(name: str, nll: float, task: Task, rank: int) -> str:
    return f"{name:21}{nll:14.3f}{math.exp(nll):12.1f}{nll - task.entropy:13.3f}{rank:6}"


def demo_price(tokens: int, mixtures: int, hidden_size: int, vocab_size: int) -> None:
    """Time and extra memory of one training step by the fused loss and by the plain formula."""
    sizes = f"{mixtures} mixtures, hidden size {hidden_size}, vocabulary of {vocab_size:,}"
    print(f"One step (loss and gradients) of {tokens} tokens, {sizes}:")
    shape = (tokens, mixtures, hidden_size, vocab_size)
    ways = {"plain formula": False, "fused loss": True}
    timings = interleaved({name: training_step(fused, *shape) for name, fused in ways.items()}, rounds=3)
    print(f"{'':21}{'seconds':>13}{'extra MB':>13}")
    for name, fused in ways.items():
        print(
            f"{name:21}{timings[name].median:13.2f}{extra_memory(training_step, fused, *shape) / 1e6:13.0f}", flush=True
        )
