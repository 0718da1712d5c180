"""A small GPT-2 on WikiText-2: trained with one softmax, then turned into mixtures and trained on.

Needs `pip install 'fastmos[hf,text,bench]'` and a folder with WikiText-2 as train.txt.gz, valid.txt.gz and test.txt.gz:

    python examples/huggingface_wikitext2.py FOLDER -o runs/wikitext2

Every run resumes where it was stopped. The mixtures start as the softmax that was trained, so their loss starts where
its loss ended. `curves.png` shows all of them, `results.json` holds the figures.
"""

import argparse
import gzip
import json
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from fastmos.integrations.huggingface import sliding_window, with_mixture

WINDOW, BATCH, TEST = 128, 8, 65_536  # tokens; TEST of the test set, as a sliding window reads every one twice
Point = tuple[int, float]  # step, validation loss
HEADS: dict[str, dict[str, Any]] = {  # what the trained softmax becomes
    "one softmax": {},
    "mixture of 4": {"head": "mos", "mixtures": 4},
    "Mixtape": {"head": "mixtape"},
}


def read(path: Path) -> str:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read()


def tokenizer(text: str, vocab_size: int) -> Tokenizer:
    """Byte-level BPE, learned from the text."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        text.splitlines(keepends=True),
        trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False),
    )
    return made


def windows(tokens: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    """Rows of WINDOW tokens, one after the other."""
    rows = tokens[: len(tokens) // WINDOW * WINDOW].view(-1, WINDOW)
    return [{"input_ids": row, "labels": row} for row in rows]


def train(
    model: Any, folder: Path, steps: int, learning_rate: float, every: int, data: dict[str, Any]
) -> tuple[Any, list[Point]]:
    """Train, resume, or load what is done: the model, and its validation loss along the way."""
    if (folder / "model.safetensors").exists():
        (state,) = folder.glob("checkpoint-*/trainer_state.json")
        history = json.loads(state.read_text())["log_history"]
        model = AutoModelForCausalLM.from_pretrained(folder)
    else:
        arguments = TrainingArguments(
            output_dir=str(folder),
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            per_device_eval_batch_size=BATCH,
            learning_rate=learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=steps // 10,
            weight_decay=0.1,
            eval_strategy="steps",
            eval_steps=every,
            eval_on_start=True,
            logging_steps=every,
            save_steps=every,
            save_total_limit=1,
            report_to=[],
            use_cpu=not torch.cuda.is_available(),
            disable_tqdm=True,
            seed=1,
        )
        trainer = Trainer(model, arguments, train_dataset=data["train"], eval_dataset=data["curve"])
        trainer.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")))
        history = trainer.state.log_history
        trainer.save_model()
    # Of GPT-2, Trainer divides the loss by all labels, though the first of a window is no target.
    right = 1 if hasattr(model.config, "mixture") else WINDOW / (WINDOW - 1)
    return model, [(row["step"], row["eval_loss"] * right) for row in history if "eval_loss" in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1200, help="with one softmax")
    parser.add_argument("--further", type=int, default=300, help="more, with each head")
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--vocab-size", type=int, default=8000)
    options = parser.parse_args()

    texts = {split: read(options.data / f"{split}.txt.gz") for split in ("train", "valid", "test")}
    bpe = tokenizer(texts["train"], options.vocab_size)
    tokens = {split: torch.tensor(bpe.encode(text).ids) for split, text in texts.items()}
    data: dict[str, Any] = {"train": windows(tokens["train"]), "curve": windows(tokens["valid"])[: 8 * BATCH]}

    set_seed(1)
    config = GPT2Config(
        vocab_size=options.vocab_size,
        n_positions=WINDOW,
        n_embd=options.hidden_size,
        n_layer=options.layers,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    first = options.output / "plain"
    _, before = train(GPT2LMHeadModel(config), first, options.steps, 3e-3, options.steps // 12, data)
    curves = {"before": before}

    words = len(bpe.decode(tokens["test"][:TEST].tolist()).split(" "))
    results = {}
    for name, settings in HEADS.items():
        head = dict(settings)
        kind: Any = with_mixture(GPT2LMHeadModel, head.pop("head")) if head else GPT2LMHeadModel
        start = kind.from_pretrained(first, **head)
        set_seed(1)
        folder, every = options.output / name.replace(" ", "-"), options.further // 10
        model, curves[name] = train(start, folder, options.further, 1e-3, every, data)
        test = sliding_window(model, tokens["test"][:TEST], WINDOW, WINDOW // 2)
        results[name] = {
            "test NLL per token": test.nll,
            "test perplexity per token": test.perplexity,
            "test perplexity per word": math.exp(test.nll * test.tokens / words),
            "validation loss at start": curves[name][0][1],
            "validation loss at end": curves[name][-1][1],
        }
        print(name, json.dumps(results[name]), flush=True)
    (options.output / "results.json").write_text(json.dumps({"results": results, "curves": curves}, indent=1))
    draw(curves, options.steps, options.output / "curves.png")


def draw(curves: dict[str, list[Point]], steps: int, path: Path) -> None:
    """Validation loss over steps: all of it, and what follows the conversion."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (whole, end) = plt.subplots(1, 2, figsize=(10, 4))
    before = [(step, loss) for step, loss in curves["before"] if step]
    whole.plot(*zip(*before, strict=True), "k-", label="one softmax, trained from scratch")
    for name, curve in curves.items():
        if name != "before":
            for axes in (whole, end):
                axes.plot([steps + step for step, _ in curve], [loss for _, loss in curve], label=f"then {name}")
    for axes in (whole, end):
        axes.set_xlabel("steps")
        axes.axvline(steps, color="gray", linestyle=":")
    whole.set_ylabel("validation NLL per token")
    whole.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
