"""Batches hold every sentence once, keep the budget, and are the same however the work is split or resumed."""

from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastmos.data.batches import Batch, ContiguousBatches, SentenceBatches, decoding_batch
from fastmos.data.tokenized import TokenizedText
from fastmos.errors import InputError
from fastmos.tokenizers import BOS, EOS, PAD


def text_of(lengths: list[int], seed: int = 0) -> TokenizedText:
    random = np.random.default_rng(seed)
    return TokenizedText.of([random.integers(4, 99, length).tolist() for length in lengths], "text")


def pairs(count: int, shortest: int = 1, longest: int = 12) -> tuple[TokenizedText, TokenizedText]:
    lengths = np.random.default_rng(count).integers(shortest, longest + 1, (2, count)).tolist()
    return text_of(lengths[0], 1), text_of(lengths[1], 2)


def lines(batches: list[Batch]) -> list[list[int]]:
    return [batch.index.tolist() for batch in batches]


def content(row: torch.Tensor) -> list[int]:
    tokens = row[row != PAD].tolist()
    assert tokens[-1] == EOS
    return tokens[:-1]


lengths_of_pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=60)
by_tokens = st.integers(10, 60).map(lambda tokens: {"max_tokens": tokens})
by_sentences = st.integers(1, 20).map(lambda sentences: {"max_sentences": sentences})


@given(lengths_of_pairs, by_tokens | by_sentences, st.integers(1, 4), st.integers(0, 5), st.booleans())
def test_an_epoch_of_any_number_of_ranks_is_one_process_with_the_whole_budget(
    lengths: list[tuple[int, int]], size: dict[str, Any], world: int, epoch: int, shuffle: bool
) -> None:
    target, source = text_of([a for a, _ in lengths]), text_of([b for _, b in lengths], 1)
    common: dict[str, Any] = {"seed": 3, "shuffle": shuffle, "keep_empty": True}
    whole = SentenceBatches(target, source, **{key: value * world for key, value in size.items()}, **common)
    ranks = [SentenceBatches(target, source, **size, **common, rank=rank, world=world) for rank in range(world)]
    steps = list(whole.epoch(epoch))
    shares = [list(rank.epoch(epoch)) for rank in ranks]

    assert sorted(chain.from_iterable(lines(steps))) == list(range(len(lengths)))
    assert whole.steps(epoch) == len(steps) == len(shares[0]) and len({len(share) for share in shares}) == 1
    for step, dealt in zip(steps, zip(*shares, strict=True), strict=True):
        rows = [line for batch in dealt for line in batch.index.tolist() if line >= 0]
        assert sorted(rows) == sorted(step.index.tolist())
        assert sum(batch.num_tokens for batch in dealt) == step.num_tokens
        assert sum(batch.sentences for batch in dealt) == step.sentences == len(step)
        if "max_tokens" in size:
            assert step.source is not None
            assert max(step.target.numel(), step.source.numel()) <= size["max_tokens"] * world


@given(lengths_of_pairs, by_tokens | by_sentences)
def test_rows_are_the_lines_with_bos_eos_and_padding(lengths: list[tuple[int, int]], size: dict[str, Any]) -> None:
    target, source = text_of([a for a, _ in lengths]), text_of([b for _, b in lengths], 1)
    for batch in SentenceBatches(target, source, **size, keep_empty=True).epoch(0):
        assert batch.source is not None and batch.fresh and batch.features is None
        assert batch.num_tokens == int((batch.target != PAD).sum())
        for row, line in enumerate(batch.index.tolist()):
            assert content(batch.target[row]) == target[line].tolist()
            assert content(batch.source[row]) == source[line].tolist()
            inputs = batch.inputs[row]
            assert inputs[inputs != PAD].tolist() == [BOS, *target[line].tolist()]


@pytest.mark.parametrize("size", [{"max_tokens": 100}, {"max_sentences": 7}])
def test_order_follows_from_seed_and_epoch(size: dict[str, Any]) -> None:
    target, source = pairs(300)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return lines(list(SentenceBatches(target, source, **size, seed=seed).epoch(epoch)))

    assert order(1, 4) == order(1, 4)
    assert order(1, 4) != order(1, 5) and order(1, 4) != order(2, 4)
    assert {frozenset(step) for step in order(1, 4)} != {frozenset(step) for step in order(1, 5)}, "new company too"


