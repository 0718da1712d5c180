"""Search against brute force, against a plain beam search that never stops early, and against scoring."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from fastmos.codings import Coding, TableCoding, WordCoding
from fastmos.data.batches import Batch, decoding_batch
from fastmos.errors import InputError
from fastmos.heads import MixtureOfSoftmaxes
from fastmos.models import AttentionLSTM, Generator, LanguageModel, Transformer, uniform_
from fastmos.search import BLOCK, PENALTIES, Hypothesis, _best, _compact, beam_search, greedy, sample

PAD, BOS, EOS, UNK = range(4)
CODES = 8
NORMS: list[Any] = ["none", "gnmt", "average"]


WORDS = WordCoding(["a", "b", "c", "d"])
TABLE = TableCoding([], ["aa", "ab", "ba"], cells=[0, 1, 2], rows=2, columns=2)  # rows 4, 5; columns 6, 7; (5, 7) empty
CODINGS: dict[str, Coding] = {"words": WORDS, "table": TABLE}


class State(NamedTuple):
    lines: Tensor  # [B]
    codes: Tensor  # [N, time]


class ToyModel:
    """Log-probabilities that depend on the line (its first source code) and on every code before, as if at random."""

    def __init__(self, seed: int = 0, sharpness: float = 2.0) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.table = 3 * torch.randn(64, CODES, CODES, generator=draw, dtype=torch.float64)
        self.of_line = 3 * torch.randn(64, CODES, generator=draw, dtype=torch.float64)
        self.sharpness, self.rows_stepped = sharpness, 0

    def log_probs(self, lines: Tensor, codes: Tensor) -> Tensor:
        total = self.of_line[lines] + self.table[torch.arange(codes.shape[1]), codes].sum(1)
        return (self.sharpness * total.sin()).log_softmax(-1)

    def start(self, batch: Batch) -> State:
        assert batch.source is not None
        return State(batch.source[:, 0], torch.empty(len(batch), 0, dtype=torch.long))

    def step(self, codes: Tensor, state: State) -> tuple[Tensor, State]:
        self.rows_stepped += len(codes)
        state = State(state.lines, torch.cat([state.codes, codes[:, None]], 1))
        return self.log_probs(state.lines.repeat_interleave(len(codes) // len(state.lines)), state.codes), state

    def reorder(self, state: State, rows: Tensor, sentences: Tensor | None = None) -> State:
        return State(state.lines if sentences is None else state.lines[sentences], state.codes[rows])

    def score(self, line: int, codes: list[int]) -> float:
        prefix = torch.tensor([[BOS, *codes]])
        steps = [self.log_probs(torch.tensor([line]), prefix[:, : t + 1])[0, c] for t, c in enumerate([*codes, EOS])]
        return float(sum(steps))


def lines_of(*lines: int) -> Batch:
    return decoding_batch([[line] for line in lines])


def legal(coding: Coding, codes: tuple[int, ...], shortest: int, longest: int) -> bool:
    """Is this a whole output? The limit may be passed by the code that completes a word."""
    for before, code in itertools.pairwise([BOS, *codes, EOS]):
        allowed = coding.allowed(torch.tensor([before]))
        if code in (PAD, BOS) or (allowed is not None and not allowed[0, code]):
            return False
    return shortest <= len(codes) <= longest or (len(codes) == longest + 1 > 1 and codes[-1] in (6, 7))


def everything(model: ToyModel, coding: Coding, line: int, norm: str, shortest: int, longest: int) -> list[Hypothesis]:
    """All outputs, best first."""
    found = []
    for length in range(longest + (2 if coding is TABLE else 1)):
        for codes in itertools.product(range(3, CODES), repeat=length):
            if legal(coding, codes, shortest, longest):
                log_prob = model.score(line, list(codes))
                penalty = float(PENALTIES[norm](torch.tensor(length + 1.0, dtype=torch.float64), 0.6))
                found.append(Hypothesis(list(codes), log_prob, log_prob / penalty, True))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def assert_same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    assert [(h.codes, h.finished) for h in ours] == [(h.codes, h.finished) for h in theirs]
    for numbers in ("log_prob", "score"):
        torch.testing.assert_close(
            torch.tensor([getattr(h, numbers) for h in ours]), torch.tensor([getattr(h, numbers) for h in theirs])
        )


@pytest.mark.parametrize(("shortest", "longest"), [(0, 3), (2, 3), (1, 1), (0, 0)])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("coding", list(CODINGS))
def test_a_wide_beam_finds_the_best_of_all(coding: str, norm: Any, shortest: int, longest: int) -> None:
    model, lines = ToyModel(), [5, 3]
    limits = torch.tensor([longest, max(shortest, longest - 1)])  # by line
    found = beam_search(
        model,
        CODINGS[coding],
        lines_of(*lines),
        beam=1000,
        nbest=10,
        normalise=norm,
        min_length=shortest,
        max_length=limits,
    )
    for line, limit, ours in zip(lines, limits.tolist(), found, strict=True):
        assert_same(ours, everything(model, CODINGS[coding], line, norm, shortest, limit)[:10])


def plain_beam(model: ToyModel, coding: Coding, line: int, beam: int, nbest: int, norm: str, longest: int) -> Any:
    """Beam search of one line, written for the reader, that goes on until the last hypothesis has ended."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    found = []
    for time in range(longest + 2):
        grown = []
        for log_prob, codes in live:
            log_probs = model.log_probs(torch.tensor([line]), torch.tensor([[BOS, *codes]]))[0]
            allowed = coding.allowed(torch.tensor([[BOS, *codes][-1]]))
            can = allowed[0].tolist() if allowed is not None else [True] * CODES
            for code in range(2, CODES):
                if can[code] and (code == EOS or time < longest or not can[EOS]):
                    grown.append((log_prob + float(log_probs[code]), [*codes, code]))
        grown.sort(reverse=True)
        penalty = float(PENALTIES[norm](torch.tensor(time + 1.0, dtype=torch.float64), 0.6))
        found += [Hypothesis(c[:-1], p, p / penalty, True) for p, c in grown[:beam] if c[-1] == EOS]
        live = [(p, c) for p, c in grown if c[-1] != EOS][:beam]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)[:nbest]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("coding", list(CODINGS))
