"""What holds for every model: steps agree with the whole, rows are independent, padding has no influence."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fastmos.data.batches import Batch
from fastmos.heads import MixtureOfSoftmaxes
from fastmos.models import AttentionLSTM, Generator, LanguageModel, Transformer, uniform_

TOKENS = 11
LENGTHS = [(3, 5), (6, 2), (1, 4), (0, 0)]
BODIES: dict[str, Callable[[], nn.Module]] = {
    "language model": lambda: LanguageModel(TOKENS, hidden_size=8, embedding_size=6, num_layers=2, dropout=0.3),
    "lstm": lambda: AttentionLSTM(TOKENS, TOKENS, hidden_size=8, embedding_size=6),
    "lstm of two layers": lambda: AttentionLSTM(TOKENS, TOKENS, hidden_size=8, num_layers=2, embedding_dropout=0.2),
    "lstm with input feeding": lambda: AttentionLSTM(TOKENS, TOKENS, hidden_size=8, num_layers=2, input_feeding=True),
    "transformer": lambda: Transformer(
        TOKENS, TOKENS, hidden_size=8, ffn_size=16, num_heads=2, num_layers=2, ffn_dropout=0.1
    ),
    "pre-norm transformer": lambda: Transformer(
        TOKENS, TOKENS, hidden_size=8, ffn_size=16, num_heads=2, num_layers=2, norm="pre", share_embeddings=True
    ),
}
every_body = pytest.mark.parametrize("body", list(BODIES))


def make(body: str) -> Generator:
    """In float64 and with weights that matter, so that only true equality passes."""
    module: Any = BODIES[body]()
    head = MixtureOfSoftmaxes(module.hidden_size, TOKENS, 3, embedding_size=5)
    generator = Generator(module, head).double().eval()
    if isinstance(module, Transformer):
        uniform_(generator.head, 0.5)
    else:
        uniform_(generator, 0.5)
    return generator


@every_body
def test_steps_give_the_log_probabilities_of_the_whole(body: str, make_batch: Callable[..., Any]) -> None:
    model, batch = make(body), make_batch(LENGTHS)
    output, _ = model(batch)
    state, nll = model.start(batch), []
    for tokens, target in zip(batch.inputs.T, batch.target.T, strict=True):
        log_probs, state = model.step(tokens, state)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(len(batch), dtype=torch.float64))
        nll.append(-log_probs.gather(1, target[:, None])[:, 0])
    real = batch.target != 0
    torch.testing.assert_close(torch.stack(nll, 1)[real], output.nll[real])
    torch.testing.assert_close(output.loss.detach(), output.nll.sum())
    assert output.tokens == real.sum() == sum(t + 1 for _, t in LENGTHS)


@every_body
def test_a_line_does_not_feel_its_batch_mates(body: str, make_batch: Callable[..., Any]) -> None:
    model, batch = make(body), make_batch(LENGTHS)
    together = model(batch)[0].nll
    for line, (source, target) in enumerate(LENGTHS):
        row, places = slice(line, line + 1), slice(target + 1)
        alone = Batch(
            batch.inputs[row, places], batch.target[row, places], batch.source[row, : source + 1], torch.arange(1)
        )
        torch.testing.assert_close(model(alone)[0].nll[0], together[line, : target + 1])


def prefix_log_probs(model: Generator, batch: Any, line: int, prefix: Tensor) -> Tensor:
    """What follows a prefix in one line, by feeding that prefix alone."""
    state = model.start(batch)
    for token in prefix:
        log_probs, state = model.step(token.expand(len(batch)), state)
    found: Tensor = log_probs[line]
    return found


@every_body
def test_rows_can_branch_move_and_leave(body: str, make_batch: Callable[..., Any]) -> None:
    model, batch = make(body), make_batch([(3, 1), (6, 1), (2, 1)])
    _, state = model.step(torch.tensor([1, 1, 1]), model.start(batch))
    state = model.reorder(state, torch.tensor([0, 0, 1, 1, 2, 2]))  # two rows a line
    _, state = model.step(torch.tensor([4, 5, 6, 7, 8, 9]), state)
    state = model.reorder(state, torch.tensor([1, 1, 0, 3, 2, 2, 4, 5, 5]))  # three rows a line, mixed
    _, state = model.step(torch.tensor([3, 4, 5, 6, 7, 8, 9, 3, 4]), state)
    state = model.reorder(state, torch.tensor([2, 0, 8, 6]), torch.tensor([0, 2]))  # line 1 leaves, two rows stay
    log_probs, state = model.step(torch.tensor([10, 3, 4, 5]), state)
    pasts = [(0, [1, 4, 5, 10]), (0, [1, 5, 3, 3]), (2, [1, 9, 4, 4]), (2, [1, 8, 9, 5])]
    for row, (line, past) in enumerate(pasts):
        torch.testing.assert_close(log_probs[row], prefix_log_probs(model, batch, line, torch.tensor(past)))
    # The lines change places, and one comes twice.
    state = model.reorder(state, torch.tensor([3, 0, 2]), torch.tensor([1, 0, 1]))
    log_probs, _ = model.step(torch.tensor([6, 7, 8]), state)
    for row, (line, past) in enumerate([(2, [1, 8, 9, 5, 6]), (0, [1, 4, 5, 10, 7]), (2, [1, 9, 4, 4, 8])]):
        torch.testing.assert_close(log_probs[row], prefix_log_probs(model, batch, line, torch.tensor(past)))


@every_body
def test_every_parameter_is_trained(body: str, make_batch: Callable[..., Any]) -> None:
    model = make(body).train()
    model(make_batch(LENGTHS))[0].loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@every_body
def test_a_batch_of_padding_has_no_loss_but_gradients(body: str, make_batch: Callable[..., Any]) -> None:
    model, batch = make(body), make_batch([(0, 0)])
    batch.target = torch.zeros_like(batch.target)
    output, _ = model(batch)
    output.loss.backward()
    assert output.loss.item() == 0 and output.tokens == 0
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


def test_uniform_reaches_every_parameter() -> None:
    model = Generator(AttentionLSTM(TOKENS, TOKENS, hidden_size=32), MixtureOfSoftmaxes(32, TOKENS, 2))
    uniform_(model, 0.1)
    for name, parameter in model.named_parameters():
        assert parameter.abs().max() <= 0.1 and parameter.std() > 0.02, name


AUTOCAST = """
import torch
from fastmos.tokenizers import WordTokenizer
from fastmos.data.batches import Batch
from fastmos.heads import MixtureOfSoftmaxes
from fastmos.models import AttentionLSTM, Generator, LanguageModel, Transformer
from fastmos.search import beam_search

tokenizer = WordTokenizer(list("abcdefg"))
tokens = torch.randint(4, 11, (3, 5), generator=torch.Generator().manual_seed(0))
source = tokens.masked_fill(torch.arange(5) > torch.tensor([4, 2, 1])[:, None], 0)
batch = Batch(tokens, tokens, source, torch.arange(3))
for body in (
    LanguageModel(11, hidden_size=16),
    AttentionLSTM(11, 11, hidden_size=16),
    AttentionLSTM(11, 11, hidden_size=16, input_feeding=True),
    Transformer(11, 11, hidden_size=16, ffn_size=32, num_heads=2, num_layers=2),
):
    model = Generator(body, MixtureOfSoftmaxes(16, 11, 2)).eval()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(batch)[0].loss
        beam_search(model, tokenizer, batch, max_length=5)
    loss.backward()
    torch.testing.assert_close(loss, model(batch)[0].loss, rtol=0.02, atol=0.0, check_dtype=False)
"""


def test_autocast() -> None:
    """In a process of its own, because some machines know bfloat16 only by an older instruction set."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", AUTOCAST], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
