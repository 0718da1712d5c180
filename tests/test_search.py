"""Search against brute force, against a plain beam search that never stops early, and against scoring."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from fastmos.data.batches import Batch, decoding_batch
from fastmos.errors import InputError
from fastmos.heads import MixtureOfSoftmaxes, PartialLogProbs, ShortlistMixture
from fastmos.models import AttentionLSTM, Generator, LanguageModel, Transformer, uniform_
from fastmos.search import BLOCK, Hypothesis, _best, _compact, beam_search, sample
from fastmos.tokenizers import TableTokenizer, Tokenizer, WordTokenizer

PAD, BOS, EOS, UNK = range(4)
TOKENS = 8
PENALTIES = [0.0, 0.6, 1.0]


WORDS = WordTokenizer(["a", "b", "c", "d"])
TABLE = TableTokenizer(
    [], ["aa", "ab", "ba"], cells=[0, 1, 2], rows=2, columns=2
)  # rows 4, 5; columns 6, 7; (5, 7) empty
TOKENIZERS: dict[str, Tokenizer] = {"words": WORDS, "table": TABLE}


class State(NamedTuple):
    lines: Tensor  # [B]
    tokens: Tensor  # [N, time]


class ToyModel:
    """Log-probabilities that depend on the line (its first source token) and on every token before, as if at random."""

    def __init__(self, seed: int = 0, sharpness: float = 2.0) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.table = 3 * torch.randn(64, TOKENS, TOKENS, generator=draw, dtype=torch.float64)
        self.of_line = 3 * torch.randn(64, TOKENS, generator=draw, dtype=torch.float64)
        self.sharpness, self.rows_stepped = sharpness, 0

    def log_probs(self, lines: Tensor, tokens: Tensor) -> Tensor:
        total = self.of_line[lines] + self.table[torch.arange(tokens.shape[1]), tokens].sum(1)
        return (self.sharpness * total.sin()).log_softmax(-1)

    def start(self, batch: Batch) -> State:
        assert batch.source is not None
        return State(batch.source[:, 0], torch.empty(len(batch), 0, dtype=torch.long))

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        self.rows_stepped += len(tokens)
        state = State(state.lines, torch.cat([state.tokens, tokens[:, None]], 1))
        return self.log_probs(state.lines.repeat_interleave(len(tokens) // len(state.lines)), state.tokens), state

    def reorder(self, state: State, rows: Tensor, sentences: Tensor | None = None) -> State:
        return State(state.lines if sentences is None else state.lines[sentences], state.tokens[rows])

    def score(self, line: int, tokens: list[int]) -> float:
        prefix = torch.tensor([[BOS, *tokens]])
        steps = [self.log_probs(torch.tensor([line]), prefix[:, : t + 1])[0, c] for t, c in enumerate([*tokens, EOS])]
        return float(sum(steps))


def lines_of(*lines: int) -> Batch:
    return decoding_batch([[line] for line in lines])


def legal(tokenizer: Tokenizer, tokens: tuple[int, ...], longest: int) -> bool:
    """Is this a whole output? The token that completes a word may be beyond the limit."""
    for before, token in itertools.pairwise([BOS, *tokens, EOS]):
        allowed = tokenizer.allowed(torch.tensor([before]))
        if token in (PAD, BOS) or (allowed is not None and not allowed[0, token]):
            return False
    return len(tokens) <= longest or (len(tokens) == longest + 1 > 1 and tokens[-1] in (6, 7))


def everything(
    model: ToyModel, tokenizer: Tokenizer, line: int, length_penalty: float, longest: int
) -> list[Hypothesis]:
    """All outputs, best first."""
    found = []
    for length in range(longest + (2 if tokenizer is TABLE else 1)):
        for tokens in itertools.product(range(3, TOKENS), repeat=length):
            if legal(tokenizer, tokens, longest):
                log_prob = model.score(line, list(tokens))
                score = log_prob / ((5 + length + 1) / 6) ** length_penalty
                found.append(Hypothesis(list(tokens), log_prob, score, True))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def assert_same(ours: list[Hypothesis], theirs: list[Hypothesis]) -> None:
    assert [(h.tokens, h.finished) for h in ours] == [(h.tokens, h.finished) for h in theirs]
    for numbers in ("log_prob", "score"):
        torch.testing.assert_close(
            torch.tensor([getattr(h, numbers) for h in ours]), torch.tensor([getattr(h, numbers) for h in theirs])
        )


@pytest.mark.parametrize("longest", [3, 1, 0])
@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("tokenizer", list(TOKENIZERS))
def test_a_wide_beam_finds_the_best_of_all(tokenizer: str, length_penalty: float, longest: int) -> None:
    model, lines = ToyModel(), [5, 3]
    limits = torch.tensor([longest, max(0, longest - 1)])  # by line
    found = beam_search(
        model,
        TOKENIZERS[tokenizer],
        lines_of(*lines),
        beam_size=1000,
        nbest=10,
        length_penalty=length_penalty,
        max_length=limits,
    )
    for line, limit, ours in zip(lines, limits.tolist(), found, strict=True):
        assert_same(ours, everything(model, TOKENIZERS[tokenizer], line, length_penalty, limit)[:10])


def plain_beam(
    model: ToyModel, tokenizer: Tokenizer, line: int, beam_size: int, nbest: int, length_penalty: float, longest: int
) -> list[Hypothesis]:
    """Beam search of one line, written for the reader, that ends only when the last hypothesis has ended."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    found = []
    for time in range(longest + 2):
        grown = []
        for log_prob, tokens in live:
            log_probs = model.log_probs(torch.tensor([line]), torch.tensor([[BOS, *tokens]]))[0]
            allowed = tokenizer.allowed(torch.tensor([[BOS, *tokens][-1]]))
            can = allowed[0].tolist() if allowed is not None else [True] * TOKENS
            for token in range(2, TOKENS):
                if can[token] and (token == EOS or time < longest or not can[EOS]):
                    grown.append((log_prob + float(log_probs[token]), [*tokens, token]))
        grown.sort(reverse=True)
        divisor = ((5 + time + 1) / 6) ** length_penalty
        found += [Hypothesis(c[:-1], p, p / divisor, True) for p, c in grown[:beam_size] if c[-1] == EOS]
        live = [(p, c) for p, c in grown if c[-1] != EOS][:beam_size]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)[:nbest]


