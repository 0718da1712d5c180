"""A small GPT-2 with a mixture of softmaxes learns to copy: train with Trainer, save, load, generate.

Needs `pip install fastmos[hf]`, no network and no GPU; takes less than a minute. Run it as

    python examples/huggingface_gpt2.py
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from fastmos.integrations.huggingface import with_mixture

LETTERS, LENGTH = 16, 5  # tokens 0 to 15; a line is 5 of them and the same 5 again


def lines(count: int, seed: int) -> torch.Tensor:
    half = torch.randint(LETTERS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
    return torch.cat([half, half], 1)


def main() -> float:
    """Train, and return the share of unseen lines whose second half comes out right."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=LETTERS,
        n_positions=2 * LENGTH,
        n_embd=64,
        n_layer=2,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    MixtureGPT2 = with_mixture(GPT2LMHeadModel)
    model = MixtureGPT2(config, mixtures=4)

    examples = []
    for line in lines(64 * 150, seed=1):
        labels = line.clone()
        labels[:LENGTH] = -100  # the first half is random: nothing to learn there
        examples.append({"input_ids": line, "labels": labels})

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=64,
            learning_rate=3e-3,
            warmup_steps=20,
            logging_steps=50,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        Trainer(model=model, args=arguments, train_dataset=examples).train()
        model.save_pretrained(folder)
        model = MixtureGPT2.from_pretrained(folder)

    unseen = lines(200, seed=2)
    start = unseen[:, :LENGTH]
    out = model.generate(start, attention_mask=torch.ones_like(start), max_new_tokens=LENGTH, num_beams=2)
    right = float((out == unseen).all(1).float().mean())
    print(f"{right:.0%} of 200 unseen lines are copied without a mistake")
    return right


if __name__ == "__main__":
    main()