@pytest.mark.parametrize("beam", [1, 2, 3, 5])
def test_stopping_early_loses_nothing(beam: int, coding: str, norm: Any) -> None:
    lines = list(range(3, 11))
    for seed, nbest in ((1, 1), (2, min(2, beam)), (3, beam)):
        model = ToyModel(seed)
        found = beam_search(
            model, CODINGS[coding], lines_of(*lines), beam=beam, nbest=nbest, normalise=norm, max_length=9
        )
        for line, ours in zip(lines, found, strict=True):
            assert_same(ours, plain_beam(model, CODINGS[coding], line, beam, nbest, norm, 9))


def test_the_search_does_stop_early() -> None:
    model = ToyModel(sharpness=4.0)
    beam_search(model, WORDS, lines_of(*range(3, 11)), max_length=50)
    assert model.rows_stepped < 8 * 5 * 50 / 4


@pytest.mark.parametrize("norm", NORMS)
def test_batch_mates_do_not_matter_and_nbest_are_distinct(norm: Any) -> None:
    model, lines = ToyModel(), list(range(3, 19))
    options: dict[str, Any] = {"beam": 4, "nbest": 4, "normalise": norm, "max_length": 12}
    together = beam_search(model, TABLE, lines_of(*lines), **options)
    for line, ours in zip(lines, together, strict=True):
        assert_same(ours, beam_search(model, TABLE, lines_of(line), **options)[0])
        assert len({tuple(hypothesis.codes) for hypothesis in ours}) == len(ours) == 4


def test_greedy_takes_the_best_code_at_every_step() -> None:
    model = ToyModel()
    for line, ours in zip(range(3, 11), greedy(model, WORDS, lines_of(*range(3, 11)), max_length=20), strict=True):
        codes: list[int] = []
        while len(codes) < 20:
            log_probs = model.log_probs(torch.tensor([line]), torch.tensor([[BOS, *codes]]))[0]
            code = 2 + int(log_probs[2:].argmax())
            if code == EOS:
                break
            codes.append(code)
        assert ours[0].codes == codes
        assert ours[0].log_prob == pytest.approx(model.score(line, codes))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("length", [1, 5, 24 * BLOCK - 1, 24 * BLOCK, 30 * BLOCK + 7])
