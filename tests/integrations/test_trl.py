"""TRL's trainers and PEFT's LoRA, the real packages, on tiny models: the loss is the mixture's, and it goes down."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
from fastmos.integrations.huggingface.trl import replaces_head  # noqa: E402
from tests.integrations.tiny_models import CAUSAL, FEW, K, inputs, mixture, text_tokenizer  # noqa: E402

LETTERS = "abcdefgh"
SETTINGS: dict[str, Any] = {
    "report_to": [],
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "save_strategy": "no",
    "max_steps": 6,
    "per_device_train_batch_size": 4,
    "learning_rate": 3e-2,
    "logging_steps": 1,
}
FAMILIES = [family for family in FEW if family in CAUSAL]


def lora(head: bool = True) -> Any:
    return peft.LoraConfig(task_type="CAUSAL_LM", r=4, modules_to_save=["lm_head"] if head else None)


def losses(run: Any) -> list[float]:
    return [row["loss"] for row in run.state.log_history if "loss" in row]


@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_sft(family: str, adapter: bool, tmp_path: Path) -> None:
    model = mixture(family)
    rows = datasets.Dataset.from_list([{"text": LETTERS}] * 8)
    run = trl.SFTTrainer(
        model,
        trl.SFTConfig(output_dir=str(tmp_path), **SETTINGS),
        train_dataset=rows,
        processing_class=text_tokenizer(),
        peft_config=lora() if adapter else None,
    )
    batch = next(iter(run.get_train_dataloader()))
    run.train()
    first, *_, last = losses(run)
    expected = mixture(family)(**{name: batch[name] for name in ("input_ids", "labels")}).loss
    assert first == pytest.approx(float(expected), rel=1e-3)
    assert last < first
    head = run.model.get_output_embeddings()
    assert not torch.equal(head.latent.weight, mixture(family).lm_head.latent.weight)
    logged = next(row for row in run.state.log_history if "entropy" in row)
    log_probs = mixture(family)(batch["input_ids"]).logits[:, :-1]
    kept = batch["labels"][:, 1:] != -100
    entropy = torch.special.entr(log_probs.exp()).sum(-1)[kept].mean()
    assert logged["entropy"] == pytest.approx(float(entropy), rel=1e-3)
    right = (log_probs.argmax(-1) == batch["labels"][:, 1:])[kept].float().mean()
    assert logged["mean_token_accuracy"] == pytest.approx(float(right), rel=1e-3)


@pytest.mark.parametrize("adapter", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_dpo(family: str, adapter: bool, tmp_path: Path) -> None:
    rows = datasets.Dataset.from_list([{"prompt": "abc", "chosen": "defg", "rejected": "hijk"}] * 8)
    reference = None if adapter else mixture(family)
    run = trl.DPOTrainer(
        mixture(family),
        reference,
        trl.DPOConfig(output_dir=str(tmp_path), **SETTINGS),
        train_dataset=rows,
        processing_class=text_tokenizer(),
        peft_config=lora() if adapter else None,
    )
    run.train()
    first, *_, last = losses(run)
    assert first == pytest.approx(0.6931, abs=1e-3)  # both models are the same, log 2
    assert last < first
    said = next(row for row in run.state.log_history if "logps/chosen" in row)
    tokens = text_tokenizer()("abcdefg</s>", return_tensors="pt", add_special_tokens=False)["input_ids"]
    tokens = torch.cat([text_tokenizer()("abcdefg", return_tensors="pt")["input_ids"], torch.tensor([[2]])], 1)
    log_probs = mixture(family)(tokens).logits[0, 2:-1].gather(1, tokens[0, 3:, None])
    assert said["logps/chosen"] == pytest.approx(float(log_probs.sum()), rel=1e-3)


def test_the_output_has_every_field_of_trls() -> None:
    """Each beside its definition, and with the gradient of the loss."""
    model, tokens = mixture("llama"), inputs("llama")["input_ids"]
    labels = tokens.clone()
    labels[0, 2:4] = -100
    trl.trainer.utils.add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    assert not replaces_head(model.forward)
    out = model(tokens, labels=labels, fused_lm_head=True)
    log_probs = model(tokens).logits[:, :-1]
    mask = labels[:, 1:] != -100
    assert torch.equal(out.label_mask, mask)
    expected = {
        "log_probs": log_probs.gather(-1, tokens[:, 1:, None])[..., 0],
        "entropy": -(log_probs.exp() * log_probs).sum(-1),
        "log_sum_sq_probs": log_probs.exp().square().sum(-1).log(),
        "mean_logits": log_probs.mean(-1),
        "is_top1": log_probs.argmax(-1) == tokens[:, 1:],
    }
    for name, values in expected.items():
        torch.testing.assert_close(out[name], values * mask, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out.loss, model(tokens, labels=labels).loss)
    (found,) = torch.autograd.grad(out.log_probs.sum(), [model.lm_head.latent.weight])
    (right,) = torch.autograd.grad((expected["log_probs"] * mask).sum(), [model.lm_head.latent.weight])
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)
    shifted = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=-100)
    again = model(tokens, shift_labels=shifted, fused_lm_head=True)
    torch.testing.assert_close(again.log_probs[:, :-1], out.log_probs)


@pytest.mark.parametrize("family", FEW)
def test_lora_trains_saves_and_loads(family: str, tmp_path: Path) -> None:
    base = mixture(family)
    base.save_pretrained(tmp_path / "base")
    kind = "CAUSAL_LM" if family in CAUSAL else "SEQ_2_SEQ_LM"
    base = type(base).from_pretrained(tmp_path / "base")
    targets = ["q_proj", "v_proj"] if family == "marian" else None  # PEFT has no default for it
    model = peft.get_peft_model(
        base, peft.LoraConfig(task_type=kind, r=4, modules_to_save=["lm_head"], target_modules=targets)
    )
    batch = inputs(family)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], 0.05)
    found = []
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the prior and the contexts")
        for _ in range(5):
            loss = model(**batch, labels=batch["input_ids"]).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(float(loss))
    assert found[-1] < found[0]
    model.save_pretrained(tmp_path / "adapter")
    auto = peft.AutoPeftModelForCausalLM if family in CAUSAL else peft.AutoPeftModelForSeq2SeqLM
    again = auto.from_pretrained(tmp_path / "adapter").eval()
    torch.testing.assert_close(again(**batch).logits, model.eval()(**batch).logits)
    merged = again.merge_and_unload()
    assert type(merged) is type(base)
    torch.testing.assert_close(merged(**batch).logits, model(**batch).logits, rtol=1e-4, atol=1e-4)


def test_lora_that_freezes_the_mixture_is_warned_of() -> None:
    model = peft.get_peft_model(mixture("gpt2"), lora(head=False)).train()
    batch = inputs("gpt2")
    with pytest.warns(UserWarning, match='frozen.*modules_to_save=."lm_head".'):
        model(**batch, labels=batch["input_ids"])
    assert model.base_model.model.lm_head.mixtures == K
