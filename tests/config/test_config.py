"""Configs: every example is sound, every mistake gets one sentence."""

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from fastmos import heads
from fastmos.config import (
    BODIES,
    HEADS,
    TASKS,
    TOKENIZERS,
    Config,
    check,
    data_path,
    describe,
    find_config,
    load_class,
    override,
    parse_config,
    read_config,
    write_config,
)
from fastmos.errors import InputError
from fastmos.tasks import Task

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
TEXTS = {"train": {"source": "a", "target": "b"}, "valid": {"source": "c", "target": "d"}}


def translation(**sections: Any) -> Config:
    values: dict[str, Any] = {"data": TEXTS, "training": {"batch_size": 8}}
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section} if isinstance(section, dict) else section
    return parse_config(values, "test")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_examples_are_sound_and_every_line_is_commented(path: Path) -> None:
    check(read_config(path))
    assert all("#" in line for line in path.read_text().splitlines())


def test_written_config_reads_the_same(tmp_path: Path) -> None:
    config = translation(model={"num_layers": 3}, training={"adam_betas": [0.9, 0.98]})
    (tmp_path / "x.yaml").write_text(write_config(config))
    assert read_config(tmp_path / "x.yaml") == config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("modle: {num_layers: 2}", "no key 'modle'; did you mean 'model'?"),
        ("model: {num_layer: 2}", "no key 'model.num_layer'; did you mean 'model.num_layers'?"),
        ("training: {learn_rate: 3}", "no key 'training.learn_rate'; did you mean 'training.learning_rate'?"),
        ("data: {train: {sources: a}}", "no key 'data.train.sources'; did you mean 'data.train.source'?"),
        ("model: {num_layers: 0}", "model.num_layers: input should be greater than or equal to 1, not 0"),
        ("model: {hidden_size: 65537}", "model.hidden_size: input should be less than or equal to 65536, not 65537"),
        ("model: {embedding_size: 100000000}", "model.embedding_size: input should be less than or equal to 65536"),
        ("head: {embedding_size: 100000000}", "head.embedding_size: input should be less than or equal to 65536"),
        ("head: {mixtures: 1001}", "head.mixtures: input should be less than or equal to 1000, not 1001"),
        ("model: {type: gru}", "model.type is 'gru'; it must be one of attention-lstm, transformer, lstm, nic"),
        ("model: {dropout: 1.0}", "model.dropout: input should be less than 1, not 1.0"),
        ("model: {input_feeding: true, type: transformer}", "no key 'model.input_feeding'"),
        ("model: {num_heads: 8}", "no key 'model.num_heads'"),
        ("model: 3", "model must be a section of keys, not 3"),
        ("head: {type: softmax, mixtures: 9}", "no key 'head.mixtures'"),
        ("tokenizers: {target: {type: bpe, words: 9}}", "no key 'tokenizers.target.words'"),
        ("task: parsing", "task: must be one of translation, captioning, language-modeling, not 'parsing'"),
        ("training: {learning_rate: .inf}", "training.learning_rate: input should be a finite number, not inf"),
        ("model: {init_range: 1.0e+39}", "model.init_range: input should be less than or equal to 100, not 1e+39"),
        ("model: {}\nhead: {}\nmodel: {}", "has model twice; keep one"),
        ("data: {train: {source: a, source: b}}", "has data.train.source twice; keep one"),
        ("- model", "holds no sections; see the configs folder for examples"),
        ("", "holds no sections; see the configs folder for examples"),
        ("a: [", "not valid YAML"),
        ("!!python/object/apply:os.system [ls]", "not valid YAML"),
    ],
)
def test_bad_yaml_gets_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert "\n" not in str(caught.value)


