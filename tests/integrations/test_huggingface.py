"""The mixture in tiny random Hugging Face models: right numbers, generation, training, saving, and what is refused."""

import copy
import functools
import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers")
from fastmos.errors import InputError  # noqa: E402
from fastmos.integrations.huggingface import with_mixture  # noqa: E402
from tests.integrations.tiny_models import (  # noqa: E402
    CAUSAL,
    FAMILIES,
    FEW,
    LIKE_BART,
    LIKE_T5,
    D,
    K,
    V,
    build,
    inputs,
    mixture,
)


def truth(model: Any, batch: dict[str, Tensor]) -> Tensor:
    """Equations 1 and 2 in float64 on what the plain class, given our weights, sends into its `lm_head`."""
    plain = model.plain(model.config).eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    seen: list[Tensor] = []
    plain.lm_head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        plain(**batch)
    hidden, head = seen[0].double(), model.lm_head  # [B, T, D]
    turned = torch.tanh(hidden @ head.latent.weight.double().T + head.latent.bias.double())
    contexts = hidden[:, :, None] + head.latent.scale.double() * turned.view(*hidden.shape[:2], K, -1)
    logits = contexts @ head.weight.double().T  # [B, T, K, V]
    if hasattr(model, "final_logits_bias"):
        logits = logits + model.final_logits_bias.double()
    log_prior = (hidden @ head.prior.weight.double().T).log_softmax(-1)
    return torch.logsumexp(logits.log_softmax(-1) + log_prior[..., None], 2).detach()


