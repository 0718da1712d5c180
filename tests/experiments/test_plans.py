"""Rows come to configs: sound ones, shared where they are the same, with the paper's sizes."""

import json

import pytest
import torch

from fastmos.codings import Coding
from fastmos.experiments.plans import Plan, codes_of, config_id, group_id, plan
from fastmos.experiments.scales import PAPER, SCALES, Scale, changed, scales_called
from fastmos.experiments.suites import RANK, SUITES, TABLES, Suite
from fastmos.training.build import build_model
from fastmos.training.config import Config, check

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
    assert len(runs("multi30k", *SUITES)) == 22


def test_tables_have_the_papers_sizes() -> None:
    assert [codes_of(row, SCALES["iwslt14"]) for row in TABLES.rows] == [10_000, 5000, 1000, 348, 348, 348]
    tables = {
        one.table.id
        for one in (plan(row, SCALES["iwslt14"], seed) for row in TABLES.rows for seed in (1, 2))
        if one.table
    }
    assert len(tables) == 4  # shared by seeds


def test_the_source_is_coded_alike_in_all_rows() -> None:
    for scale in SCALES.values():
        for suite in SUITES.values():
            found = {str(plan(row, scale).config.codings.source) for row in suite.rows_at(scale)}
            assert len(found) <= 1, (scale.name, suite.name)


def test_names_do_not_change_with_new_options_or_defaults() -> None:
    config = Config()
    assert config_id(config) == config_id(changed(config, {"model": {"layers": 1}}))
    assert config_id(config) != config_id(changed(config, {"training": {"seed": 2}}))
    assert group_id(config) == group_id(changed(config, {"training": {"seed": 2}}))


class Sized:
    """As much of a coding as a model's shape needs."""

    def __init__(self, codes: int) -> None:
        self.codes = codes

    def __len__(self) -> int:
        return self.codes + 4


def parameters(one: Plan) -> int:
    source, target = (Sized(side.codes) for side in (one.config.codings.source, one.config.codings.target))
    with torch.device("meta"):
        model = build_model(one.config, _coding(source), _coding(target))
    return sum(weight.numel() for weight in model.parameters())


def _coding(sized: Sized) -> Coding:
    return sized  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["multi30k", "europarl", "sample", "iwslt14"])
def test_the_wide_softmax_has_the_parameters_of_nine(name: str) -> None:
    _, wide, moc, _, mos = (plan(row, SCALES[name]) for row in RANK.rows)
    assert parameters(moc) == parameters(mos) == pytest.approx(parameters(wide), rel=0.01)


def test_the_paper_is_three_scales() -> None:
    assert [scale.name for scale in scales_called("paper")] == list(PAPER)
