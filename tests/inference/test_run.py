"""A trained run in Python: what it loads from, what it does with lines, and what it refuses."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fastmos.checkpoints import read_tensors, write_tensors
from fastmos.errors import InputError
from fastmos.inference.inside import explain
from fastmos.inference.run import Run, average, load
from fastmos.run_folder import RunFolder
from fastmos.tokenizers import WordTokenizer, load_tokenizer

LINES = ["3 1 2", "", "5", "9 8 7 6 5"]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Run:
    return load(trained / "run", "cpu")


@pytest.fixture(scope="module")
def language_model(trained: Path) -> Run:
    return load(str(trained / "lm"), "cpu")


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


# ---- loading


def test_a_run_is_loaded_for_use(translator: Run, trained: Path) -> None:
    assert not translator.model.training
    tensors = read_tensors(trained / "run/model.safetensors")[0]
    for name, parameter in translator.model.named_parameters():
        torch.testing.assert_close(parameter.detach(), tensors[name], rtol=0, atol=0)


def test_a_run_folder_can_be_moved(translator: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "run", tmp_path / "moved", ignore=shutil.ignore_patterns("cache", "state*", "log*"))
    assert load(tmp_path / "moved").translate(LINES) == translator.translate(LINES)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_does_not_exist_is_refused(device: str, trained: Path) -> None:
    with pytest.raises(InputError, match=rf"^device '{device}' cannot be used here \(.*\); try cpu$"):
        load(trained / "run", device)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("run.json", b'{"format": 2}', "run folder of format 2, but this fastmos reads format 1"),
        ("run.json", b"[]", "run folder of format None, but this fastmos reads format 1"),
        ("run.json", b"{", "not valid JSON"),
        ("config.yaml", b"modle: {}", r"no key 'modle'; did you mean 'model'\?"),
        ("config.yaml", None, r"not a run folder \(it has no config\.yaml\)$"),
        ("target.json", b"{}", r"target\.json"),
        ("model.safetensors", b"", r"model\.safetensors: damaged"),
        ("model.safetensors", None, r"model\.safetensors: no such file"),
    ],
)
def test_damaged_run_folders_are_refused(
    name: str, content: bytes | None, said: str, trained: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained / "run", folder, ignore=shutil.ignore_patterns("cache"))
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as refused:
        load(folder)
    assert "\n" not in str(refused.value)


def test_weights_of_another_model_are_refused(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "run", tmp_path / "run")
    shutil.copy(trained / "lm" / "model.safetensors", tmp_path / "run")
    with pytest.raises(InputError, match="does not fit the model of its config"):
        load(tmp_path / "run")


# ---- translation


def test_lines_are_translated_each_for_itself(translator: Run) -> None:
    found = translator.translate(LINES)
    assert found == [translator.translate([line])[0] for line in LINES]
    assert (found[1], found[2]) == ("", "5")
    assert translator.translate([]) == []


def test_nbest_gives_distinct_translations_with_their_log_probabilities(translator: Run) -> None:
    found = translator.translate(LINES, nbest=3)
    assert [len(best) for best in found] == [3, 1, 3, 3]  # an empty line has one translation, which is empty
    for line, best in zip(LINES, found, strict=True):
        assert len({output.text for output in best}) == len(best)
        scores = [output.score for output in best]
        assert scores == sorted(scores, reverse=True)
        if line:
            expected = translator.score([line] * len(best), [output.text for output in best])
            assert [output.log_prob for output in best] == pytest.approx(expected, abs=1e-4)


def test_the_beam_is_that_of_the_config_unless_given(translator: Run) -> None:
    assert translator.config.search.beam_size == 2
    assert translator.translate(LINES) == translator.translate(LINES, beam_size=2)
    sources = ["7 3 9 1 8", "6 2 6 0 5"]
    greedy, wide = (
        [best[0].score for best in translator.translate(sources, nbest=1, beam_size=size)] for size in (1, 30)
    )
    assert all(one <= other + 1e-5 for one, other in zip(greedy, wide, strict=True))


@pytest.mark.parametrize(("nbest", "beam_size"), [(3, 2), (0, None), (1, 0)])
def test_a_beam_that_cannot_hold_the_outputs_is_refused(nbest: int, beam_size: int | None, translator: Run) -> None:
    with pytest.raises(InputError, match=rf"^nbest is {nbest} and beam_size \d; 1 <= nbest <= beam_size is needed$"):
        translator.translate(LINES, nbest=nbest, beam_size=beam_size)


def test_overlong_lines_are_cut_and_counted_or_refused(translator: Run) -> None:
    lines = ["1 2", "7 " * 12 + "3", "7 " * 12]
    with pytest.warns(UserWarning, match=r"^1 of 3 lines were cut to 12 tokens$"):
        found = translator.translate(lines)
    assert found[1] == found[2]
    with pytest.raises(InputError, match=r"^line 2: 13 tokens, but the model was trained on at most 12$"):
        translator.translate(lines, overlong="refuse")
    assert translator.translate([lines[0]], overlong="refuse") == found[:1]


# ---- likelihood, sampling, evaluation


def test_the_score_of_a_text_is_that_of_its_lines(translator: Run, language_model: Run) -> None:
    targets = ["1 2 3", "5", "", "5 6 7 8 9"]
    together = translator.score(LINES, targets)
    one_by_one = [translator.score([source], [target])[0] for source, target in zip(LINES, targets, strict=True)]
    assert together == pytest.approx(one_by_one, abs=1e-4)
    assert all(score < 0 for score in together)
    assert language_model.score(None, targets) != pytest.approx(together, abs=1e-2)


def test_samples_depend_on_the_seed_alone(language_model: Run) -> None:
    made = [language_model.sample(5, seed=seed) for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]
    assert len(made[0]) == 5
    assert len(set(language_model.sample(5, temperature=1e-4))) == 1  # always the likeliest token


@pytest.mark.parametrize("prompt", ["", "1", "1 2 3"])
def test_a_prompt_is_continued_token_by_token(prompt: str, language_model: Run) -> None:
    """At a low temperature with the likeliest token, as the whole text at once says."""
    (made,) = language_model.sample(1, temperature=1e-4, prompt=prompt)
    tokens, eos = language_model.target.encode(prompt), language_model.target.eos
    for token in [*language_model.target.encode(made), eos][: language_model.config.search.max_length]:
        (found,) = explain(language_model, [tokens])
        assert found.choices[-1].mixture[0][0] == language_model.target.id_to_token(token)
        tokens.append(token)


def test_samples_of_a_prompt_depend_on_both(language_model: Run) -> None:
    first = language_model.sample(20, prompt="7 8", seed=1)
    assert first == language_model.sample(20, prompt="7 8", seed=1)
    assert first not in (language_model.sample(20, seed=1), language_model.sample(20, prompt="7 8", seed=2))


def test_lines_and_a_split_are_evaluated_alike(translator: Run, trained: Path) -> None:
    sources, references = (read_lines(trained / f"valid.{side}") for side in "ab")
    by_lines, by_split = translator.evaluate(sources=sources, references=references), translator.evaluate("valid")
    assert by_lines.record() == by_split.record()
    assert by_split.outputs == translator.translate(sources)
    assert by_split.record() != translator.evaluate("test").record()


def test_the_evaluation_of_lines_is_their_score(translator: Run, trained: Path) -> None:
    sources, references = (read_lines(trained / f"test.{side}") for side in "ab")
    report = translator.evaluate().likelihood
    total = report.nll_per_word * (report.words + report.lines)
    assert total == pytest.approx(-sum(translator.score(sources, references)), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "work", "said"),
    [
        ("run", lambda run: run.translate("3 1"), r"a list of lines is needed, not one string; give \['3 1'\]"),
        ("run", lambda run: run.score(["3"], "3"), r"a list of lines is needed, not one string; give \['3'\]"),
        ("run", lambda run: run.score(None, ["3"]), "this run translates, so it needs source lines"),
        ("run", lambda run: run.score(["3"], ["3", "4"]), "1 source lines and 2 target lines; give as many of each"),
        ("run", lambda run: run.score([], []), "no lines to score; give at least one"),
        ("run", lambda run: run.evaluate(sources=["3"]), "evaluation needs references"),
        ("run", lambda run: run.sample(1), "was trained for translation and cannot make up text; see fastmos trans"),
        ("run", lambda run: run.caption([]), "was trained for translation and cannot caption images"),
        ("run", lambda run: run.backbone, "was trained for translation and cannot caption images"),
        ("run", lambda run: run.caption_features(torch.zeros(1, 2)), "cannot caption images"),
        ("lm", lambda run: run.translate(["3"]), "was trained for language-modeling and cannot translate; see fastmos"),
        ("lm", lambda run: run.score(["3"], ["3"]), "this run is a language model, which has no sources"),
        ("lm", lambda run: run.evaluate(language="de"), "this run is a language model, which has no BLEU"),
    ],
)
def test_what_a_run_cannot_do_is_refused(
    name: str, work: Callable[[Any], object], said: str, translator: Run, language_model: Run
) -> None:
    with pytest.raises(InputError, match=said):
        work({"run": translator, "lm": language_model}[name])


# ---- averages


def test_an_average_is_the_mean_of_the_last_checkpoints(trained: Path, tmp_path: Path) -> None:
    steps = average(trained / "run", tmp_path / "mean", last=2)
    saved = RunFolder(trained / "run").checkpoints
    assert steps == saved.steps()[-2:]
    checkpoints = [read_tensors(saved.path(step))[0] for step in steps]
    for name, parameter in load(tmp_path / "mean", "cpu").model.named_parameters():
        mean = sum(tensors[name].double() for tensors in checkpoints) / 2
        torch.testing.assert_close(parameter.detach().double(), mean, rtol=1e-6, atol=1e-7)


def test_the_best_checkpoints_are_those_of_the_largest_values(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "run", tmp_path / "run")
    saved = RunFolder(tmp_path / "run").checkpoints
    for step in saved.steps():  # the earlier, the better
        tensors, notes = read_tensors(saved.path(step))
        write_tensors(saved.path(step), tensors, {**notes, "value": -step})
    assert len(saved.steps()) > 2
    assert average(tmp_path / "run", tmp_path / "best", best=2) == saved.steps()[:2]


@pytest.mark.parametrize("count", [{"last": 9}, {"best": 9}, {}])
def test_checkpoints_that_are_not_kept_cannot_be_averaged(count: dict[str, int], trained: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be averaged; see training\.keep_last and keep_best$"):
        average(trained / "run", tmp_path / "mean", **count)
    assert list(tmp_path.iterdir()) == []


def test_an_average_that_cannot_be_written_leaves_nothing(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "mean")

    monkeypatch.setattr(RunFolder, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        average(trained / "run", tmp_path / "mean", last=2)
    assert list(tmp_path.iterdir()) == []


def changed_run(trained: Path, folder: Path) -> Path:
    shutil.copytree(trained / "run", folder, ignore=shutil.ignore_patterns("cache"))
    return folder


def test_weights_belong_to_their_tokenizers(trained: Path, tmp_path: Path) -> None:
    """Reversed words with a digest of their own: whoever made them, they are not those of the training."""
    run = changed_run(trained, tmp_path / "run")
    tokenizer = load_tokenizer(run / "target.json")
    assert isinstance(tokenizer, WordTokenizer)
    WordTokenizer(tokenizer.words[::-1]).save(run / "target.json")
    with pytest.raises(InputError, match=r"run: was trained with another target\.json; get the whole folder again"):
        load(run)
    assert average(trained / "run", tmp_path / "mean", last=2) and load(tmp_path / "mean").translate(["3 1"])


def test_an_older_run_does_not_say_what_its_tokenizers_were(trained: Path, tmp_path: Path) -> None:
    run = changed_run(trained, tmp_path / "run")
    tensors, notes = read_tensors(run / "model.safetensors")
    assert sorted(notes.pop("inputs")) == ["source.json", "target.json"]
    write_tensors(run / "model.safetensors", tensors, notes)
    assert load(run).translate(["3 1"]) == load(trained / "run").translate(["3 1"])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(value: float, trained: Path, tmp_path: Path) -> None:
    run = changed_run(trained, tmp_path / "run")
    for path in (run / "model.safetensors", *(run / "checkpoints").glob("*")):
        tensors, notes = read_tensors(path)
        tensors[sorted(tensors)[0]].view(-1)[0] = value
        write_tensors(path, tensors, notes)
    with pytest.raises(InputError, match=r"model\.safetensors: weight '.*' is not finite"):
        load(run)
    with pytest.raises(InputError, match=r"weight '.*' is not finite; average others"):
        average(run, tmp_path / "mean", last=2)


def test_a_score_cuts_its_source_as_translation_does(translator: Run) -> None:
    limit = translator.config.data.max_length
    long = " ".join("1234567890"[: limit % 10] + "1234567890") + " 1" * limit
    cut = " ".join(long.split()[:limit])
    with pytest.warns(UserWarning, match=f"1 of 2 lines were cut to {limit} tokens"):
        found = translator.score([long, "3 1"], ["1 2", "1 3"])
    assert found == pytest.approx(translator.score([cut, "3 1"], ["1 2", "1 3"]), abs=1e-5)


def test_no_text_is_twice_in_an_nbest_list(translator: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer in which two tokens are the same text."""
    decode = type(translator.target).decode_lines
    monkeypatch.setattr(
        type(translator.target),
        "decode_lines",
        lambda self, lines: [line.replace("1", "2").replace("3", "2") for line in decode(self, lines)],
    )
    for size in (1, 3, 5):
        for best in translator.translate(["3 1 2", "1 3", ""], nbest=size, beam_size=6):
            texts = [output.text for output in best]
            assert len(set(texts)) == len(texts) and 1 <= len(texts) <= size
    assert [[output.text for output in best] for best in translator.translate([""], nbest=3)] == [[""]]


def test_more_is_asked_for_than_one_text_each(translator: Run) -> None:
    found = translator.translate(["3 1 2"], nbest=3, beam_size=3)[0]
    assert len(found) == 3
    assert [best.score for best in found] == sorted((best.score for best in found), reverse=True)


# ---- int8


def test_int8_writes_what_all_bits_write_and_scores_with_all_bits(translator: Run, trained: Path) -> None:
    run = load(trained / "run", "cpu", int8=True)
    assert run.searched is not run.model
    assert run.translate(LINES) == translator.translate(LINES)
    targets = translator.translate(LINES)
    assert run.score(LINES, targets) == translator.score(LINES, targets)
    ours, theirs = run.evaluate("test"), translator.evaluate("test")
    assert ours.likelihood == theirs.likelihood
    assert ours.outputs is not None and theirs.outputs is not None
    same = sum(one == other for one, other in zip(ours.outputs, theirs.outputs, strict=True))
    assert same >= 0.9 * len(theirs.outputs)


def test_int8_is_refused_where_there_is_none(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastmos.models.generator.can_pack", lambda: False)
    with pytest.raises(InputError, match="int8 is for models of float32 on a CPU"):
        load(trained / "run", "cpu", int8=True)
