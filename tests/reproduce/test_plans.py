"""Rows come to configs: sound ones, shared where they are the same, with the paper's sizes."""

import json
import math
from pathlib import Path

import pytest
import torch

from fastmos.config import Config, changed, check, configs_folder, data_path
from fastmos.config.tokenizers import BPE, TokenizerConfig, Words
from fastmos.files import read_lines
from fastmos.heads import build_head
from fastmos.models import LanguageModel
from fastmos.reproduce.plans import Plan, Row, config_id, group_id, plan, vocab_size
from fastmos.reproduce.scales import MAIN, PAPER, SCALES, Scale, base_config, scales_called
from fastmos.reproduce.suite import Suite
from fastmos.reproduce.suites import HEADS, LANGUAGE, OVERALL, RANK, SUITES, TABLES
from fastmos.run_folder import RunFolder
from fastmos.tasks import build_task
from fastmos.tokenizers import Pretokenizer, WordTokenizer
from tests.heads.options import own

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
    assert len(runs("multi30k", *SUITES)) == 30


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
    assert [vocab_size(row, SCALES["iwslt14"]) for row in TABLES.rows] == [
        *(10_000, 5000, 1000, 10_000),
        *(348, 348, 348, 348),
    ]
    tables = {
        one.table.id
        for one in (plan(row, SCALES["iwslt14"], seed) for row in TABLES.rows for seed in (1, 2))
        if one.table
    }
    assert len(tables) == 6  # shared by seeds; two are learned as the paper's were


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


@pytest.mark.parametrize("row", [row for row in LANGUAGE.rows if row.wide], ids=lambda row: row.name)
def test_wide_language_models_have_the_parameters_of_nine(row: Row) -> None:
    """Those of words beside MoS over words, those of BPE beside MoS over BPE; a shortlist has no parameters."""
    scale = SCALES["wikitext2"]
    nine = next(other for other in LANGUAGE.rows if other.tokenizer == row.tokenizer and other.name.endswith("MoS, 9"))
    assert _language_parameters(plan(row, scale)) == pytest.approx(_language_parameters(plan(nine, scale)), rel=0.002)


def _language_parameters(one: Plan) -> int:
    vocab_size, model, head = _size(one.config.tokenizers.target), one.config.model, one.config.head
    body = LanguageModel(vocab_size, hidden_size=model.hidden_size)
    frequent, mixtures = vocab_size // 10, head.num_mixtures
    output = build_head(
        head.type, model.hidden_size, vocab_size, **own(head.type, mixtures=mixtures, shortlist=frequent)
    )
    parts = [body.lstm, output]  # the embedding is tied
    return sum(weight.numel() for part in parts for weight in part.parameters())


def test_a_base_of_a_tokenizer_trains_as_many_epochs() -> None:
    scale = SCALES["wikitext2"]
    words, bpe = (
        next(plan(row, scale).config for row in LANGUAGE.rows if row.tokenizer == name) for name in ("words", "bpe")
    )
    assert (words.training.max_steps, bpe.training.max_steps) == (12 * 1865, 12 * 2204)
    assert bpe.tokenizers.target.type == "bpe" and words.head.tie_embedding and bpe.head.tie_embedding
    assert {plan(row, scale).id for row in RANK.rows} & {plan(row, scale).id for row in LANGUAGE.rows}


def test_the_words_of_wikitext_are_all_its_words_and_unk_is_one(real_data: Path) -> None:
    """So that perplexity is that of papers: <unk> is predicted like any word, and our own unk never occurs."""
    config = plan(LANGUAGE.rows[0], SCALES["wikitext2"]).config
    target = config.tokenizers.target
    assert isinstance(target, Words) and target.unk_share == 0
    lines = list(read_lines(data_path(config.data.train.target, real_data)))
    words = WordTokenizer.learn(lines, vocab_size=target.vocab_size)
    assert len(words.words) == target.vocab_size == len(WordTokenizer.learn(lines).words) and "<unk>" in words.words
    streams, length = config.training.batch_size, config.training.bptt_length
    steps = math.ceil(math.ceil(sum(len(line.split()) + 1 for line in lines) / streams) / length)
    assert config.training.max_steps == 12 * steps
    for files in (config.data.valid, config.data.test):
        held_out = words.encode_lines(list(read_lines(data_path(files.target, real_data))))
        assert not any(words.unk in line for line in held_out)


@pytest.mark.parametrize("name", ["msctd", "ted"])
def test_the_recipe_is_the_papers(name: str) -> None:
    paper = base_config(SCALES["iwslt14"], MAIN)
    for row in SUITES["recipe"].rows_at(SCALES[name]):
        config = plan(row, SCALES[name]).config
        training = config.training.model_copy(update={"save_every": paper.training.save_every})
        assert training == paper.training and config.search == paper.search and config.model == paper.model
        assert config.head.dropout == paper.head.dropout and not getattr(config.head, "near_softmax", False)
        assert config.data == base_config(SCALES[name], MAIN).data


def test_tables_as_the_paper_learned_them_start_at_random_and_are_assigned_by_half() -> None:
    ours, theirs = [
        plan(next(row for row in TABLES.rows if row.tokenizer == name), SCALES["multi30k"]).table
        for name in ("hybrid", "hybrid-half")
    ]
    assert ours is not None and theirs is not None
    assert (ours.layout, ours.learning.method) == ("neighbors", "exact")
    assert (theirs.layout, theirs.learning.method) == ("random", "half")
    assert (ours.vocab_size, ours.words) == (theirs.vocab_size, theirs.words) and ours.id != theirs.id


def test_names_of_recorded_runs_and_tables_stay() -> None:
    """Results are named by these hashes: a change of them loses what was trained."""
    names = {plan(row, SCALES["multi30k"]).id for suite in (OVERALL, HEADS) for row in suite.rows}
    tables = {one.table.id for one in (plan(row, SCALES["multi30k"]) for row in OVERALL.rows) if one.table}
    recorded = {path.stem for path in (configs_folder().parent / "results/multi30k").glob("*.json")}
    assert len(names & recorded) >= 6 and {f"table-{name}" for name in tables} <= recorded


def test_the_paper_is_three_scales() -> None:
    assert [scale.name for scale in scales_called("paper")] == list(PAPER)
