"""Saved mixtures load as mixtures, by whatever loads models; new ones start as the softmax that they replace."""

import copy
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")
from fastmos.errors import InputError  # noqa: E402
from fastmos.heads import HEADS  # noqa: E402
from fastmos.integrations import huggingface  # noqa: E402
from fastmos.integrations.huggingface import with_mixture  # noqa: E402
from tests.integrations.tiny_models import (  # noqa: E402
    CAUSAL,
    FAMILIES,
    FEW,
    LIKE_BART,
    K,
    V,
    build,
    inputs,
    mixture,
    text_tokenizer,
)

OPTIONS: dict[str, dict[str, Any]] = {
    "softmax": {},
    "mos": {"mixtures": K},
    "moc": {"mixtures": K},
    "shortlist": {"mixtures": K, "shortlist": [3, 5, 6, 20]},
    "shared-tail": {"mixtures": K, "shortlist": 7},
    "mixtape": {"shortlist": 7},
}


def auto_class(family: str) -> Any:
    return transformers.AutoModelForCausalLM if family in CAUSAL else transformers.AutoModelForSeq2SeqLM


@pytest.mark.parametrize("family", FAMILIES)
def test_auto_classes_load_the_mixture(family: str, tmp_path: Path) -> None:
    model, batch = mixture(family), inputs(family)
    model.save_pretrained(tmp_path)
    again = auto_class(family).from_pretrained(tmp_path).eval()
    assert type(again) is type(model)
    assert torch.equal(again(**batch).logits, model(**batch).logits)
    assert again.config.model_type == build(family)[1].model_type  # PEFT and others look it up
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "fastmos"
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    assert isinstance(config, build(family)[0].config_class)
    assert pickle.loads(pickle.dumps(config)).to_dict() == config.to_dict()
    fresh = auto_class(family).from_config(config)
    assert fresh.lm_head.mixtures == K


@pytest.mark.parametrize("family", ["gpt2", "bart"])
def test_plain_models_load_as_before(family: str, tmp_path: Path) -> None:
    model_class, config = build(family)
    mixture(family)
    model_class(config).save_pretrained(tmp_path)
    assert type(auto_class(family).from_pretrained(tmp_path)) is model_class
    assert not hasattr(config, "mixture")


def test_without_the_import_loading_fails_and_names_us(tmp_path: Path) -> None:
    mixture("gpt2").save_pretrained(tmp_path)
    program = "import sys; from transformers import AutoModelForCausalLM as A; A.from_pretrained(sys.argv[1])"
    for before, works in (("", False), ("import fastmos.integrations.huggingface; ", True)):
        command = [sys.executable, "-c", before + program, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == works
        assert works or "model type `fastmos`" in done.stderr
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "import fastmos.integrations.huggingface" in card
    assert "AutoModelForCausalLM.from_pretrained" in card and 'the head "mos" of fastmos' in card


@pytest.mark.parametrize("entry", [3, {}, {"model": 3}, {"model": "MixtureOfNothing"}])
def test_an_entry_that_names_no_model_gets_a_sentence(entry: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "fastmos", "mixture": entry}))
    with pytest.raises(InputError, match=r"^config.json names the model .*, which transformers \S+ lacks$"):
        transformers.AutoConfig.from_pretrained(tmp_path)


def test_a_model_card_that_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    mixture("gpt2").save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_an_auto_class_of_another_kind_refuses(tmp_path: Path) -> None:
    mixture("bart").save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)  # BART has a causal class, too


def test_a_saved_model_of_another_class_is_refused(tmp_path: Path) -> None:
    mixture("gpt2").save_pretrained(tmp_path)
    with pytest.raises(InputError, match="a saved MixtureGPT2LMHeadModel was given to MixtureLlamaForCausalLM"):
        with_mixture(transformers.LlamaForCausalLM).from_pretrained(tmp_path)
    with pytest.raises(InputError, match="load it with MixtureGPT2LMHeadModel"):
        with_mixture(transformers.GPT2LMHeadModel, "mixtape").from_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for name in ("MixtureUnheardOf", "MixtureGPT2Model", "eval"):
        (tmp_path / "config.json").write_text(json.dumps({**config, "mixture": {**config["mixture"], "model": name}}))
        with pytest.raises(InputError, match=f"names the model {name}"):
            transformers.AutoConfig.from_pretrained(tmp_path)