@pytest.mark.parametrize("size", [{"max_tokens": 100}, {"max_sentences": 7}])
def test_starting_at_a_step_gives_what_skipping_to_it_gives(size: dict[str, Any]) -> None:
    target, source = pairs(200)
    batches = SentenceBatches(target, source, **size, seed=5)
    whole = lines(list(batches.epoch(2)))
    for start in (0, 1, len(whole) // 2, len(whole)):
        resumed = SentenceBatches(target, source, **size, seed=5)
        assert lines(list(resumed.epoch(2, start))) == whole[start:]


def test_steps_before_the_start_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    target, source = pairs(200)
    batches = SentenceBatches(target, source, max_sentences=2)
    built: list[int] = []
    monkeypatch.setattr(batches, "_batch", lambda chosen: built.append(len(chosen)))
    assert len(list(batches.epoch(0, batches.steps(0) - 3))) == len(built) == 3


def test_batches_by_sentences_are_full_but_for_the_last() -> None:
    target, source = pairs(10_007)  # several pools
    sizes = sorted(len(batch) for batch in SentenceBatches(target, source, max_sentences=50).epoch(0))
    assert sizes == [7] + [50] * 200


def test_lines_of_a_batch_are_of_similar_length() -> None:
    target, source = pairs(20_000, longest=60)
    batches = list(SentenceBatches(target, source, max_tokens=2_000).epoch(0))
    cells = sum(max(batch.target.numel(), 0 if batch.source is None else batch.source.numel()) for batch in batches)
    needed = int(np.maximum(target.lengths, source.lengths).sum()) + len(target)
    assert cells < 1.05 * needed


def test_many_pools_hold_every_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastmos.data.batches.POOL_SENTENCES", 1)
    monkeypatch.setattr("fastmos.data.batches.POOL_BATCHES", 2)
    target, source = pairs(500)
    found = lines(list(SentenceBatches(target, source, max_tokens=50).epoch(0)))
    assert sorted(chain.from_iterable(found)) == list(range(500))


# Target and source lengths of four pairs; what is kept, and the longest row, for each way of treating them.
MIXED = [(3, 3), (0, 3), (8, 2), (2, 9)]


@pytest.mark.parametrize(
    ("options", "kept", "widest", "counts"),
    [
        ({}, [0, 2, 3], 10, (1, 0)),
        ({"keep_empty": True}, [0, 1, 2, 3], 10, (0, 0)),
        ({"max_length": 8}, [0, 2], 9, (1, 1)),
        ({"max_length": 5}, [0], 4, (1, 2)),
    ],
)
def test_empty_and_overlong_pairs(
    options: dict[str, Any], kept: list[int], widest: int, counts: tuple[int, int]
) -> None:
    target, source = text_of([a for a, _ in MIXED]), text_of([b for _, b in MIXED], 1)
    batches = SentenceBatches(target, source, max_sentences=10, **options)
    (batch,) = batches.epoch(0)
    assert batch.source is not None
    assert sorted(batch.index.tolist()) == kept and len(batches) == len(kept)
    assert max(batch.target.shape[1], batch.source.shape[1]) == widest
    assert batch.num_tokens == int((batch.target != PAD).sum())
    assert (batches.empty, batches.overlong) == counts


def test_a_language_model_keeps_empty_lines() -> None:
    (batch,) = SentenceBatches(text_of([0, 2]), max_sentences=2).epoch(0)
    assert batch.source is None and batch.target.shape == (2, 3) and batch.num_tokens == 4
    row = batch.index.tolist().index(0)
    assert batch.target[row].tolist() == [EOS, PAD, PAD] and batch.inputs[row].tolist() == [BOS, PAD, PAD]


def test_a_rank_without_rows_gets_one_that_teaches_nothing() -> None:
    target, source = pairs(1)
    batch = next(SentenceBatches(target, source, max_sentences=2, rank=1, world=2).epoch(0))
    assert (len(batch), batch.num_tokens, batch.sentences, batch.index.tolist()) == (1, 0, 0, [-1])
    assert batch.source is not None and (batch.target == PAD).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "exactly one"),
        ({"max_tokens": 5, "max_sentences": 5}, "exactly one"),
        ({"max_tokens": 0}, "positive"),
        ({"max_sentences": -1}, "positive"),
        ({"max_sentences": 5, "max_length": 0}, "positive"),
        ({"max_tokens": 9}, "longest line of text or its partner .10 tokens"),
        ({"max_sentences": 5, "max_length": 1}, "all 4 lines are empty or too long"),
    ],
)
def test_impossible_sizes_are_refused(options: dict[str, Any], sentence: str) -> None:
    target, source = text_of([a for a, _ in MIXED]), text_of([b for _, b in MIXED], 1)
    with pytest.raises(InputError, match=sentence):
        SentenceBatches(target, source, **options)


def joined(text: TokenizedText) -> list[int]:
    return [token for line in range(len(text)) for token in [*text[line].tolist(), EOS]]


