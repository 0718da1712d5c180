"""Beam search and sampling.

Both use the cached states of a model (`start`, `step`, `reorder`; see `fastmos.models.generator`) and give only tokens
that the tokenizer allows. Other tokens get probability 0 without renormalizing, so the log-probability of a hypothesis
is the one that the model gives it in scoring. Where a model puts off a part of its log-probabilities, it is asked for
those rows in which they could change the result: the result is that of the whole distribution.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from fastmos.data.batches import Batch
from fastmos.errors import InputError
from fastmos.heads import PartialLogProbs
from fastmos.tokenizers import Tokenizer

Number = TypeVar("Number", float, Tensor)

BLOCK = 64  # tokens whose maximum is taken first, to find the best of many


class Model(Protocol):
    """What search needs of a model."""

    def start(self, batch: Batch) -> Any: ...
    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor | PartialLogProbs, Any]: ...
    def reorder(self, state: Any, rows: Tensor, sentences: Tensor | None = None) -> Any: ...


@dataclass(frozen=True)
class Hypothesis:
    """One output for a line."""

    tokens: list[int]  # without eos
    log_prob: float  # of the tokens, and of eos if finished
    score: float  # the log-probability divided by the length penalty; the best hypothesis has the highest
    finished: bool  # ended by eos; False only if the tokenizer or the model never allowed eos


@torch.inference_mode()
def beam_search(
    model: Model,
    tokenizer: Tokenizer,
    batch: Batch,
    *,
    beam_size: int = 5,
    nbest: int = 1,
    length_penalty: float = 0.0,
    max_length: int | Tensor = 100,
) -> list[list[Hypothesis]]:
    """The `nbest` best outputs of each line, best first.

    Where eos is among the `beam_size` best continuations of a sentence, a hypothesis is finished; the `beam_size` best
    other continuations are kept. The search of a sentence ends when none of them can beat its finished ones.
    The score is the log-probability divided by ((5 + length) / 6) ** length_penalty (Wu et al. 2016, equation 14).
    `max_length` counts tokens without eos and may differ by line [B]; a word that starts at the limit is completed.
    """
    if not 1 <= nbest <= beam_size:
        raise InputError(f"nbest is {nbest} and beam_size {beam_size}; give 1 <= nbest <= beam_size")
    if length_penalty < 0:
        raise InputError(f"length_penalty is {length_penalty}; give 0 (none) or more")
    _check_mode(model)
    # Hypotheses are kept on the CPU, so that a GPU is waited for only once a step.
    device, longest = batch.inputs.device, _limits(max_length, batch).cpu()  # [B]
    found: list[list[Hypothesis]] = [[] for _ in longest]
    lines = torch.arange(len(longest))  # [B] of the sentences still searched
    highest = _penalty(longest.double() + 2, length_penalty)  # [B] at the limit, one token to complete a word, and eos
    worst = torch.full_like(highest, -torch.inf)  # [B] the score that a new hypothesis must exceed
    live = torch.zeros_like(highest)[:, None]  # [B, w] log-probabilities of unfinished hypotheses, best first
    past = longest.new_full((len(longest), 1, 1), tokenizer.bos)  # [B, w, time + 1] their tokens
    state = model.start(batch) if len(batch) else None
    time = 0
    while len(lines):
        sentences, width = past.shape[:2]
        last = past[:, :, -1].flatten().to(device, non_blocking=True)  # [N]
        given, state = model.step(last, state)
        log_probs = given.known if isinstance(given, PartialLogProbs) else given  # [N, V]
        at_limit = (time >= longest).repeat_interleave(width)  # [N]
        _forbid(log_probs, tokenizer, last, at_limit)

        # The best continuations of each sentence [B, 2 beam_size]: enough for `beam_size` without eos.
        best = _best(live.to(device, non_blocking=True), log_probs, 2 * beam_size)
        if isinstance(given, PartialLogProbs):
            upper = live + given.bound.view_as(live)  # [B, w] of the continuations that are missing
            enters = upper >= _least_kept(best, tokenizer.eos, beam_size)[:, None]
            enters &= upper / highest[:, None] > worst[:, None]
            no_eos = log_probs[:, tokenizer.eos] == -torch.inf  # so far; at the limit nothing else matters
            rows = no_eos.where(at_limit, enters.flatten()).nonzero()[:, 0]
            if len(rows):
                given.complete(rows)
                _forbid(log_probs, tokenizer, last, at_limit)
                best = _best(live, log_probs, 2 * beam_size)
        total, parents, tokens = (x.cpu() for x in best)
        del given, log_probs  # so that the next ones reuse their memory: fresh pages cost a tenth of a step

        ended = tokens == tokenizer.eos
        norm = _penalty(time + 1.0, length_penalty)
        good = ended[:, :beam_size] & (total[:, :beam_size] / norm > worst[:, None])
        good &= good.cumsum(1) <= nbest  # best first
        for b, rank in good.nonzero().tolist():
            new = _hypothesis(past[b, parents[b, rank]], total[b, rank], norm, finished=True)
            worst[b] = _enter(found[lines[b]], new, nbest)

        grown, order = total.masked_fill(ended, -torch.inf).topk(min(beam_size, total.shape[1]))  # [B, beam_size]
        hopeless = (grown / highest[:, None] <= worst[:, None]) | (time > longest)[:, None]
        for b in hopeless[:, 0].nonzero()[:, 0].tolist():
            if not found[lines[b]]:  # nothing may follow, or a word never ends: take what there is
                found[lines[b]].append(_hypothesis(past[b, 0], live[b, 0], norm, finished=False))

        # Keep the hypotheses that can win, in the sentences that have any.
        stay = torch.tensor(_compact((~hopeless[:, 0]).tolist()), dtype=torch.long)  # [B']
        kept = order[stay, : int((~hopeless).sum(1).max())]  # [B', w']
        rows = parents[stay].gather(1, kept) + width * stay[:, None]  # [B', w'] among the N
        state = model.reorder(state, rows.flatten().to(device), stay.to(device) if len(stay) < sentences else None)
        past = torch.cat([past.flatten(0, 1)[rows], tokens[stay].gather(1, kept)[..., None]], 2)
        live = grown.masked_fill(hopeless, -torch.inf)[stay, : kept.shape[1]]
        lines, longest, highest, worst = lines[stay], longest[stay], highest[stay], worst[stay]
        time += 1
    return found


def _least_kept(best: tuple[Tensor, Tensor, Tensor], eos: int, beam_size: int) -> Tensor:
    """The log-probability [B] of the last continuation that a beam keeps of the best ones [B, k] of each sentence."""
    total, _, tokens = best
    return total.masked_fill(tokens == eos, -torch.inf).topk(min(beam_size, total.shape[1])).values[:, -1]


def _penalty(length: Number, length_penalty: float) -> Number:
    """What a log-probability is divided by, for `length` tokens including eos."""
    divisor: Number = ((5 + length) / 6) ** length_penalty
    return divisor


def _hypothesis(past: Tensor, log_prob: Tensor, norm: float, finished: bool) -> Hypothesis:
    return Hypothesis(past[1:].tolist(), float(log_prob), float(log_prob) / norm, finished)


def _enter(best: list[Hypothesis], new: Hypothesis, nbest: int) -> float:
    """Add a hypothesis to the best found; returns the score that the next one must exceed."""
    best.append(new)
    best.sort(key=lambda hypothesis: hypothesis.score, reverse=True)
    del best[nbest:]
    return best[-1].score if len(best) == nbest else -torch.inf


@torch.inference_mode()
def sample(
    model: Model,
    tokenizer: Tokenizer,
    batch: Batch,
    *,
    samples: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    max_length: int | Tensor = 100,
) -> list[list[Hypothesis]]:
    """Random outputs of each line, sampled from the model's distribution; the same seed and batch give the same.

    A temperature below 1 sharpens the distribution; `top_k` keeps the k likeliest tokens, `top_p` the fewest likeliest
    tokens whose probabilities sum to p. The log-probability and score are those of the unchanged distribution.
    """
    if temperature <= 0 or samples < 1:
        raise InputError(f"{samples} samples at temperature {temperature}; give positive numbers")
    if (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
        raise InputError(f"top_k is {top_k} and top_p {top_p}; give top_k >= 1 and 0 < top_p <= 1")
    _check_mode(model)
    longest = _limits(max_length, batch).repeat_interleave(samples)  # [N] each sample is a row
    draws = torch.Generator(longest.device).manual_seed(seed)
    found: list[Hypothesis | None] = [None for _ in longest]
    rows = torch.arange(len(longest), device=longest.device)  # [N] of the samples not yet ended
    log_prob = torch.zeros(len(longest), dtype=torch.float64, device=longest.device)
    past = longest.new_full((len(longest), 1), tokenizer.bos)  # [N, time + 1]
    state = model.reorder(model.start(batch), rows // samples, rows // samples) if len(batch) else None
    time = 0
    while len(rows):
        given, state = model.step(past[:, -1], state)
        log_probs = given.known if isinstance(given, PartialLogProbs) else given  # [N, V]
        _forbid(log_probs, tokenizer, past[:, -1], time >= longest)
        uniform = torch.rand(len(rows), dtype=torch.float64, device=rows.device, generator=draws)  # [N]
        if isinstance(given, PartialLogProbs):
            no_eos = log_probs[:, tokenizer.eos] == -torch.inf
            undecided = no_eos.where(time >= longest, _undecided(given, uniform, temperature, top_k, top_p))
            given.complete(undecided.nonzero()[:, 0])
            _forbid(log_probs, tokenizer, past[:, -1], time >= longest)
        tokens = _draw(_truncate(log_probs / temperature, top_k, top_p), uniform)[:, None]  # [N, 1]
        dead = log_probs.amax(1) == -torch.inf  # nothing may follow: the sample ends here
        tokens[dead] = tokenizer.eos
        before, log_prob = log_prob, log_prob + log_probs.gather(1, tokens)[:, 0]
        finished = (tokens[:, 0] == tokenizer.eos) & ~dead
        gone = finished | dead | (time > longest)
        for n in gone.nonzero()[:, 0].tolist():
            total = log_prob[n] if finished[n] else before[n]
            found[rows[n]] = _hypothesis(past[n], total, 1.0, bool(finished[n]))
        stay = (~gone).nonzero()[:, 0]
        state = model.reorder(state, stay, stay)
        rows, longest, log_prob, past = rows[stay], longest[stay], log_prob[stay], torch.cat([past, tokens], 1)[stay]
        time += 1
    flat = [hypothesis for hypothesis in found if hypothesis is not None]
    return [flat[start : start + samples] for start in range(0, len(flat), samples)]


def _compact(alive: list[bool]) -> list[int]:
    """The numbers of those alive, moving as few as possible: the last ones take the places of the dead."""
    count = sum(alive)
    last = (number for number in range(count, len(alive)) if alive[number])
    return [number if alive[number] else next(last) for number in range(count)]


def _check_mode(model: Model) -> None:
    if getattr(model, "training", False):
        raise InputError("the model is in training mode, in which dropout is on; call model.eval() first")


def _limits(max_length: int | Tensor, batch: Batch) -> Tensor:
    """The maximum length of each line [B], on the device of the batch."""
    longest = torch.as_tensor(max_length, dtype=torch.long, device=batch.inputs.device).expand(len(batch)).clone()
    if bool((longest < 0).any()):
        raise InputError(f"max_length is {max_length}; give 0 or more")
    return longest


def _forbid(log_probs: Tensor, tokenizer: Tokenizer, last: Tensor, at_limit: Tensor) -> None:
    """Set the log-probabilities of tokens that may not follow the last tokens [N] to -inf, in place."""
    allowed = tokenizer.allowed(last)
    if allowed is not None:
        log_probs.masked_fill_(~allowed.to(log_probs.device), -torch.inf)
    log_probs[:, tokenizer.pad] = -torch.inf
    log_probs[:, tokenizer.bos] = -torch.inf
    if bool(at_limit.any()):  # [N] only eos may follow then, unless a word has begun
        eos = log_probs[:, tokenizer.eos].clone()
        log_probs.masked_fill_((at_limit.to(eos.device, non_blocking=True) & (eos > -torch.inf))[:, None], -torch.inf)
        log_probs[:, tokenizer.eos] = eos


def _best(live: Tensor, log_probs: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The k likeliest continuations of each sentence, best first: log-probabilities, parents and tokens [B, k].

    Rows of log-probabilities [N, V] continue live hypotheses [B, w]. `topk` is slow on long rows, so it first chooses
    blocks of tokens: the k best are in the k blocks with the greatest maxima, or among the tokens after the last block.
    """
    (sentences, width), tokens = live.shape, log_probs.shape[1]
    rows, blocks = log_probs.view(sentences, width, tokens), tokens // BLOCK
    if width * blocks < 4 * k:
        total, places = (live[..., None] + rows).flatten(1).topk(min(k, width * tokens))
        return total, places // tokens, places % tokens
    whole = rows[..., : blocks * BLOCK].view(sentences, width, blocks, BLOCK)
    first = (live[..., None] + whole.amax(3)).flatten(1).topk(k).indices  # [B, k] among the w blocks of a sentence
    parents, block = first // blocks, first % blocks
    sentence, parent, token = (torch.arange(size, device=live.device) for size in (sentences, width, tokens))
    inside = live.gather(1, parents)[..., None] + whole[sentence[:, None], parents, block]  # [B, k, BLOCK]
    behind = live[..., None] + rows[..., blocks * BLOCK :]  # [B, w, rest]
    total, best = torch.cat([inside.flatten(1), behind.flatten(1)], 1).topk(k)
    inside = (parents * tokens + block * BLOCK)[..., None] + token[:BLOCK]  # the same places, as parent * V + token
    behind = (parent[:, None] * tokens + token[blocks * BLOCK :]).expand_as(behind)
    places = torch.cat([inside.flatten(1), behind.flatten(1)], 1).gather(1, best)
    return total, places // tokens, places % tokens


