"""Costs by one pass over the text, and held-out figures, each beside its definition."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fastmos.data.batches import SentenceBatches, decoding_batch
from fastmos.distributed import World
from fastmos.heads import Softmax
from fastmos.models import Generator, LanguageModel
from fastmos.tables.assignment import assign
from fastmos.tables.costs import held_out, table_costs
from fastmos.tasks.evaluation import at_once
from fastmos.tokenizers import EOS, TableTokenizer
from tests.tables.tiny import LINES, small_table

ALONE = World(0, 1, torch.device("cpu"))


def model_of(tokenizer: TableTokenizer) -> Generator:
    """Large weights and dropout, so that a pass that leaves dropout on, or sums too little, is found out."""
    body = LanguageModel(len(tokenizer), hidden_size=8, dropout=0.5)
    model = Generator(body, Softmax(8, len(tokenizer))).double()
    torch.nn.init.normal_(model.head.weight)  # type: ignore[arg-type]
    return model.train()


@pytest.mark.parametrize("frequent", [0, 2])
@pytest.mark.parametrize("buffer", [1, 2**22])
def test_costs_are_those_of_the_definition(
    frequent: int, buffer: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastmos.tables.costs.BUFFER", buffer)
    tokenizer, text = small_table(tmp_path, [*LINES, "an unknown cat"], frequent)
    model = model_of(tokenizer)
    batches = SentenceBatches(text.tokens(tokenizer), max_tokens=30)
    costs = table_costs(model, tokenizer, batches.epoch(0), ALONE)

    model.eval()
    R, Q = np.zeros((len(tokenizer.table_words), 3)), np.zeros((len(tokenizer.table_words), 4))
    first_row = 4 + frequent
    for line in [*LINES, "an unknown cat"]:
        state = model.start(decoding_batch([[]]))
        token = tokenizer.bos
        for word in line.split():
            tokens = tokenizer.encode(word)
            for position, next_token in enumerate(tokens):
                log_probs, state = model.step(torch.tensor([token]), state)
                if len(tokens) == 2:
                    place = tokenizer.table_words.index(word)
                    nll = -log_probs[0].detach().numpy()
                    if position == 0:
                        R[place] += nll[first_row : first_row + 3]
                    else:
                        Q[place] += nll[first_row + 3 :]
                token = next_token
    np.testing.assert_allclose(costs.R.numpy(), R, rtol=1e-9)
    np.testing.assert_allclose(costs.Q.numpy(), Q, rtol=1e-9)
    row, column = np.divmod(tokenizer.cells, 4)
    everyone = np.arange(len(row))
    assert costs.objective == pytest.approx(float((R[everyone, row] + Q[everyone, column]).sum()))
    assert assign(costs.R, costs.Q).cost < costs.objective  # the best table is better than one at random


def test_an_objective_that_is_not_the_loss_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, text = small_table(tmp_path, LINES)
    model = model_of(tokenizer)
    batches = SentenceBatches(text.tokens(tokenizer), max_tokens=30)
    monkeypatch.setattr("fastmos.tables.costs._at", lambda sums, places: float(sums.min()))
    with pytest.raises(AssertionError, match="the loss at its words"):
        table_costs(model, tokenizer, batches.epoch(0), ALONE)


@pytest.mark.parametrize("lines", [[*LINES, "an unknown cat"], ["the the", ""]])
def test_held_out_figures_are_those_of_the_definition(lines: list[str], tmp_path: Path) -> None:
    tokenizer, text = small_table(tmp_path, lines)
    model = model_of(tokenizer)
    found = held_out(model, tokenizer, text.tokens(tokenizer), ALONE, at_once)
    model.eval()
    sums = {"all": [0.0, 0], "table": [0.0, 0], "unknown": [0.0, 0]}
    for line in lines:
        state, token = model.start(decoding_batch([[]])), tokenizer.bos
        for tokens in [*map(tokenizer.encode, line.split()), [EOS]]:
            nll = 0.0
            for next_token in tokens:
                log_probs, state = model.step(torch.tensor([token]), state)
                nll -= log_probs[0, next_token].item()
                token = next_token
            kinds = {"all": True, "table": len(tokens) == 2, "unknown": tokens == [tokenizer.unk]}
            for kind in (kind for kind, belongs in kinds.items() if belongs):
                sums[kind] = [sums[kind][0] + nll, sums[kind][1] + 1]
    assert found.nll_per_word == pytest.approx(sums["all"][0] / sums["all"][1])
    known = (sums["all"][0] - sums["unknown"][0]) / (sums["all"][1] - sums["unknown"][1])
    assert found.nll_per_known_word == pytest.approx(known)
    if sums["table"][1]:
        assert found.nll_per_table_word == pytest.approx(sums["table"][0] / sums["table"][1])
    else:
        assert found.nll_per_table_word is None
