"""Log-probabilities [..., V] of a mixture: by the formula, and in chunks of tokens where no gradient is asked for."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fastmos.heads import products
from fastmos.heads.fused import Layer
from fastmos.heads.kernel import LOWEST, chunk_tokens, exact_dtype, row_stride, slices


def log_mixture(
    contexts: Tensor, log_prior: Tensor, weight: Tensor, bias: Tensor | None, softcap: float | None = None
) -> Tensor:
    """Log-probabilities [..., V] of the mixture (paper equations 1 and 2), in float32 or better."""
    logits = soft_capped(F.linear(contexts, weight, bias), softcap)  # [..., K, V]
    exact = exact_dtype(logits.dtype)
    return torch.logsumexp(F.log_softmax(logits, -1, dtype=exact) + log_prior.to(exact)[..., None], -2)


def soft_capped(logits: Tensor, softcap: float | None) -> Tensor:
    """Logits that stay between -softcap and softcap, if one is given."""
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)


def in_chunks(formula: Callable[[Tensor], Tensor], hidden: Tensor, weight: Tensor) -> Tensor:
    """Log-probabilities [..., V] of hidden states [..., D] by a formula; without gradients, few tokens at a time."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        return formula(hidden)
    rows = hidden.reshape(-1, hidden.shape[-1])  # [N, D]
    result = rows.new_empty(len(rows), len(weight), dtype=exact_dtype(hidden.dtype))
    for here in slices(len(rows), chunk_tokens(weight, 1, 2)):
        result[here] = formula(rows[here])
    return result.view(*hidden.shape[:-1], len(weight))


@torch.no_grad()
def log_probabilities(layer: Layer, rows: Sequence[Tensor]) -> Tensor:
    """The same [N, V] of a mixture's rows [N, ...], in chunks of tokens and without gradients."""
    weight, count, mixtures, exact = layer.weight, len(rows[0]), layer.mixtures, exact_dtype(rows[0].dtype)
    stride, tokens = row_stride(len(weight)), min(count, chunk_tokens(weight, mixtures, 1))
    result = weight.new_empty(count, stride, dtype=exact)  # what is returned is a view of it, without the rows' ends
    buffer = weight.new_empty(tokens * mixtures, stride, dtype=exact) if mixtures > 1 else result
    for here in slices(count, tokens):
        contexts, log_prior = layer.parts(*(row[here] for row in rows))
        contexts, log_prior = contexts.flatten(0, 1), log_prior.to(exact)  # [nK, d], [n, K]
        if mixtures == 1:  # its log-prior is 0, and it is made where it belongs
            logits = _fill(result[here], contexts, layer)
            normal = _log_softmax(logits)
            if normal is not logits:
                logits.copy_(normal)
        elif not _mix_probabilities(result[here], buffer, contexts, log_prior, layer):
            normal = _log_softmax(_fill(buffer, contexts, layer))
            normal = normal.view(-1, mixtures, stride).add_(log_prior[..., None])  # [n, K, stride]
            best = normal.amax(1, keepdim=True).clamp(min=LOWEST[exact])  # bias -inf: no nan
            result[here] = normal.sub_(best).exp_().sum(1).log_().add_(best[:, 0])
    return result[:, : len(weight)]


def _mix_probabilities(out: Tensor, buffer: Tensor, contexts: Tensor, log_prior: Tensor, layer: Layer) -> bool:
    """Log-probabilities by a sum of probabilities, at half the cost of a sum in log-space. False if some underflow.

    To know that, the program waits for the numbers, so this is for a CPU and for code that is not compiled.
    """
    if not out.is_cpu or torch.compiler.is_compiling():
        return False
    probs = _fill(buffer, contexts, layer)  # [nK, stride] logits, so far
    torch.softmax(probs, 1, out=probs)
    torch.bmm(log_prior.exp()[:, None], probs.view(*log_prior.shape, -1), out=out[:, None])
    limits = torch.finfo(out.dtype)
    underflow = out[:, : len(layer.weight)].amin(0) < limits.tiny / limits.eps  # [V]
    if layer.bias is not None and layer.softcap is None:
        underflow &= layer.bias != -torch.inf  # these are 0, and their logarithms right
    if underflow.any():
        return False
    out.log_()
    return True


def _fill(buffer: Tensor, contexts: Tensor, layer: Layer) -> Tensor:
    """Logits [n, V] of contexts [n, d] at the start of a buffer, and -inf in the columns that only align it."""
    logits, vocab_size = buffer[: len(contexts)], len(layer.weight)
    _linear(contexts, layer.weight, layer.bias, logits[:, :vocab_size])
    if layer.softcap is not None:
        logits.div_(layer.softcap).tanh_().mul_(layer.softcap)
    logits[:, vocab_size:] = -torch.inf
    return logits


def _log_softmax(logits: Tensor) -> Tensor:
    """Over the vocabulary; in place on a CPU (kernels elsewhere do not promise that)."""
    return torch.log_softmax(logits, 1, out=logits if logits.is_cpu else None)


def _linear(contexts: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """A linear layer written to `out`, in the precision the layer itself would have."""
    low = product_dtype(contexts, weight) != out.dtype or weight.dtype != out.dtype
    if low:
        out.copy_(F.linear(contexts, weight, bias))
    else:
        products.logits(contexts, weight, bias, out)


def layer_log_probs(layer: Layer, hidden: Tensor) -> Tensor:
    """Log-probabilities [..., V] of a layer that reads hidden states [..., D] alone."""
    if torch.is_grad_enabled() or torch.compiler.is_compiling():
        contexts, log_prior = layer.parts(hidden)
        return log_mixture(contexts, log_prior, layer.weight, layer.bias, layer.softcap)
    log_probs = log_probabilities(layer, [hidden.reshape(-1, hidden.shape[-1])])
    return log_probs.view(*hidden.shape[:-1], log_probs.shape[-1])


def product_dtype(rows: Tensor, weight: Tensor) -> torch.dtype:
    """The dtype a linear layer would work in here; autocast leaves float64 alone."""
    dtype = torch.promote_types(rows.dtype, weight.dtype)
    kind = rows.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) and dtype != torch.float64 else dtype