@pytest.mark.parametrize("length_penalty", PENALTIES)
@pytest.mark.parametrize("tokenizer", list(TOKENIZERS))
@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
def test_stopping_early_loses_nothing(beam_size: int, tokenizer: str, length_penalty: float) -> None:
    lines = list(range(3, 11))
    for seed, nbest in ((1, 1), (2, min(2, beam_size)), (3, beam_size)):
        model = ToyModel(seed)
        found = beam_search(
            model,
            TOKENIZERS[tokenizer],
            lines_of(*lines),
            beam_size=beam_size,
            nbest=nbest,
            length_penalty=length_penalty,
            max_length=9,
        )
        for line, ours in zip(lines, found, strict=True):
            assert_same(ours, plain_beam(model, TOKENIZERS[tokenizer], line, beam_size, nbest, length_penalty, 9))


def test_the_search_does_stop_early() -> None:
    model = ToyModel(sharpness=4.0)
    beam_search(model, WORDS, lines_of(*range(3, 11)), max_length=50)
    assert model.rows_stepped < 8 * 5 * 50 / 4


@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_batch_mates_do_not_matter_and_nbest_are_distinct(length_penalty: float) -> None:
    model, lines = ToyModel(), list(range(3, 19))
    options: dict[str, Any] = {"beam_size": 4, "nbest": 4, "length_penalty": length_penalty, "max_length": 12}
    together = beam_search(model, TABLE, lines_of(*lines), **options)
    for line, ours in zip(lines, together, strict=True):
        assert_same(ours, beam_search(model, TABLE, lines_of(line), **options)[0])
        assert len({tuple(hypothesis.tokens) for hypothesis in ours}) == len(ours) == 4