@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(1, 5), st.integers(1, 9), st.integers(1, 3))
def test_streams_joined_again_are_the_text(lengths: list[int], streams: int, length: int, world: int) -> None:
    text = text_of(lengths)
    ranks = [ContiguousBatches(text, streams=streams, length=length, rank=rank, world=world) for rank in range(world)]
    shares = [list(rank.epoch(0)) for rank in ranks]
    assert {len(share) for share in shares} == {ranks[0].steps(0)}
    rows = [torch.cat([batch.target[row] for batch in share], 0) for share in shares for row in range(streams)]
    # Rank r holds the streams r, r + world, ...: put them in the text's order again.
    order = [row * world + rank for rank in range(world) for row in range(streams)]
    found = torch.cat([rows[place] for place in np.argsort(order)]).tolist()
    whole = joined(text)
    assert found[: len(whole)] == whole and set(found[len(whole) :]) <= {PAD}
    assert sum(batch.num_tokens for share in shares for batch in share) == len(whole)
    assert [batch.fresh for batch in shares[0]] == [True] + [False] * (len(shares[0]) - 1)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(1, 5), st.integers(1, 9))
def test_inputs_of_streams_are_the_tokens_before(lengths: list[int], streams: int, length: int) -> None:
    text = text_of(lengths)
    whole = joined(text)
    before = [BOS, *(BOS if token == EOS else token for token in whole)]
    stride = -(-len(whole) // streams)
    batches = ContiguousBatches(text, streams=streams, length=length)
    for step, batch in enumerate(batches.epoch(0)):
        for row in range(streams):
            begin = row * stride + step * length
            real = batch.target[row] != PAD
            assert batch.inputs[row][real].tolist() == before[begin : begin + int(real.sum())]


def test_streams_resume_at_a_step() -> None:
    batches = ContiguousBatches(text_of([5] * 40), streams=3, length=7)
    whole = list(batches.epoch(0))
    for start in range(len(whole) + 1):
        resumed = list(batches.epoch(1, start))
        assert [batch.target.tolist() for batch in resumed] == [batch.target.tolist() for batch in whole[start:]]


@pytest.mark.parametrize("options", [{"streams": 0, "length": 5}, {"streams": 2, "length": 0}])
def test_impossible_streams_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="positive"):
        ContiguousBatches(text_of([3]), **options)


def test_no_text_is_refused() -> None:
    with pytest.raises(InputError, match="no lines"):
        ContiguousBatches(text_of([]), streams=1, length=1)
    with pytest.raises(InputError, match="all 0 lines"):
        SentenceBatches(text_of([]), max_sentences=1)


def test_features_of_the_lines_come_with_their_batch() -> None:
    features = torch.arange(5.0)[:, None]
    batches = SentenceBatches(text_of([3, 1, 4, 1, 5]), max_sentences=2, features=lambda lines: features[lines])
    for batch in batches.epoch(0):
        assert batch.features is not None and batch.features[:, 0].tolist() == batch.index.tolist()
    spare = SentenceBatches(text_of([3]), max_sentences=1, rank=1, world=2, features=lambda lines: features[lines])
    (filler,) = spare.epoch(0)
    assert filler.features is not None and filler.features.tolist() == [[0.0]]


def test_decoding_batch_keeps_order_and_empty_lines() -> None:
    batch = decoding_batch([[7, 8], [], [9]])
    assert batch.source is not None
    assert batch.source.tolist() == [[7, 8, EOS], [EOS, PAD, PAD], [9, EOS, PAD]]
    assert len(batch) == 3 and batch.index.tolist() == [0, 1, 2]
    assert batch.target.shape == batch.inputs.shape == (3, 0) and batch.num_tokens == 0
    assert len(decoding_batch([])) == 0


def test_a_batch_moves_to_a_device_but_for_its_line_numbers() -> None:
    target, source = pairs(3)
    (batch,) = SentenceBatches(target, source, max_sentences=3).epoch(0)
    batch.features = torch.ones(3, 2)
    moved = batch.to("meta", non_blocking=True)
    assert moved.source is not None and moved.features is not None
    parts = (moved.inputs, moved.target, moved.source, moved.features)
    assert {part.device.type for part in parts} == {"meta"} and moved.index.device.type == "cpu"
    assert (moved.num_tokens, moved.sentences, moved.fresh, len(moved)) == (batch.num_tokens, 3, True, 3)


def test_tokens_are_counted_when_not_given() -> None:
    target = torch.tensor([[5, EOS, PAD], [5, 6, EOS]])
    assert Batch(target, target, None, torch.arange(2)).num_tokens == 5