def _draw(logits: Tensor, place: Tensor) -> Tensor:
    """The tokens [N] at these places [N] of the cumulative distributions, which end at 1."""
    cumulative = logits.softmax(1, dtype=torch.float64).cumsum(1)
    return torch.searchsorted(cumulative, (place * cumulative[:, -1])[:, None], right=True)[:, 0]


def _undecided(
    given: PartialLogProbs, uniform: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> Tensor:
    """The rows [N] in which the token drawn by `uniform` [N] may depend on log-probabilities that are missing."""
    logits, bound = given.known / temperature, given.bound / temperature
    total = logits.logsumexp(1)
    undecided = total == -torch.inf
    # Missing tokens, at this temperature, have at most so many times the probability of all others: each p ** (1 / T).
    room = max(0.0, 1 - 1 / temperature) * math.log(given.missing)
    beyond = (bound.double() + room - total).exp()  # [N]
    if top_k is not None and top_k < logits.shape[1]:
        undecided |= logits.topk(top_k).values[:, -1] <= bound
        logits, beyond = _truncate(logits, top_k, None), torch.zeros_like(beyond)
        if top_p is None:
            return undecided
    if top_p is not None and top_p < 1:
        fewest, most = _truncate(logits, None, top_p), _truncate(logits, None, top_p, beyond)
        undecided |= (fewest != most).any(1) | (top_p * (1 + beyond) > 1)
        return undecided | (fewest.masked_fill(fewest == -torch.inf, torch.inf).amin(1) <= bound)
    # They may stand in front of the token or behind it.
    return undecided | (_draw(logits, uniform - (1 - uniform) * beyond) != _draw(logits, uniform + uniform * beyond))


def _truncate(logits: Tensor, top_k: int | None, top_p: float | None, beyond: Tensor | None = None) -> Tensor:
    """Logits [N, V] with -inf outside the k likeliest tokens, and outside the fewest that have probability p.

    `beyond` [N] is the probability of other, less likely tokens, relative to that of all these.
    """
    if top_k is not None and top_k < logits.shape[1]:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], -torch.inf)
    if top_p is not None and top_p < 1:
        ordered, tokens = logits.sort(1, descending=True)
        probs = ordered.softmax(1)
        enough = top_p if beyond is None else top_p * (1 + beyond[:, None])
        outside = probs.cumsum(1) - probs >= enough
        outside[:, 0] = False  # the first always stays, even if a tiny p is 0 in this precision
        ordered = ordered.masked_fill(outside, -torch.inf)
        logits = torch.empty_like(logits).scatter_(1, tokens, ordered)
    return logits