def test_other_options_than_the_saved_ones_are_refused(tmp_path: Path) -> None:
    mixture("gpt2").save_pretrained(tmp_path)
    model_class = with_mixture(transformers.GPT2LMHeadModel)
    assert model_class.from_pretrained(tmp_path, mixtures=K).lm_head.mixtures == K
    with pytest.raises(InputError, match=f"mixtures=7 was given, but the saved MixtureGPT2LMHeadModel has {K}"):
        model_class.from_pretrained(tmp_path, mixtures=7)


class Named(with_mixture(transformers.GPT2LMHeadModel)):  # type: ignore[misc]
    """A subclass that somebody wrote."""


def test_a_subclass_saves_what_it_and_auto_classes_load(tmp_path: Path) -> None:
    model, batch = Named(build("gpt2")[1], mixtures=K).eval(), inputs("gpt2")
    model.save_pretrained(tmp_path)
    for kind in (Named, transformers.AutoModelForCausalLM):
        again = kind.from_pretrained(tmp_path).eval()
        assert torch.equal(again(**batch).logits, model(**batch).logits)


def test_classes_have_names() -> None:
    found = huggingface.MixtureGPT2LMHeadModel
    assert found is with_mixture(transformers.GPT2LMHeadModel) is with_mixture(transformers.GPT2LMHeadModel, "mos")
    assert huggingface.MixtureGPT2LMHeadModelConfig is found.config_class
    assert huggingface.ShortlistT5ForConditionalGeneration.head_type == "shortlist"
    assert huggingface.SharedTailLlamaForCausalLM.head_type == "shared-tail"
    with pytest.raises(AttributeError, match="MixtureOfNothing"):
        _ = huggingface.MixtureOfNothing


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", FEW)
def test_every_head_by_name(family: str, head: str, tmp_path: Path) -> None:
    """Its distribution sums to 1, and it is loaded as it was saved, also from a plain model with its softmax."""
    model_class, config = build(family)
    plain, batch = model_class(config).eval(), inputs(family)
    if family in LIKE_BART:
        torch.nn.init.normal_(plain.final_logits_bias)
    plain.save_pretrained(tmp_path / "plain")
    model = with_mixture(model_class, head).from_pretrained(tmp_path / "plain", **OPTIONS[head]).eval()
    assert type(model.lm_head) is HEADS[head]
    found, expected = model(**batch).logits, plain(**batch).logits.log_softmax(-1)
    torch.testing.assert_close(found.exp().sum(-1), torch.ones_like(found[..., 0]))
    if head != "shortlist":  # its tail has a softmax of its own
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    model.save_pretrained(tmp_path / "saved")
    again = auto_class(family).from_pretrained(tmp_path / "saved").eval()
    assert torch.equal(again(**batch).logits, found)
    again.resize_token_embeddings(V + 3)
    loss = again(**batch, labels=torch.full_like(batch["input_ids"], V + 2)).loss
    loss.backward()
    assert loss.isfinite()


@pytest.mark.parametrize("head", ["shared-tail", "shortlist", "mixtape"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"new_num_tokens": 6}, "6 tokens would leave out some of the shortlist"),
        ({"new_num_tokens": 5, "pad_to_multiple_of": 3}, "6 tokens would leave out some of the shortlist"),
        ({"new_num_tokens": 7}, "7 tokens would all be in the shortlist; keep at least one more"),
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_refused_size_changes_nothing(family: str, arguments: dict[str, int], said: str, head: str) -> None:
    model_class, config = build(family)
    options = {name: value for name, value in OPTIONS[head].items() if name != "shortlist"}
    model = with_mixture(model_class, head)(config, shortlist=7, **options).eval()
    before, found = copy.deepcopy(model.state_dict()), model(**inputs(family)).logits
    with pytest.raises(InputError, match=said):
        model.resize_token_embeddings(**arguments)
    assert before.keys() == model.state_dict().keys()
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    assert model.config.vocab_size == model.lm_head.vocab_size == len(model.get_input_embeddings().weight)
    assert torch.equal(model(**inputs(family)).logits, found)


@pytest.mark.parametrize(
    ("head", "options", "said"),
    [
        ("mos", {}, "needs the number of mixtures; give mixtures=9"),
        ("shortlist", {"mixtures": 2}, "needs a shortlist; give shortlist=2000"),
        ("mixtape", {"mixtures": 4}, "mixtures was given to MixtapeGPT2LMHeadModel, whose head has no such option"),
        ("softmax", {"contexts": "tanh"}, "contexts was given to SoftmaxGPT2LMHeadModel"),
    ],
)
def test_wrong_options_are_refused(head: str, options: dict[str, Any], said: str) -> None:
    model_class, config = build("gpt2")
    with pytest.raises(InputError, match=said):
        with_mixture(model_class, head)(config, **options)