def true_nll(log_probs: Tensor, labels: Tensor, causal: bool) -> Tensor:
    """[B, T] negative log-likelihoods, 0 at ignored labels."""
    if causal:
        log_probs, labels = log_probs[:, :-1], labels[:, 1:]
    picked = log_probs.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return torch.where(labels == -100, 0.0, -picked)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_loss_are_the_mixtures(family: str) -> None:
    model, batch = mixture(family), inputs(family)
    expected = truth(model, batch)
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits.double(), expected, rtol=1e-5, atol=1e-5)
    labels = batch["input_ids"].clone()
    labels[0, 2:4] = -100
    nll = true_nll(expected, labels, family in CAUSAL)
    count = int((labels[:, 1:] if family in CAUSAL else labels).ne(-100).sum())
    out = model(**batch, labels=labels)
    assert out.logits is None  # nothing of size N x V, unless asked for
    assert out.loss.item() == pytest.approx(float(nll.sum()) / count, rel=1e-5)
    assert model(**batch, labels=labels, num_items_in_batch=50).loss.item() == pytest.approx(
        float(nll.sum()) / 50, rel=1e-5
    )
    model.return_logits = True
    asked = model(**batch, labels=labels, num_items_in_batch=torch.tensor(50), return_dict=False)
    assert asked[0].item() == pytest.approx(float(nll.sum()) / 50, rel=1e-5)
    torch.testing.assert_close(asked[1].double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", [*LIKE_BART, *LIKE_T5])
def test_the_decoder_reads_the_labels_as_the_plain_one_does(family: str) -> None:
    model, batch = mixture(family), {"input_ids": inputs(family)["input_ids"]}
    batch["labels"] = batch["input_ids"].flip(1)
    batch["labels"][0, 2:4] = -100
    nll = true_nll(truth(model, batch), batch["labels"], causal=False)
    assert model(**batch).loss.item() == pytest.approx(float(nll.sum() / nll.count_nonzero()), rel=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_a_batch_without_targets_has_zero_loss_and_zero_gradients(family: str) -> None:
    model, batch = mixture(family), inputs(family)
    loss = model(**batch, labels=torch.full_like(batch["input_ids"], -100)).loss
    loss.backward()
    assert loss.item() == 0
    assert all(float(p.grad.abs().max()) == 0 for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("keep", [1, 3, torch.tensor([0, 4])])
def test_only_the_logits_to_keep_are_built(keep: int | Tensor) -> None:
    model, batch = mixture("llama"), inputs("llama")
    whole = model(**batch).logits
    kept = model(**batch, logits_to_keep=keep).logits
    torch.testing.assert_close(kept, whole[:, -keep:] if isinstance(keep, int) else whole[:, keep])


def test_labels_that_are_shifted_already() -> None:
    model, batch = mixture("gpt2"), inputs("gpt2")
    tokens = batch["input_ids"]
    shifted = torch.cat([tokens[:, 1:], torch.full_like(tokens[:, :1], -100)], 1)
    torch.testing.assert_close(model(**batch, shift_labels=shifted).loss, model(**batch, labels=tokens).loss)


def score(model: Any, family: str, source: Tensor, sequence: Tensor) -> Tensor:
    """Sum of the log-probabilities of what was generated, by one uncached pass."""
    batch = {"input_ids": source, "decoder_input_ids": sequence} if family not in CAUSAL else {"input_ids": sequence}
    start = 1 if family not in CAUSAL else source.shape[1]
    log_probs: Tensor = model(**batch).logits[:, start - 1 : -1]
    return log_probs.gather(-1, sequence[:, start:, None]).sum((1, 2))


@pytest.mark.parametrize("family", FAMILIES)
def test_generation(family: str) -> None:
    model = mixture(family)
    source = inputs(family)["input_ids"]
    limit = {"max_new_tokens": 5, "min_new_tokens": 5}
    greedy = model.generate(source, do_sample=False, **limit)
    batch = {"input_ids": source, "decoder_input_ids": greedy} if family not in CAUSAL else {"input_ids": greedy}
    log_probs = model(**batch).logits.clone()
    log_probs[..., model.config.eos_token_id] = -torch.inf  # min_new_tokens forbids it
    assert torch.equal(log_probs[:, -6:-1].argmax(-1), greedy[:, -5:])
    beams = model.generate(
        source, num_beams=4, length_penalty=0.0, return_dict_in_generate=True, output_scores=True, **limit
    )
    torch.testing.assert_close(
        score(model, family, source, beams.sequences), beams.sequences_scores, rtol=1e-4, atol=1e-4
    )
    torch.manual_seed(0)
    drawn = model.generate(source.repeat(50, 1), do_sample=True, top_k=0, **limit)
    assert drawn.shape[0] == 100
    assert len(set(drawn[:, -1].tolist())) > 5


@pytest.mark.parametrize("family", FAMILIES)
def test_saving_loading_and_resizing(family: str, tmp_path: Path) -> None:
    model, batch = mixture(family), inputs(family)
    tied = family != "llama"
    model.save_pretrained(tmp_path / "mixture")
    again = type(model).from_pretrained(tmp_path / "mixture").eval()
    assert again.config.mixture["mixtures"] == K
    assert (again.lm_head.weight is again.get_input_embeddings().weight) == tied
    assert torch.equal(again(**batch).logits, model(**batch).logits)

    again.resize_token_embeddings(V + 5)
    assert again(**batch).logits.shape[-1] == V + 5
    assert (again.lm_head.weight is again.get_input_embeddings().weight) == tied
    assert torch.equal(again.lm_head.weight[:V], model.lm_head.weight)
    assert torch.equal(again.lm_head.latent.weight, model.lm_head.latent.weight)
    again(**batch, labels=batch["input_ids"]).loss.backward()
    again.save_pretrained(tmp_path / "resized")
    resized = type(model).from_pretrained(tmp_path / "resized").eval()
    assert torch.equal(resized(**batch).logits, again(**batch).logits)
    again.resize_token_embeddings(V)
    torch.testing.assert_close(again(**batch).logits, model(**batch).logits)


class Named(with_mixture(transformers.GPT2LMHeadModel)):  # type: ignore[misc]
    """A mixture that can be imported by its name."""


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart", "t5"])
def test_pickling_and_copying(family: str, tmp_path: Path) -> None:
    model, batch = mixture(family), inputs(family)
    torch.save(model, tmp_path / "model.pt")
    for again in (torch.load(tmp_path / "model.pt", weights_only=False), copy.deepcopy(model)):
        assert type(again) is type(model)
        assert (again.lm_head.weight is again.get_input_embeddings().weight) == (family != "llama")
        assert torch.equal(again(**batch).logits, model(**batch).logits)
        torch.nn.init.zeros_(again.lm_head.latent.weight)
        assert model.lm_head.latent.weight.any()


def test_a_pickle_is_read_by_a_new_process(tmp_path: Path) -> None:
    named = Named(build("gpt2")[1], mixtures=K)
    assert type(pickle.loads(pickle.dumps(named))) is Named
    torch.save(mixture("gpt2"), tmp_path / "model.pt")
    token = "import sys, torch; print(type(torch.load(sys.argv[1], weights_only=False)).__name__)"
    command = [sys.executable, "-c", token, str(tmp_path / "model.pt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "MixtureGPT2LMHeadModel", done.stderr


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart", "t5"])
def test_starting_from_a_plain_model(family: str, tmp_path: Path) -> None:
    model_class, config = build(family)
    plain = model_class(config)
    plain.save_pretrained(tmp_path)
    model = with_mixture(model_class).from_pretrained(tmp_path, mixtures=K)
    assert torch.equal(model.lm_head.weight, plain.lm_head.weight)
    with torch.no_grad():
        expected = plain.eval()(**inputs(family)).logits.log_softmax(-1)
        torch.testing.assert_close(model.eval()(**inputs(family)).logits, expected, rtol=0, atol=1e-5)
    assert 0.7 < float(model.lm_head.latent.weight.detach().std()) * D**0.5 < 1.3
    assert float(model.lm_head.latent.bias.detach().abs().max()) == 0
    log_probs = model.eval()(**inputs(family)).logits
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones_like(log_probs[..., 0]))


def test_a_replaced_forward_is_refused() -> None:
    model, batch = mixture("llama"), inputs("llama")
    before = model(**batch).logits

    def linear_cross_entropy_forward(self: Any, input_ids: Tensor) -> Tensor:  # what kernel patches do
        return self.model(input_ids).last_hidden_state @ self.lm_head.weight.T  # type: ignore[no-any-return]

    ours = model.forward
    model.forward = types.MethodType(linear_cross_entropy_forward, model)
    with pytest.raises(InputError, match="bypasses the mixture"):
        model(**batch)
    model.forward = functools.wraps(ours)(lambda *args, **kwargs: ours(*args, **kwargs))  # as accelerate wraps it
    assert torch.equal(model(**batch).logits, before)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_another_output_layer_is_refused(family: str) -> None:
    model = mixture(family)
    with pytest.raises(InputError, match="a Linear would take the mixture's place"):
        model.set_output_embeddings(torch.nn.Linear(D, V))
    model.set_output_embeddings(mixture(family).lm_head)
    assert model(**inputs(family)).logits.shape[-1] == V


def test_a_patched_plain_class_does_not_reach_the_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = mixture("llama"), inputs("llama")
    before = model(**batch).logits
    monkeypatch.setattr(transformers.LlamaForCausalLM, "forward", lambda *_, **__: None)
    assert torch.equal(model(**batch).logits, before)


def test_what_cannot_have_a_mixture_is_refused() -> None:
    model_class, config = build("gpt2")
    with pytest.raises(InputError, match="mixtures=9"):
        with_mixture(model_class)(config)
    with pytest.raises(InputError, match="already has a mixture"):
        with_mixture(with_mixture(model_class))
    for wrong in (transformers.GPT2Model, dict, model_class(config)):
        with pytest.raises(InputError, match="needs a transformers class that generates"):
            with_mixture(wrong)
    config.final_logit_softcapping = 30.0
    with pytest.raises(InputError, match="final_logit_softcapping"):
        with_mixture(model_class)(config, mixtures=2)


DECODER = {"hidden_size": D, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
MIXTRAL = {**DECODER, "num_key_value_heads": 2, "num_local_experts": 2}
UDOP = {"d_model": D, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "image_size": 32}
PROPHETNET = {"hidden_size": D, "num_encoder_layers": 1, "num_decoder_layers": 1}


@pytest.mark.parametrize(
    ("family", "kind", "settings", "said"),
    [
        ("Gemma2", "ForCausalLM", {**DECODER, "final_logit_softcapping": 1.0}, "logits by final_logit_softcapping"),
        ("RecurrentGemma", "ForCausalLM", DECODER, "logits by logits_soft_cap"),
        ("Mamba", "ForCausalLM", {"hidden_size": D, "num_hidden_layers": 1}, "past_key_values"),
        ("Mixtral", "ForCausalLM", {**MIXTRAL, "output_router_logits": True}, "loss of its routers"),
        ("ProphetNet", "ForConditionalGeneration", PROPHETNET, "does not read the decoder's last hidden state"),
        ("Udop", "ForConditionalGeneration", UDOP, "does not read the decoder's last hidden state"),
        ("Bert", "LMHeadModel", {**DECODER, "is_decoder": True}, "no linear lm_head"),
        ("Roberta", "ForCausalLM", {**DECODER, "is_decoder": True}, "no linear lm_head"),
    ],
)
def test_unsupported_models_are_refused(family: str, kind: str, settings: dict[str, Any], said: str) -> None:
    config = getattr(transformers, f"{family}Config")(vocab_size=V, **settings)
    with pytest.raises(InputError, match=f"{family}{kind} .*{said}"):
        with_mixture(getattr(transformers, family + kind))(config, mixtures=2)


def test_the_loss_of_routers_is_refused_when_it_is_asked_for_later() -> None:
    config = transformers.MixtralConfig(vocab_size=V, **MIXTRAL)
    model, batch = with_mixture(transformers.MixtralForCausalLM)(config, mixtures=2), inputs("llama")
    assert model(**batch, labels=batch["input_ids"], output_router_logits=False).loss.isfinite()
    with pytest.raises(InputError, match="loss of its routers"):
        model(**batch, labels=batch["input_ids"], output_router_logits=True)
    model.config.output_router_logits = True
    with pytest.raises(InputError, match="loss of its routers"):
        model(**batch, labels=batch["input_ids"])


# --- Trainer ---------------------------------------------------------------------------------------------------------


def rows(family: str) -> list[dict[str, Tensor]]:
    """Four examples of one length with 6, 3, 1 and 5 labels that count (the first of a causal model's does not)."""
    tokens = inputs(family, 4)["input_ids"]
    examples = []
    for row, kept in zip(tokens, (6, 3, 1, 5), strict=True):
        labels = row.clone()
        labels[:-kept] = -100
        examples.append({"input_ids": row, "labels": labels})
    return examples


def trainer(model: Any, folder: Path, examples: list[dict[str, Tensor]], **settings: Any) -> Any:
    kind = "Seq2Seq" if model.config.is_encoder_decoder else ""
    arguments = getattr(transformers, f"{kind}TrainingArguments")(
        output_dir=str(folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        max_grad_norm=0.0,
        optim="sgd",
        learning_rate=0.1,
        lr_scheduler_type="constant",
        max_steps=1,
        train_sampling_strategy="sequential",
        **settings,
    )
    return getattr(transformers, f"{kind}Trainer")(
        model=model, args=arguments, train_dataset=examples, eval_dataset=examples
    )


@pytest.mark.parametrize("family", FEW)
def test_gradient_accumulation_counts_every_target_once(family: str, tmp_path: Path) -> None:
    """One step of Trainer, in one batch or accumulated, is one step down the mean over all the targets."""
    examples = rows(family)
    reference = mixture(family)
    together = {name: torch.stack([example[name] for example in examples]) for name in examples[0]}
    reference.train()(**together).loss.backward()
    stepped = {name: p.detach() - 0.1 * p.grad for name, p in reference.named_parameters() if p.grad is not None}
    for settings in (
        {"per_device_train_batch_size": 4},
        {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4},
    ):
        model = mixture(family)
        trainer(model, tmp_path, examples, **settings).train()
        for name, parameter in model.named_parameters():
            if name in stepped:
                torch.testing.assert_close(parameter.detach(), stepped[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5"])
def test_label_smoothing_of_the_arguments_and_of_the_fused_loss_agree(family: str, tmp_path: Path) -> None:
    examples = rows(family)
    if family == "t5":  # Trainer takes the labels away, so the decoder's input must be there (DataCollatorForSeq2Seq)
        for example in examples:
            example["decoder_input_ids"] = example["input_ids"].flip(0)
    ours, theirs = mixture(family), mixture(family)
    ours.label_smoothing = 0.3
    trainer(ours, tmp_path, examples, per_device_train_batch_size=4).train()
    trainer(theirs, tmp_path, examples, per_device_train_batch_size=4, label_smoothing_factor=0.3).train()
    plain = mixture(family)
    trainer(plain, tmp_path, examples, per_device_train_batch_size=4).train()
    torch.testing.assert_close(ours.lm_head.latent.weight, theirs.lm_head.latent.weight, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(ours.lm_head.latent.weight, plain.lm_head.latent.weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "marian"])
def test_evaluation_builds_no_logits_unless_metrics_ask(family: str, tmp_path: Path) -> None:
    examples = rows(family)
    model = mixture(family)
    together = {name: torch.stack([example[name] for example in examples]) for name in examples[0]}
    expected = model(**together).loss.item()
    shapes: list[Any] = []
    model.register_forward_hook(lambda *args: shapes.append(args[-1].get("logits")))
    run = trainer(model, tmp_path, examples, per_device_eval_batch_size=4)
    assert run.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
    assert shapes == [None]
    model.return_logits = True
    run.compute_metrics = lambda prediction: {"vocab_size": prediction.predictions.shape[-1]}
    keys = ["past_key_values", "encoder_last_hidden_state"]
    assert run.evaluate(ignore_keys=keys)["eval_vocab_size"] == V


def test_seq2seq_trainer_predicts_by_generation(tmp_path: Path) -> None:
    model = mixture("bart")
    run = trainer(model, tmp_path, rows("bart"), predict_with_generate=True, per_device_eval_batch_size=4)
    predictions = run.predict(run.eval_dataset, max_length=6).predictions
    assert predictions.shape[0] == 4
    assert predictions.max() < V