def test_missing_and_odd_files_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("none.yaml", "", "binary"):
        with pytest.raises(InputError, match="YAML"):
            read_config(tmp_path / name)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"head": {"tie_embedding": True, "embedding_size": 100}},
            "head.tie_embedding needs head.embedding_size 100 to be model.embedding_size, 256",
        ),
        (
            {"head": {"tie_embedding": True, "type": "softmax"}, "model": {"embedding_size": 64}},
            "head.tie_embedding with one softmax needs model.embedding_size 64 to be 256",
        ),
        (
            {"head": {"near_softmax": True, "embedding_size": 8}},
            "head.near_softmax needs contexts of model.hidden_size",
        ),
        (
            {"model": {"type": "transformer", "num_heads": 5}},
            "model.hidden_size is 256; it must be a multiple of twice",
        ),
        ({"model": {"hidden_size": 5}}, "model.hidden_size is 5; it must be even"),
        ({"model": {"type": "nic"}}, "model.type nic is for captioning; for translation set it to attention-lstm"),
        ({"training": {"batch_tokens": 10}}, "give one of training.batch_size and training.batch_tokens"),
        ({"training": {"max_epochs": 0}}, "training.max_epochs and training.max_steps are both 0"),
        ({"training": {"lr_schedule": "linear"}}, "a linear schedule ends at training.max_steps, which is 0"),
        ({"training": {"lr_schedule": "inverse-sqrt"}}, "an inverse-sqrt schedule needs training.warmup_steps"),
        ({"training": {"lr_schedule": "plateau", "warmup_steps": 5}}, "a plateau schedule has no warm-up"),
        ({"tokenizers": {"source": {"type": "file"}}}, "tokenizers.source.path is missing"),
        ({"tokenizers": {"target": {"type": "table", "layout": "neighbors"}}}, "tokenizers.target.layout neighbors"),
        ({"data": {"valid": {"source": "x"}}}, "data.valid.target is missing; name a file"),
    ],
)
def test_unusable_configs_are_refused(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        check(translation(**sections))
    assert str(caught.value).startswith(f"the config is not usable: {said}")


def test_each_task_has_a_default_body() -> None:
    bodies = {task: parse_config({"task": task}, "test").model.type for task in TASKS}
    assert bodies == {"translation": "attention-lstm", "captioning": "nic", "language-modeling": "lstm"}


def test_overridden_keys_are_read_as_yaml() -> None:
    values = {"training.learning_rate": "0.5", "model.num_layers": "3", "training.adam_betas": "[0.9, 0.98]"}
    config = override(translation(), values)
    assert (config.training.learning_rate, config.model.num_layers) == (0.5, 3)
    assert config.training.adam_betas == (0.9, 0.98)


def test_another_type_keeps_the_keys_that_both_have() -> None:
    config = translation(
        model={"hidden_size": 64, "init_range": 0.2, "num_layers": 3}, head={"mixtures": 5, "dropout": 0.4}
    )
    other = override(config, {"model.type": "transformer", "head.type": "softmax"})
    assert (other.model.type, other.model.hidden_size, other.model.num_layers) == ("transformer", 64, 3)
    assert (other.head.type, other.head.dropout, other.head.num_mixtures) == ("softmax", 0.4, 1)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("head.mixture", "3", "no key 'head.mixture'; did you mean 'head.mixtures'?"),
        ("training.max_steps", "many", "training.max_steps: input should be a valid integer"),
        ("head.type", "sparsemax", "head.type is 'sparsemax'; it must be one of softmax, mos, moc"),
    ],
)
def test_bad_overrides_get_a_sentence(name: str, value: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")):
        override(translation(), {name: value})


def test_every_key_has_a_help_text() -> None:
    configs = [translation(model={"type": body}, head={"type": head}) for body in BODIES for head in HEADS]
    configs += [translation(tokenizers={"target": {"type": kind}}) for kind in TOKENIZERS]
    for config in configs:
        assert all(option.help and "\n" not in option.help for option in describe(config))


def test_every_section_names_a_class() -> None:
    assert {name: load_class(head.factory) for name, head in HEADS.items()} == heads.HEADS
    classes = {name: load_class(section.factory) for name, section in TOKENIZERS.items() if name != "file"}
    assert {name: tokenizer.type for name, tokenizer in classes.items()} == {name: name for name in classes}
    assert all(issubclass(load_class(body.factory), nn.Module) for body in BODIES.values())
    assert all(issubclass(load_class(task), Task) for task in TASKS.values())


def test_a_packaged_config_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config("sample").is_file()
    assert find_config("own.yaml") == Path("own.yaml")
    with pytest.raises(InputError, match="did you mean 'sample'"):
        find_config("sampel")


def test_data_paths_are_relative_and_take_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPORA", "/c")
    assert data_path("x/y.de", Path("configs")) == Path("configs/x/y.de")
    assert data_path("${CORPORA}/y.de", Path("configs")) == Path("/c/y.de")
    monkeypatch.delenv("CORPORA")
    with pytest.raises(InputError, match="the environment has no CORPORA; set it"):
        data_path("${CORPORA}/y.de", Path("configs"))
