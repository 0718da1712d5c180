"""Rows come to configs: sound ones, shared where they are the same, with the paper's sizes."""

import json
from pathlib import Path

import pytest
import torch

from fastmos.config import Config, changed, check, data_path
from fastmos.config.tokenizers import BPE, TokenizerConfig, Words
from fastmos.files import read_lines
from fastmos.reproduce.plans import Plan, config_id, group_id, plan, vocab_size
from fastmos.reproduce.scales import MAIN, PAPER, SCALES, Scale, base_config, scales_called
from fastmos.reproduce.suites import HEADS, RANK, SUITES, TABLES, Suite
from fastmos.run_folder import RunFolder
from fastmos.tasks import build_task
from fastmos.tokenizers import Pretokenizer, WordTokenizer

EVERY = [(scale, suite) for scale in SCALES.values() for suite in SUITES.values() if suite.rows_at(scale)]


@pytest.mark.parametrize(("scale", "suite"), EVERY, ids=[f"{scale.name}-{suite.name}" for scale, suite in EVERY])
def test_every_row_is_a_sound_config_without_paths_of_this_machine(scale: Scale, suite: Suite) -> None:
    for row in suite.rows_at(scale):
        one = plan(row, scale, seed=2)
        check(one.config)
        assert '"/' not in json.dumps(one.config.model_dump(mode="json"))
        assert one.config.training.seed == 2 and one.group == plan(row, scale).id != one.id


def runs(name: str, *suites: str) -> set[str]:
    return {plan(row, SCALES[name]).id for suite in suites for row in SUITES[suite].rows_at(SCALES[name])}


def test_suites_share_runs() -> None:
    assert len(runs("multi30k", "overall", "same-budget")) == 6
    assert len(runs("multi30k", "same-budget", "same-softmaxes")) == 8
    assert runs("multi30k", "oov") < runs("multi30k", "overall")
    assert len(runs("multi30k", *SUITES)) == 28


@pytest.mark.parametrize(("name", "words"), [("multi30k", 9781), ("msctd", 10_000), ("ted", 24_972)])
def test_heads_are_compared_at_one_vocabulary(name: str, words: int) -> None:
    plans = [plan(row, SCALES[name]) for row in HEADS.rows_at(SCALES[name])]
    targets = [one.config.tokenizers.target for one in plans]
    assert all(isinstance(target, Words) and target.vocab_size == words for target in targets)
    assert [(one.config.head.type, one.config.head.num_mixtures) for one in plans] == [
        ("softmax", 1),
        ("shortlist", 1),
        ("moc", 9),
        ("mos", 3),
        ("mos", 9),
        ("shortlist", 9),
        ("shortlist", 9),
        ("mixtape", 4),
    ]


@pytest.mark.parametrize("name", ["multi30k", "msctd", "ted"])
def test_the_words_are_all_but_a_tenth_of_those_seen_once(name: str, real_data: Path) -> None:
    scale = SCALES[name]
    config = base_config(scale, MAIN)
    pretokenizer = Pretokenizer(lowercase=config.tokenizers.target.lowercase)
    lines = read_lines(data_path(config.data.train.target, real_data))
    target = config.tokenizers.target
    assert isinstance(target, Words)
    learned = WordTokenizer.learn(lines, unk_share=0.1, pretokenizer=pretokenizer)
    assert len(learned.words) == scale.words == target.vocab_size


def test_tables_have_the_papers_sizes() -> None:
    assert [vocab_size(row, SCALES["iwslt14"]) for row in TABLES.rows] == [10_000, 5000, 1000, 348, 348, 348]
    tables = {
        one.table.id
        for one in (plan(row, SCALES["iwslt14"], seed) for row in TABLES.rows for seed in (1, 2))
        if one.table
    }
    assert len(tables) == 4  # shared by seeds


def test_the_source_is_tokenized_alike_in_all_rows() -> None:
    for scale in SCALES.values():
        for suite in SUITES.values():
            found = {str(plan(row, scale).config.tokenizers.source) for row in suite.rows_at(scale)}
            assert len(found) <= 1, (scale.name, suite.name)


def test_names_do_not_change_with_new_options_or_defaults() -> None:
    config = Config()
    assert config_id(config) == config_id(changed(config, {"model": {"num_layers": 1}}))
    assert config_id(config) != config_id(changed(config, {"training": {"seed": 2}}))
    assert config_id(config) != config_id(changed(config, {"head": {"type": "softmax"}}))
    assert group_id(config) == group_id(changed(config, {"training": {"seed": 2}}))


def parameters(one: Plan) -> int:
    """Of the model, whose tokenizers need not be learned: their sizes are enough."""
    task = build_task(one.config, Path(), RunFolder(Path("nowhere")))
    tokenizers = one.config.tokenizers
    vars(task).update(source=range(_size(tokenizers.source)), target=range(_size(tokenizers.target)))
    with torch.device("meta"):
        return sum(weight.numel() for weight in task.build_model().parameters())


def _size(tokenizer: TokenizerConfig) -> int:
    assert isinstance(tokenizer, Words | BPE)
    return tokenizer.vocab_size + 4


@pytest.mark.parametrize("name", ["multi30k", "msctd", "ted", "europarl", "sample", "iwslt14"])
def test_the_wide_softmax_has_the_parameters_of_nine(name: str) -> None:
    _, wide, moc, _, mos = (plan(row, SCALES[name]) for row in RANK.rows)
    assert parameters(moc) == parameters(mos) == pytest.approx(parameters(wide), rel=0.01)


def test_the_paper_is_three_scales() -> None:
    assert [scale.name for scale in scales_called("paper")] == list(PAPER)
