"""`fastmos bench tokenizers`: words a second beside subword-nmt, tokenizers and sentencepiece."""

import io
import os
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np

from fastmos.files import read_lines, write_json
from fastmos.measure import interleaved
from fastmos.progress import progress
from fastmos.provenance import provenance
from fastmos.tokenizers import BPETokenizer, TableTokenizer, Tokenizer, WordTokenizer, tokenizer_from_json

SEED = 0
Encode = Callable[[], object]


def run(quick: bool, output: Path | None, text: Path | None = None) -> None:
    """Measure on one core and print a table; write it with its provenance if a file is named."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    lines = list(read_lines(text)) if text else generated_lines(3_000 if quick else 60_000)
    words = sum(len(line.split()) for line in lines)
    print(f"{text or 'generated text'}: {len(lines):,} lines, {words:,} words; one core, words a second")
    size = 2_000 if quick else 10_000
    learn: dict[str, float] = {}
    encoders: dict[str, Encode] = {}
    for name, learner in progress(CONTENDERS.items(), "learning", len(CONTENDERS)):
        start = time.perf_counter()
        encoders[name] = learner(lines, size)
        learn[name] = words / (time.perf_counter() - start)
    times = interleaved(encoders, rounds=2 if quick else 3)
    rows = [
        {"tokenizer": name, "learn": learn[name], "encode": words / times[name].median, "spread": times[name].spread}
        for name in CONTENDERS
    ]
    print(f"{'':18} {'learn':>12} {'encode':>12}")
    for row in rows:
        print(f"{row['tokenizer']:18} {row['learn']:12,.0f} {row['encode']:12,.0f}")
    if output:
        about = {"text": str(text or "generated"), "lines": len(lines), "words": words, "vocab_size": size}
        write_json(output, {"provenance": provenance(SEED), **about, "rows": rows})


def generated_lines(count: int) -> list[str]:
    """Lines of invented words whose frequencies fall off as those of a language do."""
    random = np.random.default_rng(SEED)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    chances = np.linspace(2.0, 0.1, len(letters)) / np.linspace(2.0, 0.1, len(letters)).sum()
    vocabulary = ["".join(random.choice(letters, random.integers(2, 12), p=chances)) for _ in range(30_000)]
    ranks = np.exp(random.random(count * 20) * np.log(len(vocabulary))).astype(int) - 1  # Zipf's law
    return [" ".join(vocabulary[rank] for rank in line) for line in ranks.reshape(count, 20)]


def _afresh(tokenizer: Tokenizer, lines: Sequence[str]) -> Encode:
    """Encode as a new process would, with nothing remembered."""
    saved = tokenizer.to_json()
    return lambda: tokenizer_from_json(saved).encode_lines(lines)


def _words(lines: Sequence[str], size: int) -> Encode:
    return _afresh(WordTokenizer.learn(lines, vocab_size=3 * size), lines)


def _table(lines: Sequence[str], size: int) -> Encode:
    return _afresh(TableTokenizer.learn(lines, vocab_size=size, words=3 * size), lines)


def _bpe(lines: Sequence[str], size: int) -> Encode:
    return _afresh(BPETokenizer.learn(lines, vocab_size=size), lines)


def _tokenizers(lines: Sequence[str], size: int) -> Encode:
    """The Rust trainer and its batch call, with the same kind of pieces."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import Split
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE(unk_token="⟨unk⟩", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = Split(" ", "removed")
    trainer = BpeTrainer(vocab_size=size, special_tokens=["⟨unk⟩"], end_of_word_suffix="</w>", show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    saved = tokenizer.to_str()

    def encode() -> list[list[int]]:
        fresh = Tokenizer.from_str(saved)
        return [encoding.ids for encoding in fresh.encode_batch_fast(list(lines), add_special_tokens=False)]

    return encode


def _subword_nmt(lines: Sequence[str], size: int) -> Encode:
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    merges = io.StringIO()
    with redirect_stderr(io.StringIO()):  # it draws a bar
        learn_bpe(io.StringIO("".join(f"{line}\n" for line in lines)), merges, size, total_symbols=True)

    def encode() -> list[str]:
        bpe = BPE(io.StringIO(merges.getvalue()))
        return [bpe.segment(line) for line in lines]

    return encode


def _sentencepiece(lines: Sequence[str], size: int) -> Encode:
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

    model = io.BytesIO()
    options: dict[str, Any] = {"model_type": "bpe", "vocab_size": size, "hard_vocab_limit": False}
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, num_threads=1, minloglevel=2, **options
    )

    def encode() -> object:
        return SentencePieceProcessor(model_proto=model.getvalue()).encode(list(lines), num_threads=1)

    return encode


CONTENDERS: dict[str, Callable[[Sequence[str], int], Encode]] = {
    "words": _words,
    "table": _table,
    "bpe": _bpe,
    "tokenizers bpe": _tokenizers,
    "subword-nmt bpe": _subword_nmt,
    "sentencepiece bpe": _sentencepiece,
}
