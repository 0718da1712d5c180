"""Search for good outputs of a model: beam search, greedy search, and sampling.

All of them walk the cached states of a model (`start`, `step`, `reorder`; see `fastmos.models.generator`) and never
emit what the coding does not allow. Codes that may not come next get probability 0 without renormalising, so the
log-probability of a hypothesis is the one the model gives it when it is scored.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from fastmos.codings import Coding
from fastmos.data.batches import Batch
from fastmos.errors import InputError

Normalise = Literal["none", "gnmt", "average"]

# What a log-probability is divided by, for `length` codes including eos. Must not fall with the length.
PENALTIES: dict[str, Callable[[Tensor, float], Tensor]] = {
    "none": lambda length, alpha: torch.ones_like(length),
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,  # Wu et al. 2016, equation 14
    "average": lambda length, alpha: length,
}

BLOCK = 64  # codes whose maximum is taken first, to find the best of many


class Model(Protocol):
    """What search asks of a model."""

    def start(self, batch: Batch) -> Any: ...
    def step(self, codes: Tensor, state: Any) -> tuple[Tensor, Any]: ...
    def reorder(self, state: Any, rows: Tensor, sentences: Tensor | None = None) -> Any: ...


@dataclass(frozen=True)
class Hypothesis:
    """One output for a line."""

    codes: list[int]  # without eos
    log_prob: float  # of the codes, and of eos if finished
    score: float  # the log-probability normalised for length: what the search ranks by
    finished: bool  # ended by eos; False only where the coding or the model never let it end


@torch.inference_mode()
def beam_search(
    model: Model,
    coding: Coding,
    batch: Batch,
    *,
    beam: int = 5,
    nbest: int = 1,
    normalise: Normalise = "none",
    alpha: float = 0.6,
    min_length: int = 0,
    max_length: int | Tensor = 100,
) -> list[list[Hypothesis]]:
    """The `nbest` best outputs of each line, best first.

    A hypothesis is finished where eos is among its sentence's `beam` best continuations; the `beam` best others go on.
    A sentence is done when none of them can come to beat its finished ones, however likely their continuations are.
    Lengths count codes without eos; `max_length` may differ by line [B]. A word begun at the limit is completed.
    """
    if not 1 <= nbest <= beam:
        raise InputError(f"{nbest} best of a beam of {beam}: needs 1 <= nbest <= beam")
    if normalise not in PENALTIES or alpha < 0:
        raise InputError(f"normalise {normalise!r}, alpha {alpha}: needs one of {', '.join(PENALTIES)} and alpha >= 0")
    penalty = PENALTIES[normalise]
    _check_mode(model)
    # The books are kept on the CPU, and a GPU is asked once a step: every answer is waited for.
    device, longest = batch.inputs.device, _limits(min_length, max_length, batch).cpu()  # [B]
    found: list[list[Hypothesis]] = [[] for _ in longest]
    lines = torch.arange(len(longest))  # [B] of the sentences still searched
    highest = penalty(longest.double() + 2, alpha)  # [B] of the longest: one more code may complete a word, then eos
    worst = torch.full_like(highest, -torch.inf)  # [B] what a score must exceed to be among the best
    live = torch.zeros_like(highest)[:, None]  # [B, w] log-probabilities of the hypotheses that go on, best first
    past = longest.new_full((len(longest), 1, 1), coding.bos)  # [B, w, time + 1] their codes
    state = model.start(batch) if len(batch) else None
    time = 0
    while len(lines):
        sentences, width = past.shape[:2]
        last = past[:, :, -1].flatten().to(device, non_blocking=True)  # [N]
        log_probs, state = model.step(last, state)  # [N, V]
        _forbid(log_probs, coding, last, time < min_length, (time >= longest).repeat_interleave(width))

        # The best continuations of each sentence [B, 2 beam]: so many that without eos `beam` are left.
        total, parents, codes = (x.cpu() for x in _best(live.to(device, non_blocking=True), log_probs, 2 * beam))
        del log_probs  # the next ones take its memory: fresh pages cost a tenth of a step

        ended = codes == coding.eos
        norm = float(penalty(torch.tensor(time + 1.0, dtype=torch.float64), alpha))
        good = ended[:, :beam] & (total[:, :beam] / norm > worst[:, None])
        good &= good.cumsum(1) <= nbest  # they come best first
        for b, rank in good.nonzero().tolist():
            new = _hypothesis(past[b, parents[b, rank]], total[b, rank], norm, finished=True)
            worst[b] = _enter(found[lines[b]], new, nbest)

        grown, order = total.masked_fill(ended, -torch.inf).topk(min(beam, total.shape[1]))  # [B, beam]
        hopeless = (grown / highest[:, None] <= worst[:, None]) | (time > longest)[:, None]
        for b in hopeless[:, 0].nonzero()[:, 0].tolist():
            if not found[lines[b]]:  # nothing may follow, or a word never ended: give what there was before
                found[lines[b]].append(_hypothesis(past[b, 0], live[b, 0], norm, finished=False))

        # Keep the hypotheses that can win, in the sentences that have any.
        stay = torch.tensor(_compact((~hopeless[:, 0]).tolist()), dtype=torch.long)  # [B']
        kept = order[stay, : int((~hopeless).sum(1).max())]  # [B', w']
        rows = parents[stay].gather(1, kept) + width * stay[:, None]  # [B', w'] among the N
        state = model.reorder(state, rows.flatten().to(device), stay.to(device) if len(stay) < sentences else None)
        past = torch.cat([past.flatten(0, 1)[rows], codes[stay].gather(1, kept)[..., None]], 2)
        live = grown.masked_fill(hopeless, -torch.inf)[stay, : kept.shape[1]]
        lines, longest, highest, worst = lines[stay], longest[stay], highest[stay], worst[stay]
        time += 1
    return found


def _hypothesis(past: Tensor, log_prob: Tensor, norm: float, finished: bool) -> Hypothesis:
    return Hypothesis(past[1:].tolist(), float(log_prob), float(log_prob) / norm, finished)


def _enter(best: list[Hypothesis], new: Hypothesis, nbest: int) -> float:
    """Put a hypothesis among the best found; gives the score that the next must exceed."""
    best.append(new)
    best.sort(key=lambda hypothesis: hypothesis.score, reverse=True)
    del best[nbest:]
    return best[-1].score if len(best) == nbest else -torch.inf


def greedy(
    model: Model, coding: Coding, batch: Batch, *, min_length: int = 0, max_length: int | Tensor = 100
) -> list[list[Hypothesis]]:
    """The most likely code at every step: a beam of one."""
    return beam_search(model, coding, batch, beam=1, min_length=min_length, max_length=max_length)


@torch.inference_mode()
def sample(
    model: Model,
    coding: Coding,
    batch: Batch,
    *,
    samples: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    min_length: int = 0,
    max_length: int | Tensor = 100,
) -> list[list[Hypothesis]]:
    """Random outputs of each line, drawn from the model's distribution; the same seed and batch draw the same.

    A temperature below 1 sharpens the distribution; `top_k` keeps the k likeliest codes, `top_p` the fewest likeliest
    whose probabilities sum to p. The log-probability (and score) is the model's own, before any of that.
    """
    if temperature <= 0 or samples < 1:
        raise InputError(f"{samples} samples at temperature {temperature}: both must be positive (or search greedily)")
    if (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
        raise InputError(f"top_k {top_k}, top_p {top_p}: needs top_k >= 1 and 0 < top_p <= 1")
    _check_mode(model)
    longest = _limits(min_length, max_length, batch).repeat_interleave(samples)  # [N] every sample is a row by itself
    draws = torch.Generator(longest.device).manual_seed(seed)
    found: list[Hypothesis | None] = [None for _ in longest]
    rows = torch.arange(len(longest), device=longest.device)  # [N] those that go on
    log_prob = torch.zeros(len(longest), dtype=torch.float64, device=longest.device)
    past = longest.new_full((len(longest), 1), coding.bos)  # [N, time + 1]
    state = model.reorder(model.start(batch), rows // samples, rows // samples) if len(batch) else None
    time = 0
    while len(rows):
        log_probs, state = model.step(past[:, -1], state)  # [N, V]
        _forbid(log_probs, coding, past[:, -1], time < min_length, time >= longest)
        probs = _truncate(log_probs / temperature, top_k, top_p).softmax(1)
        dead = log_probs.amax(1) == -torch.inf  # nothing may follow: end here
        probs[dead] = 0.0
        probs[dead, coding.eos] = 1.0
        codes = torch.multinomial(probs, 1, generator=draws)  # [N, 1]
        before, log_prob = log_prob, log_prob + log_probs.gather(1, codes)[:, 0]
        finished = (codes[:, 0] == coding.eos) & ~dead
        gone = finished | dead | (time > longest)
        for n in gone.nonzero()[:, 0].tolist():
            total = log_prob[n] if finished[n] else before[n]
            found[rows[n]] = _hypothesis(past[n], total, 1.0, bool(finished[n]))
        stay = (~gone).nonzero()[:, 0]
        state = model.reorder(state, stay, stay)
        rows, longest, log_prob, past = rows[stay], longest[stay], log_prob[stay], torch.cat([past, codes], 1)[stay]
        time += 1
    flat = [hypothesis for hypothesis in found if hypothesis is not None]
    return [flat[start : start + samples] for start in range(0, len(flat), samples)]


def _compact(alive: list[bool]) -> list[int]:
    """The numbers of those alive, moving as few as can be: the last ones take the places of the dead."""
    count = sum(alive)
    last = (number for number in range(count, len(alive)) if alive[number])
    return [number if alive[number] else next(last) for number in range(count)]


def _check_mode(model: Model) -> None:
    if getattr(model, "training", False):
        raise InputError("the model is in training mode, where dropout disturbs a search; call model.eval() first")


def _limits(min_length: int, max_length: int | Tensor, batch: Batch) -> Tensor:
    """The greatest length of each line [B], on the device of the batch."""
    longest = torch.as_tensor(max_length, dtype=torch.long, device=batch.inputs.device).expand(len(batch)).clone()
    if min_length < 0 or bool((longest < min_length).any()):
        raise InputError(f"min_length {min_length}, max_length {max_length}: needs 0 <= min_length <= max_length")
    return longest


def _forbid(log_probs: Tensor, coding: Coding, last: Tensor, too_short: bool, at_limit: Tensor) -> None:
    """Give -inf, in place and without renormalising, to what may not follow the last codes [N]."""
    allowed = coding.allowed(last)
    if allowed is not None:
        log_probs.masked_fill_(~allowed.to(log_probs.device), -torch.inf)
    log_probs[:, coding.pad] = -torch.inf
    log_probs[:, coding.bos] = -torch.inf
    if too_short:
        log_probs[:, coding.eos] = -torch.inf
    elif bool(at_limit.any()):  # [N] only eos then, unless a word has begun
        eos = log_probs[:, coding.eos].clone()
        log_probs.masked_fill_((at_limit.to(eos.device, non_blocking=True) & (eos > -torch.inf))[:, None], -torch.inf)
        log_probs[:, coding.eos] = eos


def _best(live: Tensor, log_probs: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k likeliest continuations of each sentence, best first: log-probabilities, parents and codes [B, k].

    Rows of log-probabilities [N, V] continue live hypotheses [B, w]. As `topk` is slow on long rows, blocks of codes
    come first: the k best lie in the k blocks that have the greatest maxima, or in the few codes after the last block.
    """
    (sentences, width), codes = live.shape, log_probs.shape[1]
    rows, blocks = log_probs.view(sentences, width, codes), codes // BLOCK
    if width * blocks < 4 * k:
        total, places = (live[..., None] + rows).flatten(1).topk(min(k, width * codes))
        return total, places // codes, places % codes
    whole = rows[..., : blocks * BLOCK].view(sentences, width, blocks, BLOCK)
    first = (live[..., None] + whole.amax(3)).flatten(1).topk(k).indices  # [B, k] among the w blocks of a sentence
    parents, block = first // blocks, first % blocks
    sentence, parent, code = (torch.arange(size, device=live.device) for size in (sentences, width, codes))
    inside = live.gather(1, parents)[..., None] + whole[sentence[:, None], parents, block]  # [B, k, BLOCK]
    behind = live[..., None] + rows[..., blocks * BLOCK :]  # [B, w, rest]
    total, best = torch.cat([inside.flatten(1), behind.flatten(1)], 1).topk(k)
    inside = (parents * codes + block * BLOCK)[..., None] + code[:BLOCK]  # the same places, as parent * V + code
    behind = (parent[:, None] * codes + code[blocks * BLOCK :]).expand_as(behind)
    places = torch.cat([inside.flatten(1), behind.flatten(1)], 1).gather(1, best)
    return total, places // codes, places % codes


def _truncate(logits: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """Logits [N, V] with -inf outside the k likeliest codes, and outside the fewest that have probability p."""
    if top_k is not None and top_k < logits.shape[1]:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -torch.inf)
    if top_p is not None and top_p < 1:
        ordered, codes = logits.sort(1, descending=True)
        probs = ordered.softmax(1)
        ordered = ordered.masked_fill(probs.cumsum(1) - probs >= top_p, -torch.inf)  # the first always stays
        logits = torch.empty_like(logits).scatter_(1, codes, ordered)
    return logits