def test_best_is_topk_of_a_sentence(length: int, k: int, width: int) -> None:
    draw = torch.Generator().manual_seed(length)
    orders = [torch.randperm(length * width, generator=draw) for _ in range(7)]
    padded = torch.stack(orders).view(7 * width, length).double()
    x = torch.cat([padded, padded], 1)[:, :length]  # rows may lie apart, as the heads make them
    x[0, length // 2 :] = -torch.inf
    x[width : 2 * width] = x[width : 2 * width].flatten().sort().values.view(width, length)
    live = torch.randn(7, width, generator=draw, dtype=torch.float64) * length
    live[2, 1:] = -torch.inf
    total, parents, codes = _best(live, x, k)
    everything = (live[..., None] + x.view(7, width, length)).flatten(1)
    places = parents * length + codes
    assert torch.equal(total, everything.topk(min(k, width * length)).values)
    assert torch.equal(total, everything.gather(1, places))
    assert all(len(set(row)) == len(row) for row in places.tolist())


@pytest.mark.parametrize(
    ("alive", "places"),
    [("1111", [0, 1, 2, 3]), ("0110", [2, 1]), ("1001", [0, 3]), ("0001", [3]), ("0000", []), ("", [])],
)
def test_compact_moves_the_last_into_the_places_of_the_dead(alive: str, places: list[int]) -> None:
    assert _compact([mark == "1" for mark in alive]) == places


def test_no_lines_give_no_results() -> None:
    model = Generator(AttentionLSTM(CODES, CODES, width=8), MixtureOfSoftmaxes(8, CODES, 2)).eval()
    assert beam_search(model, WORDS, lines_of()) == sample(model, WORDS, lines_of()) == []


class Endless(WordCoding):
    """A coding in which no word ever ends."""

    def allowed(self, codes: Tensor) -> Tensor | None:
        return torch.tensor([0, 0, 0, 0, 1, 1, 1, 1], dtype=torch.bool).expand(len(codes), -1)


class DeadEnd(WordCoding):
    """A coding in which nothing may follow the first code."""

    def allowed(self, codes: Tensor) -> Tensor | None:
        return (codes == BOS)[:, None] & (torch.arange(CODES) > UNK)


@pytest.mark.parametrize(("kind", "length"), [(Endless, 4), (DeadEnd, 1)])
def test_what_cannot_end_is_said_to_be_unfinished(kind: type[WordCoding], length: int) -> None:
    coding = kind(WORDS.words)
    for found in (beam_search, sample):
        (hypothesis,), (other,) = found(ToyModel(), coding, lines_of(3, 4), max_length=3)
        assert not hypothesis.finished and not other.finished
        assert len(hypothesis.codes) == length


MODELS: dict[str, Callable[[], Any]] = {
    "language model": lambda: LanguageModel(CODES, width=8),
    "lstm": lambda: AttentionLSTM(CODES, CODES, width=8, layers=2),
    "input feeding": lambda: AttentionLSTM(CODES, CODES, width=8, input_feeding=True),
    "transformer": lambda: Transformer(CODES, CODES, width=8, inner=16, heads=2, layers=2),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_log_prob_is_what_scoring_gives(name: str) -> None:
    model = Generator(MODELS[name](), MixtureOfSoftmaxes(8, CODES, 2)).eval()
    uniform_(model, 0.7)
    sources = [[3, 4, 5], [6], [], [7, 6, 5, 4, 3, 3, 4], [5, 5]]
    batch = decoding_batch(sources)
    searches = [
        beam_search(model, TABLE, batch, beam=3, nbest=3, normalise="gnmt", max_length=15),
        sample(model, TABLE, batch, samples=3, max_length=15),
    ]
    for source, line in [pair for found in searches for pair in zip(sources, found, strict=True)]:
        for hypothesis in line:
            scored = decoding_batch([source])
            scored.inputs = torch.tensor([[BOS, *hypothesis.codes]])
            scored.target = torch.tensor([[*hypothesis.codes, EOS]])
            assert -float(model(scored)[0].nll.sum()) == pytest.approx(hypothesis.log_prob, rel=1e-5)
            assert legal(TABLE, tuple(hypothesis.codes), 0, 15)
    for line, source in zip(searches[0], sources, strict=True):
        alone = beam_search(model, TABLE, decoding_batch([source]), beam=3, nbest=3, normalise="gnmt", max_length=15)
        assert_same(alone[0], line)


def chi_square(counts: Tensor, probs: Tensor) -> tuple[float, int]:
    """Pearson's statistic with all outcomes expected less than 5 times as one, and its degrees of freedom."""
    expected = probs * counts.sum()
    rare = expected < 5
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    expected = torch.cat([expected[~rare], (counts.sum() - expected[~rare].sum())[None]])
    return float(((counts - expected) ** 2 / expected.clamp(min=1e-9)).sum()), len(expected) - 1


@pytest.mark.parametrize("temperature", [1.0, 0.5, 1.5])
def test_sampling_frequencies(temperature: float) -> None:
    model = ToyModel(sharpness=1.0)
    drawn = sample(model, WORDS, lines_of(3), samples=5000, temperature=temperature, seed=7, max_length=2)[0]
    probs = {}
    for codes in [c for n in range(3) for c in itertools.product(range(3, CODES), repeat=n)]:
        probability = 1.0
        for time, code in enumerate([*codes, EOS][:2]):  # the third is eos in any case
            log_probs = model.log_probs(torch.tensor([3]), torch.tensor([[BOS, *codes[:time]]]))[0]
            log_probs[:2] = -torch.inf
            probability *= float((log_probs / temperature).softmax(0)[code])
        probs[codes] = probability
    counts = torch.tensor([sum(tuple(h.codes) == codes for h in drawn) for codes in probs], dtype=torch.float64)
    assert counts.sum() == 5000
    statistic, freedom = chi_square(counts, torch.tensor(list(probs.values()), dtype=torch.float64))
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5  # mean and standard deviation of chi-square
    assert all(h.log_prob == pytest.approx(model.score(3, h.codes)) for h in drawn[:100])


@pytest.mark.parametrize(("top_k", "top_p"), [(1, None), (2, None), (None, 0.3), (None, 0.7), (3, 0.8), (99, 1.0)])
def test_truncated_sampling_stays_among_the_likeliest(top_k: int | None, top_p: float | None) -> None:
    model = ToyModel(sharpness=1.0)
    drawn = sample(model, WORDS, lines_of(4), samples=2000, top_k=top_k, top_p=top_p, seed=3, max_length=1)[0]
    log_probs = model.log_probs(torch.tensor([4]), torch.tensor([[BOS]]))[0]
    log_probs[:2] = -torch.inf
    probs, order = log_probs.softmax(0).sort(descending=True)
    kept = min(top_k or CODES, 6)
    if top_p is not None and top_p < 1:
        within = probs[:kept] / probs[:kept].sum()
        kept = int((within.cumsum(0) < top_p).sum()) + 1
    assert {h.codes[0] if h.codes else EOS for h in drawn} == set(order[:kept].tolist())


def test_sampling_repeats_with_its_seed() -> None:
    model, batch = ToyModel(sharpness=0.5), lines_of(3, 4, 5)
    first, again, other = (sample(model, TABLE, batch, samples=4, seed=seed, max_length=8) for seed in (1, 1, 2))
    assert first == again != other
    assert [len(line) for line in first] == [4, 4, 4]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nbest": 6}, "6 best of a beam of 5"),
        ({"beam": 0}, "1 best of a beam of 0"),
        ({"normalise": "length"}, "normalise 'length'.* needs one of none, gnmt, average"),
        ({"alpha": -1.0}, "alpha >= 0"),
        ({"min_length": 9, "max_length": 8}, "min_length 9, max_length 8"),
    ],
)
def test_bad_options_of_beam_search(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        beam_search(ToyModel(), WORDS, lines_of(3), **options)


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"samples": 0}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 2.0}]
)
def test_bad_options_of_sampling(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        sample(ToyModel(), WORDS, lines_of(3), **options)