def test_a_beam_of_one_takes_the_best_token_at_every_step() -> None:
    model = ToyModel()
    found = beam_search(model, WORDS, lines_of(*range(3, 11)), beam_size=1, max_length=20)
    for line, ours in zip(range(3, 11), found, strict=True):
        tokens: list[int] = []
        while len(tokens) < 20:
            log_probs = model.log_probs(torch.tensor([line]), torch.tensor([[BOS, *tokens]]))[0]
            token = 2 + int(log_probs[2:].argmax())
            if token == EOS:
                break
            tokens.append(token)
        assert ours[0].tokens == tokens
        assert ours[0].log_prob == pytest.approx(model.score(line, tokens))


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
    total, parents, tokens = _best(live, x, k)
    everything = (live[..., None] + x.view(7, width, length)).flatten(1)
    places = parents * length + tokens
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
    model = Generator(AttentionLSTM(TOKENS, TOKENS, hidden_size=8), MixtureOfSoftmaxes(8, TOKENS, 2)).eval()
    assert beam_search(model, WORDS, lines_of()) == sample(model, WORDS, lines_of()) == []


class Endless(WordTokenizer):
    """A tokenizer in which no word ever ends."""

    def allowed(self, tokens: Tensor) -> Tensor | None:
        return torch.tensor([0, 0, 0, 0, 1, 1, 1, 1], dtype=torch.bool).expand(len(tokens), -1)


class DeadEnd(WordTokenizer):
    """A tokenizer in which nothing may follow the first token."""

    def allowed(self, tokens: Tensor) -> Tensor | None:
        return (tokens == BOS)[:, None] & (torch.arange(TOKENS) > UNK)


@pytest.mark.parametrize(("tokenizer_type", "length"), [(Endless, 4), (DeadEnd, 1)])
def test_what_cannot_end_is_said_to_be_unfinished(tokenizer_type: type[WordTokenizer], length: int) -> None:
    tokenizer = tokenizer_type(WORDS.words)
    for found in (beam_search, sample):
        (hypothesis,), (other,) = found(ToyModel(), tokenizer, lines_of(3, 4), max_length=3)
        assert not hypothesis.finished and not other.finished
        assert len(hypothesis.tokens) == length


MODELS: dict[str, Callable[[], Any]] = {
    "language model": lambda: LanguageModel(TOKENS, hidden_size=8),
    "lstm": lambda: AttentionLSTM(TOKENS, TOKENS, hidden_size=8, num_layers=2),
    "input feeding": lambda: AttentionLSTM(TOKENS, TOKENS, hidden_size=8, input_feeding=True),
    "transformer": lambda: Transformer(TOKENS, TOKENS, hidden_size=8, ffn_size=16, num_heads=2, num_layers=2),
}


@pytest.mark.parametrize("name", list(MODELS))
def test_log_prob_is_what_scoring_gives(name: str) -> None:
    model = Generator(MODELS[name](), MixtureOfSoftmaxes(8, TOKENS, 2)).eval()
    uniform_(model, 0.7)
    sources = [[3, 4, 5], [6], [], [7, 6, 5, 4, 3, 3, 4], [5, 5]]
    batch = decoding_batch(sources)
    options: dict[str, Any] = {"beam_size": 3, "nbest": 3, "length_penalty": 0.6, "max_length": 15}
    searches = [
        beam_search(model, TABLE, batch, **options),
        sample(model, TABLE, batch, samples=3, max_length=15),
    ]
    for source, line in [pair for found in searches for pair in zip(sources, found, strict=True)]:
        for hypothesis in line:
            scored = decoding_batch([source])
            scored.inputs = torch.tensor([[BOS, *hypothesis.tokens]])
            scored.target = torch.tensor([[*hypothesis.tokens, EOS]])
            assert -float(model(scored)[0].nll.sum()) == pytest.approx(hypothesis.log_prob, rel=1e-5)
            assert legal(TABLE, tuple(hypothesis.tokens), 15)
    for line, source in zip(searches[0], sources, strict=True):
        alone = beam_search(
            model, TABLE, decoding_batch([source]), beam_size=3, nbest=3, length_penalty=0.6, max_length=15
        )
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
    for tokens in [c for n in range(3) for c in itertools.product(range(3, TOKENS), repeat=n)]:
        probability = 1.0
        for time, token in enumerate([*tokens, EOS][:2]):  # the third is eos in any case
            log_probs = model.log_probs(torch.tensor([3]), torch.tensor([[BOS, *tokens[:time]]]))[0]
            log_probs[:2] = -torch.inf
            probability *= float((log_probs / temperature).softmax(0)[token])
        probs[tokens] = probability
    counts = torch.tensor([sum(tuple(h.tokens) == tokens for h in drawn) for tokens in probs], dtype=torch.float64)
    assert counts.sum() == 5000
    statistic, freedom = chi_square(counts, torch.tensor(list(probs.values()), dtype=torch.float64))
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5  # mean and standard deviation of chi-square
    assert all(h.log_prob == pytest.approx(model.score(3, h.tokens)) for h in drawn[:100])


