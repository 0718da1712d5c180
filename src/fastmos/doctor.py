"""What a bug report needs: versions, devices, and whether the fused loss is right on each of them."""

import copy
import importlib.metadata
import os
import platform
import signal
import subprocess
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from fastmos import __version__
from fastmos.heads import LossOptions, MixtureOfSoftmaxes, SmoothingKind, mixture_nll_reference
from fastmos.processes import child_command, child_environment
from fastmos.provenance import provenance

OPTIONAL = (
    "tokenizers sacremoses sacrebleu scipy numba pydantic pyyaml safetensors transformers accelerate "
    "pillow pycocoevalcap matplotlib"
)
# Largest error of loss and gradients, relative to the largest entry of the truth, that is put down to rounding.
TOLERANCE = {"float64": 1e-12, "float32": 1e-4, "bfloat16 autocast": 5e-2}
SMOOTHING: dict[str, tuple[float, SmoothingKind]] = {
    "no smoothing": (0.0, "uniform"),
    "uniform": (0.1, "uniform"),
    "others": (0.1, "others"),
}


def doctor() -> bool:
    """Print the report; True if every check passed."""
    for line in _versions():
        print(line)
    print("\nthe fused loss and its gradients against the plain formula in float64")
    print(f"{'device':8} {'numbers':18} {'smoothing':13} error")
    healthy = True
    for device in _devices():
        for numbers in TOLERANCE:
            for smoothing in SMOOTHING:
                run = _in_process_of_its_own if "autocast" in numbers else self_check
                verdict = _judge(run, device, numbers, smoothing)
                healthy = healthy and "FAILED" not in verdict
                print(f"{device:8} {numbers:18} {smoothing:13} {verdict}", flush=True)
    print("\nall is well" if healthy else "\nsomething is wrong: please report the lines above")
    return healthy


def self_check(device: str, numbers: str, smoothing: str) -> float:
    """The largest relative error of the loss and its gradients on a small case with ignored targets."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(50, 12, generator=generator)
    targets = torch.randint(101, (50,), generator=generator)
    targets[::7] = -100
    amount, kind = SMOOTHING[smoothing]
    torch.manual_seed(0)
    head = MixtureOfSoftmaxes(12, 101, 3, embedding_size=16)

    truth, exact = copy.deepcopy(head).double(), hidden.double().requires_grad_()
    contexts, log_prior = truth.parts(exact)
    options = LossOptions(label_smoothing=amount, label_smoothing_kind=kind)
    plain = mixture_nll_reference(contexts, log_prior, truth.weight, truth.bias, targets, options)
    expected = _loss_and_gradients(plain.loss, exact, truth)

    dtype = torch.float64 if numbers == "float64" else torch.float32
    head = head.to(device, dtype)
    given = hidden.to(device, dtype).requires_grad_()
    with torch.autocast(torch.device(device).type, torch.bfloat16, enabled="autocast" in numbers):
        loss = head(given, targets.to(device), label_smoothing=amount, label_smoothing_kind=kind).loss
    found = _loss_and_gradients(loss, given, head)
    return max(
        float((mine.detach().cpu().double() - its).abs().max() / its.abs().max())
        for mine, its in zip(found, expected, strict=True)
    )


def _loss_and_gradients(loss: Tensor, hidden: Tensor, head: MixtureOfSoftmaxes) -> list[Tensor]:
    return [loss.detach(), *torch.autograd.grad(loss, [hidden, *head.parameters()])]


def _judge(run: Callable[[str, str, str], float], device: str, numbers: str, smoothing: str) -> str:
    try:
        error = run(device, numbers, smoothing)
    except _NotAvailable as reason:
        return f"not available ({reason})"
    except Exception as problem:  # whatever goes wrong belongs into the report
        said = str(problem).strip().splitlines() or [""]
        return f"FAILED ({type(problem).__name__}: {said[-1]})"
    return f"{error:.1e} {'ok' if error <= TOLERANCE[numbers] else 'FAILED'}"


class _NotAvailable(Exception):
    """This machine cannot do what was to be checked."""


def _in_process_of_its_own(device: str, numbers: str, smoothing: str) -> float:
    """As `self_check`. A CPU may claim bfloat16 products and die of an illegal instruction: not in this process."""
    program = f"from fastmos.doctor import self_check; print(self_check({device!r}, {numbers!r}, {smoothing!r}))"
    done = subprocess.run(
        child_command("-c", program), env=child_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode < 0:
        raise _NotAvailable(signal.Signals(-done.returncode).name)
    if done.returncode > 0:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def _devices() -> list[str]:
    return ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]


def _versions() -> Iterator[str]:
    made = provenance(seed=0)
    yield f"fastmos {__version__}" + (f" (commit {made['commit']})" if made["commit"] else "")
    yield f"python {platform.python_version()}, {platform.platform()}"
    yield f"torch {torch.__version__}, CUDA {torch.version.cuda or 'not built in'}"
    yield ", ".join(f"{name} {_version(name)}" for name in f"numpy {OPTIONAL}".split())
    capability = torch.backends.cpu.get_cpu_capability()
    yield f"cpu: {made['machine']}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, {capability}"
    yield f"products of float32: {made['products']}"
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        yield f"cuda:{number}: {about.name}, {about.total_memory / 2**30:.0f} GB, compute {about.major}.{about.minor}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
