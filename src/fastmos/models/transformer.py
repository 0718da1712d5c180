"""The Transformer (Vaswani et al. 2017), with the norm after each sub-layer as there, or before it.

One `Attention` serves encoder, decoder and cache: its keys and values are computed apart from its queries, so they can
be of the same text, of the source, or of what was read in steps before.
"""

import math
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fastmos.data.batches import Batch
from fastmos.errors import InputError
from fastmos.heads.products import Linear, PackedProduct
from fastmos.tokenizers import PAD

Norm = Literal["post", "pre"]
FIRST_SLOTS = 64  # of a cache
ALIGNED = 16  # of as many keys, or a multiple, a softmax takes a tenth of the time that one key less takes
POSITIONS = 256  # whose sinusoids are kept, at first


class Attention(nn.Module):
    """Queries of one text attend to keys and values of another, in several heads."""

    joint: PackedProduct | None = None  # of a copy for search

    def __init__(self, hidden_size: int, num_heads: int, dropout: float) -> None:
        super().__init__()
        self.num_heads, self.head_size, self.dropout = num_heads, hidden_size // num_heads, dropout
        self.query = Linear(hidden_size, hidden_size)
        self.key_value = Linear(hidden_size, 2 * hidden_size)
        self.out = Linear(hidden_size, hidden_size)

    def pack_(self, int8: bool) -> None:
        """Make queries, keys and values of one text by one product."""
        weight = torch.cat([self.query.weight, self.key_value.weight])
        self.joint = PackedProduct(weight, torch.cat([self.query.bias, self.key_value.bias]), int8)

    def queries(self, x: Tensor) -> Tensor:
        return self._heads(self.query(x))[0]  # [B, H, T, D/H]

    def keys_values(self, x: Tensor) -> Tensor:
        return self._heads(self.key_value(x))  # [2, B, H, S, D/H]

    def of_one_text(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Its queries, and its keys and values."""
        if self.joint is None:
            return self.queries(x), self.keys_values(x)
        all_three = self._heads(self.joint(x))  # [3, B, H, T, D/H]
        return all_three[0], all_three[1:]

    def _heads(self, x: Tensor) -> Tensor:
        """Several [B, T, D] side by side, cut into heads [.., B, H, T, D/H]."""
        return x.view(*x.shape[:2], -1, self.num_heads, self.head_size).permute(2, 0, 3, 1, 4)

    def forward(self, queries: Tensor, keys_values: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        keys, values = keys_values.unbind()
        dropout = self.dropout if self.training else 0.0
        read = F.scaled_dot_product_attention(queries, keys, values, mask, dropout, causal)  # [B, H, T, D/H]
        return self.out(read.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]  # [B, T, D]


class Slots(NamedTuple):
    """One layer's part of a cache."""

    keys_values: Tensor  # [2, B, H, C, D/H]
    used: int

    def append(self, new: Tensor) -> Tensor:
        """Fill the next slots, and give all filled ones, and some empty ones that make them a multiple of `ALIGNED`."""
        end = self.used + new.shape[3]
        self.keys_values[:, :, :, self.used : end] = new
        return self.keys_values[:, :, :, : aligned(end)]


class Layer(nn.Module):
    """Self-attention and feed-forward, each with its residual and norm; a decoder's attends to the source between."""

    def __init__(
        self,
        hidden_size: int,
        ffn_size: int,
        num_heads: int,
        dropout: float,
        ffn_dropout: float,
        norm: Norm,
        sublayers: int = 2,
    ) -> None:
        super().__init__()
        self.norm, self.dropout, self.ffn_dropout = norm, dropout, ffn_dropout
        self.own = Attention(hidden_size, num_heads, ffn_dropout)
        self.wide, self.narrow = Linear(hidden_size, ffn_size), Linear(ffn_size, hidden_size)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden_size) for _ in range(sublayers))

    def before(self, x: Tensor, sublayer: int) -> Tensor:
        return self.norms[sublayer](x) if self.norm == "pre" else x

    def after(self, x: Tensor, change: Tensor, sublayer: int) -> Tensor:
        x = x + (F.dropout(change, self.dropout) if self.training else change)
        return self.norms[sublayer](x) if self.norm == "post" else x

    def feed_forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.wide(self.before(x, -1)))
        if self.training:
            inner = F.dropout(inner, self.ffn_dropout)
        return self.after(x, self.narrow(inner), -1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        queries, keys_values = self.own.of_one_text(self.before(x, 0))  # [B, H, S, D/H]
        return self.feed_forward(self.after(x, self.own(queries, keys_values, mask), 0))


class DecoderLayer(Layer):
    """Reads a whole text x [B, T, D] at once, or the next token of each row with the cached past it may see."""

    def __init__(
        self, hidden_size: int, ffn_size: int, num_heads: int, dropout: float, ffn_dropout: float, norm: Norm
    ) -> None:
        super().__init__(hidden_size, ffn_size, num_heads, dropout, ffn_dropout, norm, sublayers=3)
        self.source = Attention(hidden_size, num_heads, ffn_dropout)

    def forward(  # type: ignore[override]
        self, x: Tensor, source: Tensor, source_mask: Tensor, past: Slots | None = None, mine: Tensor | None = None
    ) -> Tensor:
        queries, keys_values = self.own.of_one_text(self.before(x, 0))
        if past is None:
            x = self.after(x, self.own(queries, keys_values, causal=True), 0)
        else:
            x = self.after(x, self.own(queries, past.append(keys_values), mine), 0)
        x = self.after(x, self.source(self.source.queries(self.before(x, 1)), source, source_mask), 1)
        return self.feed_forward(x)


class TransformerState(NamedTuple):
    """The encoded sentences, and the keys and values of all tokens any of their rows has read.

    Beams share a past, and change places at every step. So rows never copy theirs: all rows of a sentence write into
    one cache, and `mine` marks the slots of each row's own past.
    """

    source: Tensor  # [layers, 2, B, H, S, D/H]
    source_bias: Tensor  # [B, 1, 1, S] 0 at source tokens, -inf elsewhere: added to the scores of attention
    cache: Tensor  # [layers, 2, B, H, C, D/H]
    mine: Tensor  # [N, C] 0 at the slots of a row's own past, -inf elsewhere
    used: int  # slots that are filled
    position: int


class Transformer(nn.Module):
    """Encoder and decoder with `num_layers` each. Base: 512, 2048, 8 heads, 6 layers; big: 1024, 4096, 16, 6."""

    positions: Tensor  # [positions, D] their sinusoids

    def __init__(
        self,
        source_vocab_size: int,
        target_vocab_size: int,
        *,
        hidden_size: int = 512,
        ffn_size: int = 2048,
        num_heads: int = 8,
        num_layers: int = 6,
        dropout: float = 0.1,
        ffn_dropout: float = 0.0,
        norm: Norm = "post",
        share_embeddings: bool = False,
    ) -> None:
        super().__init__()
        if hidden_size % (2 * num_heads):
            raise InputError(f"hidden_size {hidden_size} must be a multiple of twice num_heads, {2 * num_heads}")
        if norm not in ("post", "pre"):
            raise InputError(f"norm must be 'post' or 'pre', not {norm!r}")
        if share_embeddings and source_vocab_size != target_vocab_size:
            raise InputError(
                f"share_embeddings needs one vocabulary, not {source_vocab_size} and {target_vocab_size} tokens"
            )
        self.hidden_size, self.num_heads, self.num_layers, self.dropout = hidden_size, num_heads, num_layers, dropout
        self.embedding = nn.Embedding(target_vocab_size, hidden_size)
        self.source_embedding = self.embedding if share_embeddings else nn.Embedding(source_vocab_size, hidden_size)
        self.register_buffer("positions", sinusoids(torch.arange(POSITIONS), hidden_size), persistent=False)

        sizes = (hidden_size, ffn_size, num_heads, dropout, ffn_dropout, norm)
        self.encoder = nn.ModuleList(Layer(*sizes) for _ in range(num_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*sizes) for _ in range(num_layers))
        pre = norm == "pre"  # a sum of sub-layers needs a norm at its end
        self.encoder_norm: nn.Module = nn.LayerNorm(hidden_size) if pre else nn.Identity()
        self.decoder_norm: nn.Module = nn.LayerNorm(hidden_size) if pre else nn.Identity()
        self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.hidden_size**-0.5)

    def forward(self, batch: Batch, state: None = None) -> tuple[Tensor, None]:
        memory, source_mask = self._encode(batch)  # [B, S, D]
        x = self._embed(self.embedding, batch.inputs)  # [B, T, D]
        for layer in self._decoder():
            x = layer(x, layer.source.keys_values(memory), source_mask)
        return self.decoder_norm(x), None

    def start(self, batch: Batch) -> TransformerState:
        memory, source_mask = self._encode(batch)
        more = aligned(memory.shape[1]) - memory.shape[1]
        memory, source_mask = F.pad(memory, (0, 0, 0, more)), F.pad(source_mask, (0, more))
        source = torch.stack([layer.source.keys_values(memory) for layer in self._decoder()])
        shape = (self.num_layers, 2, len(memory), self.num_heads, FIRST_SLOTS, self.hidden_size // self.num_heads)
        source_bias = memory.new_zeros(source_mask.shape).masked_fill_(~source_mask, -torch.inf)
        mine = memory.new_full((len(memory), FIRST_SLOTS), -torch.inf)
        return TransformerState(source, source_bias, memory.new_zeros(shape), mine, 0, 0)

    def step(self, tokens: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        sentences, rows = state.source.shape[2], len(tokens) // state.source.shape[2]  # rows of each sentence
        while state.used + rows > state.cache.shape[4]:
            state = _with_room(state, rows)
        source, source_bias, cache, mine, used, position = state
        slots = mine.view(sentences, 1, rows, -1)
        slots[..., used : used + rows] = slots.new_full((rows, rows), -torch.inf).fill_diagonal_(0)
        slots = slots[..., : aligned(used + rows)]
        x = self._embed(self.embedding, tokens.view(sentences, rows), position)  # [B, rows, D]
        for index, layer in enumerate(self._decoder()):
            x = layer(x, source[index], source_bias, Slots(cache[index], used), slots)
        state = TransformerState(source, source_bias, cache, mine, used + rows, position + 1)
        return self.decoder_norm(x).flatten(0, 1), state

    def reorder(self, state: TransformerState, rows: Tensor, sentences: Tensor | None = None) -> TransformerState:
        source, source_bias, cache, mine, used, position = state
        if sentences is not None:
            source, cache = _select(source, sentences), _select(cache, sentences)
            source_bias = source_bias.index_select(0, sentences)
        return TransformerState(source, source_bias, cache, mine.index_select(0, rows), used, position)

    def _encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.source is not None, "this model translates: its batches need a source"
        mask = (batch.source != PAD)[:, None, None]  # [B, 1, 1, S]
        x = self._embed(self.source_embedding, batch.source)  # [B, S, D]
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def _decoder(self) -> list[DecoderLayer]:
        return list(self.decoder)  # type: ignore[arg-type]

    def _embed(self, embedding: nn.Module, tokens: Tensor, position: int | None = None) -> Tensor:
        """Embedded tokens [B, T] at positions 0..T-1, or all at one position."""
        first, last = (0, tokens.shape[1]) if position is None else (position, position + 1)
        if last > len(self.positions):
            self.positions = sinusoids(torch.arange(2 * last, device=tokens.device), self.hidden_size)
        x = embedding(tokens) * math.sqrt(self.hidden_size)
        x = x + self.positions[first:last].to(x.dtype)
        return F.dropout(x, self.dropout) if self.training else x


def _with_room(state: TransformerState, rows: int) -> TransformerState:
    """The same with more empty slots: those that no row has in its past any more, or else twice as many."""
    source, source_bias, cache, mine, _, position = state
    layers, two, sentences, heads, size, _ = cache.shape
    needed = (mine.view(sentences, -1, size) == 0).any(1)  # [B, C] by any row
    kept = int(needed.sum(1).max())
    if 4 * kept > 3 * size or kept + rows > size:
        cache, mine = F.pad(cache, (0, 0, 0, size)), F.pad(mine, (0, size), value=-torch.inf)
        return TransformerState(source, source_bias, cache, mine, state.used, position)
    slots = needed.byte().sort(dim=1, descending=True, stable=True).indices[:, :kept]  # [B, kept]
    first = torch.arange(0, layers * two * sentences * heads * size, size, device=slots.device)  # of each head's slots
    places = first.view(-1, sentences, heads, 1) + slots[:, None]
    cache[..., :kept, :] = cache.reshape(-1, cache.shape[5])[places.flatten()].view(*cache.shape[:4], kept, -1)
    rows_of_each = len(mine) // sentences
    mine = mine.gather(1, slots.repeat_interleave(rows_of_each, 0))
    return TransformerState(source, source_bias, cache, F.pad(mine, (0, size - kept), value=-torch.inf), kept, position)


def _select(memory: Tensor, sentences: Tensor) -> Tensor:
    """Some sentences of [layers, 2, B, ...], in place: those that keep their number are not copied."""
    if len(sentences) > memory.shape[2]:
        return memory.index_select(2, sentences)
    moved = (sentences != torch.arange(len(sentences), device=sentences.device)).nonzero()[:, 0]
    memory[:, :, moved] = memory[:, :, sentences[moved]]
    return memory[:, :, : len(sentences)]


def aligned(count: int) -> int:
    """The next multiple of `ALIGNED`."""
    return -(-count // ALIGNED) * ALIGNED


def sinusoids(positions: Tensor, hidden_size: int) -> Tensor:
    """Positions [T] as sines and cosines of wavelengths from 2 pi to 20,000 pi [T, D]."""
    rates = torch.exp(
        torch.arange(hidden_size // 2, device=positions.device) * (-math.log(10_000.0) / (hidden_size // 2))
    )
    angles = positions[:, None] * rates  # [T, D/2]
    return torch.cat([angles.sin(), angles.cos()], 1)