@pytest.mark.parametrize(("top_k", "top_p"), [(1, None), (2, None), (None, 0.3), (None, 0.7), (3, 0.8), (99, 1.0)])
def test_truncated_sampling_stays_among_the_likeliest(top_k: int | None, top_p: float | None) -> None:
    model = ToyModel(sharpness=1.0)
    drawn = sample(model, WORDS, lines_of(4), samples=2000, top_k=top_k, top_p=top_p, seed=3, max_length=1)[0]
    log_probs = model.log_probs(torch.tensor([4]), torch.tensor([[BOS]]))[0]
    log_probs[:2] = -torch.inf
    probs, order = log_probs.softmax(0).sort(descending=True)
    kept = min(top_k or TOKENS, 6)
    if top_p is not None and top_p < 1:
        within = probs[:kept] / probs[:kept].sum()
        kept = int((within.cumsum(0) < top_p).sum()) + 1
    assert {h.tokens[0] if h.tokens else EOS for h in drawn} == set(order[:kept].tolist())


def test_the_likeliest_token_stays_if_p_is_0_in_the_precision_of_the_model() -> None:
    model = ToyModel(sharpness=1.0)
    model.table, model.of_line = model.table.float(), model.of_line.float()
    tiny = sample(model, WORDS, lines_of(4), top_p=1e-300, max_length=3)[0]
    likeliest = sample(model, WORDS, lines_of(4), top_k=1, max_length=3)[0]
    assert [h.tokens for h in tiny] == [h.tokens for h in likeliest]


def test_sampling_repeats_with_its_seed() -> None:
    model, batch = ToyModel(sharpness=0.5), lines_of(3, 4, 5)
    first, again, other = (sample(model, TABLE, batch, samples=4, seed=seed, max_length=8) for seed in (1, 1, 2))
    assert first == again != other
    assert [len(line) for line in first] == [4, 4, 4]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"nbest": 6}, "nbest is 6 and beam_size 5"),
        ({"beam_size": 0}, "nbest is 1 and beam_size 0"),
        ({"length_penalty": -1.0}, "length_penalty is -1.0; give 0"),
        ({"max_length": -1}, "max_length is -1; give 0 or more"),
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


# ---- a part of the log-probabilities is put off

MANY = WordTokenizer([f"w{n}" for n in range(36)])
CELLS = TableTokenizer(
    [f"f{n}" for n in range(20)], [f"w{n}" for n in range(50)], cells=list(range(50)), rows=8, columns=8
)
SHORTLISTS: dict[str, Any] = {
    "the first": 12,
    "scattered": [0, 2, 3, 5, 11, 17, 23, 24, 30, 38],
    "no eos": [4, 7, 9, 12, 13, 25, 33, 36],
}


class Counting(Generator):
    """A generator that counts rows, and those that were completed; `whole` gives all log-probabilities at once."""

    rows = completed = 0
    whole = False

    def step(self, tokens: Tensor, state: Any) -> tuple[Any, Any]:
        hidden, state = self.body.step(tokens, state)  # type: ignore[operator]
        if self.whole:
            return self.head.log_probs(hidden), state  # type: ignore[operator]
        partial = self.head.partial_log_probs(hidden)  # type: ignore[operator]

        def complete(rows: Tensor) -> None:
            self.completed += len(rows)
            partial.complete(rows)

        self.rows += len(tokens)
        return partial._replace(complete=complete), state