def test_an_unknown_head_is_refused() -> None:
    with pytest.raises(InputError, match="has no head 'mixture'; choose one of softmax, mos"):
        with_mixture(transformers.GPT2LMHeadModel, "mixture")


@pytest.mark.parametrize("contexts", ["tanh", "residual"])
@pytest.mark.parametrize("family", FEW)
def test_everything_new_is_initialized(family: str, contexts: str, tmp_path: Path) -> None:
    """Whatever stood in memory: the values of a model from a plain one are those of the same seed."""
    model_class, config = build(family)
    model_class(config).save_pretrained(tmp_path)
    states = []
    for filling in (float("nan"), 1e33):
        rubbish = [
            torch.full((size,), filling) for size in (4, 16, 48, 64, 128, 256, 600, 768, 1024) for _ in range(20)
        ]
        del rubbish
        torch.manual_seed(3)
        model = with_mixture(model_class).from_pretrained(tmp_path, mixtures=K, contexts=contexts)
        states.append(dict([*model.named_parameters(), *model.named_buffers()]))
        assert not model.lm_head.latent.bias.any()
        if contexts == "residual":
            assert not model.lm_head.latent.scale.any()
        if family in LIKE_BART:
            assert torch.equal(model.lm_head.bias, model.final_logits_bias[0])
    for name, value in states[0].items():
        assert value.isfinite().all(), name
        assert torch.equal(value, states[1][name]), name


@pytest.mark.parametrize("family", FEW)
def test_arguments_stand_where_they_stand_in_the_plain_model(family: str) -> None:
    model_class, _ = build(family)
    model, batch = mixture(family), inputs(family)
    import inspect

    plain, ours = (inspect.signature(one.forward) for one in (model_class, type(model)))
    assert plain == ours
    positional = [batch.get(name) for name in [*plain.parameters][1:5]]
    with torch.no_grad():
        assert torch.equal(model(*positional).logits, model(**batch).logits)


def test_token_types() -> None:
    model, tokens = mixture("gpt2"), inputs("gpt2")["input_ids"]
    types = torch.ones_like(tokens)
    assert not torch.equal(model(tokens, token_type_ids=types).logits, model(tokens).logits)
    assert model.generate(tokens, token_type_ids=types, max_new_tokens=2, do_sample=False).shape == (2, 9)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bart", "t5"])
def test_pipeline(family: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = mixture(family)
    model.save_pretrained(tmp_path)
    text_tokenizer().save_pretrained(tmp_path)
    if family in CAUSAL:
        run = transformers.pipeline("text-generation", model=str(tmp_path))
        assert run.check_model_type(transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) is None
        said = run("abc", max_new_tokens=3, do_sample=False)[0]["generated_text"]
        assert said.replace(" ", "").startswith("abc")
        assert type(run.model) is type(model)
    else:  # transformers 5 has no pipeline of encoder-decoder models for text
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
        again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
        assert again.generate(**tokenizer("abc", return_tensors="pt"), max_new_tokens=3).shape[0] == 1
    assert "not supported" not in caplog.text


def test_lm_evaluation_harness(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model, tokenizer = mixture("gpt2"), text_tokenizer()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    harness = HFLM(pretrained=str(tmp_path), device="cpu", dtype="float32", batch_size=1)
    request = Instance("loglikelihood", {}, ("abcdef", "ghij"), 0)
    ((found, _),) = harness.loglikelihood([request], disable_tqdm=True)
    tokens = tokenizer("abcdefghij", return_tensors="pt", add_special_tokens=False)["input_ids"]
    log_probs = model(tokens).logits[0, 5:-1].gather(1, tokens[0, 6:, None])
    assert found == pytest.approx(float(log_probs.sum()), rel=1e-4)


def test_compute_metrics_without_logits_are_warned_of(tmp_path: Path) -> None:
    from tests.integrations.test_huggingface import rows, trainer

    model = mixture("gpt2")
    run = trainer(model, tmp_path, rows("gpt2"))
    with pytest.warns(UserWarning, match="compute_metrics, they get no predictions until model.return_logits is True"):
        run.evaluate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixture("gpt2").eval()(**inputs("gpt2"), labels=inputs("gpt2")["input_ids"])


def test_importing_fastmos_alone_imports_no_transformers() -> None:
    code = "import sys, fastmos; fastmos.MixtureOfSoftmaxes; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False).returncode == 0
