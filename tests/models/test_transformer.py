"""The Transformer against torch's own, and its caches beyond their first size."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fastmos.errors import InputError
from fastmos.models import Transformer
from fastmos.models.transformer import FIRST_SLOTS, Attention, sinusoids


def copy_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    ours.query.weight.copy_(theirs.in_proj_weight[:8])
    ours.query.bias.copy_(theirs.in_proj_bias[:8])
    ours.key_value.weight.copy_(theirs.in_proj_weight[8:])
    ours.key_value.bias.copy_(theirs.in_proj_bias[8:])
    ours.out.load_state_dict(theirs.out_proj.state_dict())


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*nested.tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_equals_torch_transformer(norm: Any, make_batch: Callable[..., Any]) -> None:
    ours = Transformer(11, 11, hidden_size=8, ffn_size=16, num_heads=2, num_layers=2, norm=norm).double().eval()
    theirs = nn.Transformer(8, 2, 2, 2, 16, norm_first=norm == "pre", batch_first=True, dtype=torch.float64).eval()
    for parameter in theirs.parameters():
        parameter.uniform_(-0.5, 0.5)
    if norm == "post":  # Vaswani et al. have no norm after the last layer's own
        theirs.encoder.norm = theirs.decoder.norm = None
    pairs: list[tuple[Any, Any]] = [
        *zip(ours.encoder, theirs.encoder.layers, strict=True),
        *zip(ours.decoder, theirs.decoder.layers, strict=True),
    ]
    for mine, other in pairs:
        copy_attention(other.self_attn, mine.own)
        if hasattr(mine, "source"):
            copy_attention(other.multihead_attn, mine.source)
        mine.wide.load_state_dict(other.linear1.state_dict())
        mine.narrow.load_state_dict(other.linear2.state_dict())
        for index, layer_norm in enumerate(mine.norms, 1):
            layer_norm.load_state_dict(getattr(other, f"norm{index}").state_dict())
    if norm == "pre":
        ours.encoder_norm.load_state_dict(theirs.encoder.norm.state_dict())
        ours.decoder_norm.load_state_dict(theirs.decoder.norm.state_dict())
    batch = make_batch([(3, 5), (6, 2)])
    source, target = (
        embedding(tokens) * 8**0.5 + sinusoids(torch.arange(tokens.shape[1]), 8)
        for embedding, tokens in ((ours.source_embedding, batch.source), (ours.embedding, batch.inputs))
    )
    causal = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
    pad = batch.source == 0
    expected = theirs(source, target, tgt_mask=causal, src_key_padding_mask=pad, memory_key_padding_mask=pad)
    torch.testing.assert_close(ours(batch)[0], expected)


def test_sinusoids() -> None:
    table = sinusoids(torch.arange(3), 4)
    expected = [[0, 0, 1, 1], [0.841471, 0.0099998, 0.540302, 0.99995], [0.909297, 0.0199987, -0.416147, 0.9998]]
    torch.testing.assert_close(table, torch.tensor(expected), atol=1e-6, rtol=1e-6)


@torch.no_grad()
def test_the_cache_grows(make_batch: Callable[..., Any]) -> None:
    model = Transformer(11, 11, hidden_size=8, ffn_size=16, num_heads=2, num_layers=1).double().eval()
    batch = make_batch([(3, 2 * FIRST_SLOTS), (2, 2 * FIRST_SLOTS)])
    expected, _ = model(batch)
    state, twice = model.start(batch), torch.tensor([0, 0, 1, 1])
    state = model.reorder(state, twice)
    for time, tokens in enumerate(batch.inputs.T):
        hidden, state = model.step(tokens[twice], state)
        torch.testing.assert_close(hidden, expected[twice, time])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"hidden_size": 12, "num_heads": 4}, "hidden_size 12 must be a multiple of twice num_heads"),
        ({"norm": "middle"}, "norm must be 'post' or 'pre', not 'middle'"),
        ({"share_embeddings": True}, "one vocabulary, not 11 and 12 tokens"),
    ],
)
def test_bad_options(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Transformer(11, 12, **options)
