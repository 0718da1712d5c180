"""Optimizers, and the learning rate as a function of the step and the past validations: nothing else to save."""

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import SGD, Adam, Optimizer

from fastmos.config import Training

History = Sequence[
    tuple[int, float]
]  # (step, value of the early stopping metric) of every validation; larger is better


def build_optimizer(training: Training, parameters: Iterable[Parameter]) -> Optimizer:
    """Plain SGD, or Adam; the learning rate is set before each step."""
    if training.optimizer == "sgd":
        return SGD(parameters, lr=training.learning_rate, fused=True)
    return Adam(parameters, lr=training.learning_rate, betas=training.adam_betas, eps=training.adam_eps, fused=True)


def learning_rate_at(training: Training, step: int, history: History) -> float:
    """The learning rate of step 1, 2, ...

    `inverse-sqrt` rises to the learning rate over the warm-up, then falls as 1/sqrt(step) (Vaswani et al. 2017, whose
    formula peaks at (hidden size * warm-up)^-0.5); `linear` falls to 0 at the last step; `plateau` is cut at each
    validation that brings no new best.
    """
    if training.lr_schedule == "plateau":
        return training.learning_rate * training.lr_decay ** min(
            training.max_lr_decays, validations_without_best(history)
        )
    rise = min(1.0, step / training.warmup_steps) if training.warmup_steps else 1.0
    if training.lr_schedule == "inverse-sqrt":
        return training.learning_rate * min(rise, math.sqrt(training.warmup_steps / step))
    if training.lr_schedule == "linear":
        return training.learning_rate * min(
            rise, max(0.0, (training.max_steps - step + 1) / (training.max_steps - training.warmup_steps))
        )
    return training.learning_rate * rise


def validations_without_best(history: History) -> int:
    """How many validations did not reach a new best."""
    best, count = -math.inf, -1  # the first one does not count, whatever it is
    for _, value in history:
        if value > best:
            best = value
            count += count < 0
        else:
            count += 1
    return max(count, 0)


def validations_since_best(history: History) -> int:
    """How many validations in a row, up to the last, were without a new best."""
    return len(history) - 1 - best_of(history) if history else 0


def best_of(history: History) -> int:
    """Index of the best validation, the first of equals; nan is never best."""
    return max(range(len(history)), key=lambda i: (-math.inf if math.isnan(history[i][1]) else history[i][1], -i))


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's memory as flat names, `3/exp_avg`."""
    state = optimizer.state_dict()["state"]
    return {f"{index}/{name}": value for index, values in state.items() for name, value in values.items()}


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Undo `optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split("/")
        state.setdefault(int(index), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def clip_gradients(parameters: Iterable[Parameter], max_norm: float) -> Tensor:
    """Scale the gradient down to norm `max_norm` (0: leave it), and return what the norm was."""
    return torch.nn.utils.clip_grad_norm_(parameters, max_norm or math.inf)
