"""A Trainer in the processes that `accelerate launch` starts: writes how many there are, and the loss of every step."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import transformers

from tests.integrations.tiny_models import inputs, mixture

if __name__ == "__main__":
    folder, batch = Path(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    tokens = inputs("gpt2", rows=8)["input_ids"]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        max_steps=3,
        logging_steps=1,
        learning_rate=0.01,
        per_device_train_batch_size=batch,
        train_sampling_strategy="sequential",
    )
    rows = [{"input_ids": row, "labels": row} for row in tokens]
    run = transformers.Trainer(mixture("gpt2"), arguments, train_dataset=rows)
    run.train()
    if run.is_world_process_zero():
        losses = [row["loss"] for row in run.state.log_history if "loss" in row]
        size = dist.get_world_size() if dist.is_initialized() else 1
        (folder / "found.json").write_text(json.dumps({"processes": size, "losses": losses}))
