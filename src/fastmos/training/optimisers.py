"""Optimisers, and the rate at each step as a plain function: nothing to save but the step and the past validations."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, Optimizer

from fastmos.training.config import Training

History = Sequence[tuple[int, float]]  # (step, measured value) of every validation; larger is better


def build_optimiser(training: Training, parameters: Iterable[Parameter]) -> Optimizer:
    """Plain SGD, or Adam; the rate is set before each step."""
    if training.optimiser == "sgd":
        return SGD(parameters, lr=training.rate, fused=True)
    return Adam(parameters, lr=training.rate, betas=training.betas, eps=training.epsilon, fused=True)


def rate_at(training: Training, step: int, history: History) -> float:
    """The learning rate of step 1, 2, ...

    `inverse-sqrt` rises to the rate over the warm-up, then falls as 1/sqrt(step) (Vaswani et al. 2017, whose formula
    peaks at (width * warm-up)^-0.5); `linear` falls to 0 at the last step; `plateau` is cut at each validation that
    brings no new best.
    """
    if training.schedule == "plateau":
        return training.rate * training.decay ** min(training.decays, disappointments(history))
    rise = min(1.0, step / training.warmup) if training.warmup else 1.0
    if training.schedule == "inverse-sqrt":
        return training.rate * min(rise, math.sqrt(training.warmup / step))
    if training.schedule == "linear":
        return training.rate * min(rise, max(0.0, (training.steps - step + 1) / (training.steps - training.warmup)))
    return training.rate * rise


def disappointments(history: History) -> int:
    """How many validations did not reach a new best."""
    best, count = -math.inf, -1  # the first one is no disappointment, whatever it is
    for _, value in history:
        if value > best:
            best = value
            count += count < 0
        else:
            count += 1
    return max(count, 0)


def stale(history: History) -> int:
    """How many validations in a row, up to the last, were without a new best."""
    return len(history) - 1 - best_of(history) if history else 0


def best_of(history: History) -> int:
    """Index of the best validation, the first of equals; nan is never best."""
    return max(range(len(history)), key=lambda i: (-math.inf if math.isnan(history[i][1]) else history[i][1], -i))


def optimiser_tensors(optimiser: Optimizer) -> dict[str, Tensor]:
    """The optimiser's memory as flat names, `3/exp_avg`."""
    state = optimiser.state_dict()["state"]
    return {f"{index}/{name}": value for index, values in state.items() for name, value in values.items()}


def restore_optimiser(optimiser: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Undo `optimiser_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split("/")
        state.setdefault(int(index), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def gradient_norm(parameters: Iterable[Parameter], clip: float) -> Tensor:
    """Scale the gradient down to norm `clip` (0: leave it), and say what the norm was."""
    return torch.nn.utils.clip_grad_norm_(parameters, clip or math.inf)
