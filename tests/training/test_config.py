"""Configs: every example is sound, every mistake gets one sentence."""

from pathlib import Path
from typing import Any

import pytest

from fastmos.errors import InputError
from fastmos.training.config import (
    Config,
    check,
    data_path,
    parse_config,
    read_config,
    write_config,
)

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
TEXTS = {"train": {"source": "a", "target": "b"}, "valid": {"source": "c", "target": "d"}}
LANGUAGE = {"train": {"target": "b"}, "valid": {"target": "d"}}
NATS = {"measure": "nats"}


def translation(**sections: Any) -> Config:
    values: dict[str, Any] = {"data": TEXTS, "training": {"batch_sentences": 8}}
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section} if isinstance(section, dict) else section
    return parse_config(values, "test")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_examples_are_sound_and_every_line_is_commented(path: Path) -> None:
    check(read_config(path))
    assert all("#" in line for line in path.read_text().splitlines())


def test_written_config_reads_the_same(tmp_path: Path) -> None:
    config = translation(model={"layers": 3}, training={"betas": [0.9, 0.98]})
    (tmp_path / "x.yaml").write_text(write_config(config))
    assert read_config(tmp_path / "x.yaml") == config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("modle: {layers: 2}", "no key 'modle'; did you mean 'model'?"),
        ("model: {layer: 2}", "no key 'model.layer'; did you mean 'model.layers'?"),
        ("training: {learning_rate: 3}", "no key 'training.learning_rate'; did you mean 'training.rate'?"),
        ("data: {train: {sources: a}}", "no key 'data.train.sources'; did you mean 'data.train.source'?"),
        ("model: {layers: 0}", "model.layers: input should be greater than or equal to 1, not 0"),
        ("model: {kind: gru}", "model.kind: input should be 'lstm' or 'transformer', not 'gru'"),
        ("model: {dropout: 1.0}", "model.dropout: input should be less than 1, not 1.0"),
        ("training: {rate: .inf}", "training.rate: input should be a finite number, not inf"),
        ("model: {init: 1.0e+39}", "model.init: input should be less than or equal to 100, not 1e+39"),
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
        ({"head": {"kind": "softmax", "mixtures": 9}}, "head.mixtures is 9, but a softmax is one"),
        ({"head": {"tied": True, "width": 100}}, "head.tied needs head.width 100 to be that of the embedding, 256"),
        (
            {"head": {"tied": True, "kind": "softmax", "mixtures": 1}, "model": {"embedding": 64}},
            "head.tied with one softmax needs model.embedding 64 to equal model.width 256",
        ),
        ({"head": {"kind": "softmax", "mixtures": 1, "width": 8}}, "head.width 8 is for mixtures"),
        ({"head": {"near_softmax": True, "width": 8}}, "head.near_softmax needs contexts as wide as the decoder, 256"),
        ({"model": {"kind": "transformer", "heads": 5}}, "model.width 256 is not a multiple of twice model.heads, 10"),
        (
            {"model": {"kind": "transformer", "input_feeding": True}},
            "model.input_feeding means nothing to a model of kind transformer; leave it out",
        ),
        ({"model": {"kind": "transformer", "init": 0.2}}, "model.init means nothing to a model of kind transformer"),
        ({"model": {"heads": 8}}, "model.heads means nothing to a model of kind lstm"),
        (
            {"task": "language-model", "data": LANGUAGE, "model": {"embedding_dropout": 0.1}, "training": NATS},
            "model.embedding_dropout means nothing to a model of kind language-model",
        ),
        ({"model": {"width": 5}}, "model.width 5 is odd"),
        ({"model": {"share_embeddings": True}}, "model.share_embeddings needs a transformer and codings.joint"),
        ({"training": {"batch_tokens": 10}}, "give one of training.batch_sentences and training.batch_tokens"),
        ({"training": {"epochs": 0}}, "training.epochs and training.steps are both 0"),
        ({"training": {"schedule": "linear"}}, "a linear schedule ends at training.steps, which is 0"),
        ({"training": {"schedule": "inverse-sqrt"}}, "an inverse-sqrt schedule needs training.warmup"),
        ({"training": {"schedule": "plateau", "warmup": 5}}, "a plateau schedule has no warm-up"),
        ({"training": {"window": 5}}, "training.window is for a language model"),
        ({"codings": {"source": {"kind": "file"}}}, "codings.source.path and kind file go together"),
        ({"codings": {"joint": True, "target": {"language": "en"}}}, "codings.joint needs tokenised text"),
        ({"task": "language-model"}, "a language model has no source"),
        ({"data": {"train": {"target": "x"}}}, "data.train.source names no file"),
        ({"data": {"valid": {"source": "x"}}}, "data.valid.target names no file"),
    ],
)
def test_contradictions_are_refused(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        check(translation(**sections))
    assert str(caught.value).startswith(f"the config contradicts itself: {said}")


def test_data_paths_are_relative_and_take_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPORA", "/c")
    assert data_path("x/y.de", Path("configs")) == Path("configs/x/y.de")
    assert data_path("${CORPORA}/y.de", Path("configs")) == Path("/c/y.de")
    monkeypatch.delenv("CORPORA")
    with pytest.raises(InputError, match="the environment has no CORPORA; set it"):
        data_path("${CORPORA}/y.de", Path("configs"))