def partial_model(tokenizer: Tokenizer, shortlist: Any, likely: float = 4.0) -> Counting:
    torch.manual_seed(5)
    size = len(tokenizer)
    model = Counting(AttentionLSTM(size, size, hidden_size=8), ShortlistMixture(8, size, 3, shortlist)).double().eval()
    uniform_(model, 1.0)
    with torch.no_grad():
        model.head.bias[model.head.shortlist.ids] += likely  # type: ignore[index,operator,union-attr]
    return model


def with_and_without(model: Counting, search: Callable[..., Any], tokenizer: Tokenizer, **options: Any) -> None:
    batch = decoding_batch([[3, 4, 5], [6], [], [7, 6, 5, 4, 3, 3, 4], [5, 5]])
    model.whole = False
    found = search(model, tokenizer, batch, **options)
    model.whole = True
    for ours, theirs in zip(found, search(model, tokenizer, batch, **options), strict=True):
        assert_same(ours, theirs)


@pytest.mark.parametrize("shortlist", list(SHORTLISTS))
@pytest.mark.parametrize("tokenizer", [MANY, CELLS], ids=["words", "table"])
@pytest.mark.parametrize("length_penalty", PENALTIES)
def test_beam_search_asks_for_the_tail_only_where_it_matters(
    length_penalty: float, tokenizer: Tokenizer, shortlist: str
) -> None:
    for likely in (0.0, 4.0):
        model = partial_model(tokenizer, SHORTLISTS[shortlist], likely)
        for beam_size in (1, 2, 3, 5, 40):
            options = {"beam_size": beam_size, "nbest": min(3, beam_size), "length_penalty": length_penalty}
            with_and_without(model, beam_search, tokenizer, **options, max_length=9)
        assert model.completed > 0
        if likely:
            assert model.completed < model.rows


@pytest.mark.parametrize("shortlist", list(SHORTLISTS))
@pytest.mark.parametrize("tokenizer", [MANY, CELLS], ids=["words", "table"])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 1.5])
def test_sampling_asks_for_the_tail_only_where_it_matters(
    temperature: float, tokenizer: Tokenizer, shortlist: str
) -> None:
    completed = 0
    for truncation in ({}, {"top_k": 1}, {"top_k": 5}, {"top_p": 0.3}, {"top_p": 0.9}, {"top_k": 6, "top_p": 0.8}):
        # At a smaller bias the tail of the shortlist without eos is so likely that every row needs it.
        model = partial_model(tokenizer, SHORTLISTS[shortlist], likely=6.0 if shortlist == "no eos" else 2.0)
        options = {"samples": 20, "temperature": temperature, "max_length": 9}
        with_and_without(model, sample, tokenizer, **options, **truncation)
        assert model.completed < model.rows
        completed += model.completed
    assert completed > 0


def test_missing_log_probs_are_below_the_bound() -> None:
    for shortlist in SHORTLISTS.values():
        head = partial_model(MANY, shortlist).head
        hidden = torch.randn(6, 8, dtype=torch.float64)
        whole = head(hidden).detach()
        partial = head.partial_log_probs(hidden)  # type: ignore[operator]
        assert isinstance(partial, PartialLogProbs)
        missing = partial.known == -torch.inf
        assert missing.sum() == 6 * partial.missing
        torch.testing.assert_close(whole.masked_fill(~missing, -torch.inf).logsumexp(1), partial.bound)
        torch.testing.assert_close(partial.known[~missing], whole[~missing])
        partial.complete(torch.tensor([4, 1]))
        torch.testing.assert_close(partial.known[[4, 1]], whole[[4, 1]])
        assert torch.equal(partial.known[[0, 2, 3, 5]] == -torch.inf, missing[[0, 2, 3, 5]])
