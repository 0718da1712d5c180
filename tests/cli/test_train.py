"""`fastmos train|translate|evaluate|score|average`: what they print, how they end, what they refuse."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fastmos
from fastmos.cli import main
from fastmos.codings import Text, WordCoding
from fastmos.errors import InputError
from fastmos.training import experiment, journal
from fastmos.training.config import write_config
from fastmos.training.folder import RunFolder
from tests.training.tiny import tiny, tiny_language_model, write_digits


@dataclass
class Done:
    code: int
    out: str
    err: str


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Command = Callable[..., Done]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """Call `fastmos ...` in this process."""

    def run(*words: object, stdin: bytes | None = b"") -> Done:
        """`stdin` is what is piped in; None: a terminal."""
        monkeypatch.setattr(sys, "argv", ["fastmos", *map(str, words)])
        piped = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin or b"")))
        monkeypatch.setattr(sys, "stdin", Terminal() if stdin is None else piped)
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_board", lambda folder, step: None)
        yield run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the digits, a translation run that can sort some of them, and a language model."""
    base = tmp_path_factory.mktemp("trained")
    write_digits(base, lines=400)
    learning = {"rate": 2e-2, "epochs": 8, "keep_last": 3, "save_every": 0}
    sections = {
        "model": {"width": 32, "dropout": 0.0, "init": 0.3},
        "data": {**tiny().data.model_dump(), "max_length": 12},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "_board", lambda folder, step: None)
        experiment.train(tiny(training=learning, **sections), base, base / "run")
        experiment.train(tiny_language_model(epochs=1), base, base / "lm")
    return base


def write_yaml(base: Path, **sections: dict[str, object]) -> Path:
    (base / "tiny.yaml").write_text(write_config(tiny(training={"epochs": 1, "save_every": 0}, **sections)))
    return base / "tiny.yaml"


# ---- train


def test_train_goes_on_and_says_when_it_is_done(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder = write_yaml(tmp_path), tmp_path / "run"
    first = run_command("train", path, "--folder", folder, "--model.width", 6)
    assert (first.code, first.out) == (0, "")
    assert "lstm of width 6" in first.err
    again = run_command("train", path, f"--folder={folder}", "--model.width", 6)
    assert again.code == 0
    assert again.err.startswith(f"{folder}: finished at step 6 (all steps done); best BLEU ")
    longer = run_command("train", path, "--folder", folder, "--model.width", 6, "--training.epochs", 2)
    assert "going on from step 6" in longer.err
    other = run_command("train", path, "--folder", folder)
    sentence = f"fastmos: {folder}: was trained with model.width 6, not 8; give another --folder\n"
    assert (other.code, other.err) == (2, sentence)
    (folder / "state.safetensors").unlink()  # which takes the most room; what was learnt is still safe
    other = run_command("train", path, "--folder", folder)
    assert (other.code, other.err) == (2, sentence)


def test_a_refused_start_does_not_stand_in_the_way(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder = write_yaml(tmp_path), tmp_path / "run"
    few = ["--codings.target.kind", "bpe", "--codings.target.codes", 1]
    refused = run_command("train", path, "--folder", folder, *few)
    assert refused.code == 2 and "1 codes are too few" in refused.err
    assert run_command("train", path, "--folder", folder).code == 0


def test_train_goes_in_runs_by_the_name_of_its_file(
    tmp_path: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_digits(tmp_path)
    path = write_yaml(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_command("train", path).code == 0
    assert (tmp_path / "runs" / "tiny" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "fastmos train needs a YAML file first, as in fastmos train configs/sample.yaml"),
        (["none.yaml"], "none.yaml: no such file; the first argument of fastmos train is a YAML file"),
        (["YAML", "--folder"], "--folder needs the name of a folder"),
        (["YAML", "--model.layer", "2"], "no option '--model.layer'; did you mean '--model.layers'?"),
        (
            ["YAML", "--head.kind", "softmax"],
            "the config contradicts itself: head.mixtures is 2, but a softmax is one; set head.kind to mos or "
            "head.mixtures to 1",
        ),
        (["YAML", "--data.train.source", "/none.de"], "/none.de: no such file (named in the config)"),
        (
            ["YAML", "--data.train.source", "${NOT_SET_HERE}/x"],
            "${NOT_SET_HERE}/x: the environment has no NOT_SET_HERE; set it, as in export NOT_SET_HERE=/path/to/data",
        ),
    ],
)
def test_train_refuses_in_one_sentence(words: list[str], said: str, tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path = write_yaml(tmp_path)
    folder = tmp_path / "run"
    words = [str(path) if word == "YAML" else word for word in words]
    done = run_command("train", *words, *([] if "--folder" in words else ["--folder", folder]))
    assert (done.code, done.out, done.err) == (2, "", f"fastmos: {said}\n")
    assert not folder.exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train.a", b"1 2\n", "has 1 lines and"),
        ("train.b", b"", "no word"),
        ("valid.b", b"", "no lines"),
        ("train.a", b"1 2\n\xff\n", "train.a, line 2: not UTF-8"),
    ],
)
def test_bad_text_is_refused(name: str, content: bytes, said: str, tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    (tmp_path / name).write_bytes(content)
    done = run_command("train", write_yaml(tmp_path), "--folder", tmp_path / "run")
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_coding_for_other_text_is_refused(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder, coding = write_yaml(tmp_path), tmp_path / "run", tmp_path / "coding.json"
    WordCoding.learn((tmp_path / "train.b").read_text().splitlines(), size=10).save(coding)
    words = ["train", path, "--folder", folder, "--codings.target.kind", "file", "--codings.target.path", coding]
    refused = run_command(*words, "--codings.target.lowercase")
    said = f"{coding}: was made for language '' and lowercase False, but the config says '' and True; leave both out"
    assert (refused.code, refused.err) == (2, f"fastmos: {said}\n")
    assert run_command(*words).code == 0


def test_a_refused_start_leaves_no_coding_behind(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, whole = write_yaml(tmp_path), (tmp_path / "train.a").read_text()
    (tmp_path / "train.a").write_text("1 2\n")
    assert run_command("train", path, "--folder", tmp_path / "run").code == 2
    (tmp_path / "train.a").write_text(whole)
    for name in ("run", "fresh"):
        assert run_command("train", path, "--folder", tmp_path / name).code == 0
    assert (tmp_path / "run/source.json").read_bytes() == (tmp_path / "fresh/source.json").read_bytes()


def test_other_peoples_folders_are_left_alone(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    done = run_command("train", write_yaml(tmp_path), "--folder", tmp_path)
    assert (done.code, done.err) == (
        2,
        f"fastmos: {tmp_path}: not a run folder, and not empty; give another --folder\n",
    )


def test_averaged_weights_are_not_trained_over(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder, mean = write_yaml(tmp_path), tmp_path / "run", tmp_path / "run-average"
    assert run_command("train", path, "--folder", folder).code == 0
    assert run_command("average", folder, "--last", 1).code == 0
    before = {file.name: file.read_bytes() for file in mean.iterdir()}
    done = run_command("train", path, "--folder", mean, "--training.epochs", 2)
    said = f"fastmos: {mean}: holds averaged weights, which are not trained on; give another --folder\n"
    assert (done.code, done.err) == (2, said)
    assert {file.name: file.read_bytes() for file in mean.iterdir() if file.name != ".lock"} == before


def test_data_that_changed_is_refused(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder = write_yaml(tmp_path), tmp_path / "run"
    assert run_command("train", path, "--folder", folder).code == 0
    before = (folder / "config.yaml").read_bytes()
    write_digits(tmp_path, seed=1)
    done = run_command("train", path, "--folder", folder, "--training.epochs", 2)
    assert done.code == 2
    assert "the training or validation data has changed since this run began" in done.err
    assert (folder / "config.yaml").read_bytes() == before  # the run still says what it was trained with


def test_ctrl_c_ends_with_130(tmp_path: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "train", interrupted)
    write_digits(tmp_path)
    done = run_command("train", write_yaml(tmp_path))
    assert (done.code, done.err) == (130, "fastmos: interrupted\n")


def test_help_needs_no_torch() -> None:
    code = "import sys; sys.argv = ['fastmos', 'train', '--help']\nfrom fastmos.cli import main\ntry: main()\n"
    code += "except SystemExit as end: assert not end.code\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--training.batch-tokens" in done.stdout


# ---- translate


def test_translate_keeps_order_number_and_empty_lines(trained: Path, run_command: Command) -> None:
    lines = ["3 1 2", "", "5", "  ", "9 8 7 6 5", "1 1", ""] * 3
    done = run_command("translate", trained / "run", stdin="".join(f"{line}\n" for line in lines).encode())
    found = done.out.splitlines()
    assert (done.code, len(found)) == (0, len(lines))
    assert [not line for line in found] == [not line.strip() for line in lines]
    one_by_one = [fastmos.load(trained / "run").translate([line])[0] for line in lines[:7]]
    assert found == one_by_one * 3
    assert found[2] == "5"


def test_translate_files_and_standard_input_alike(trained: Path, run_command: Command) -> None:
    path = trained / "test.a"
    assert (
        run_command("translate", trained / "run", path, path).out
        == run_command("translate", trained / "run", stdin=path.read_bytes() * 2).out
    )


def test_nbest_and_scores_are_columns(trained: Path, run_command: Command) -> None:
    done = run_command("translate", trained / "run", "--nbest", 2, "--beam", 3, "--scores", stdin=b"3 1\n\n5\n")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3"]
    assert rows[2] == ["2", "0.0000", "0.0000", ""]
    run = fastmos.load(trained / "run")
    for number, log_prob, score, text in rows[:2] + rows[3:]:
        assert float(log_prob) == pytest.approx(run.score([["3 1", "", "5"][int(number) - 1]], [text])[0], abs=1e-3)
        assert score == log_prob  # not normalised
    assert run.translate(["3 1"], nbest=2)[0][0].text == rows[0][3]


def test_overlong_lines_are_cut_and_counted_or_refused(trained: Path, run_command: Command) -> None:
    lines = b"1 2\n" + b"7 " * 13 + b"\n" + b"7 " * 12 + b"\n"
    done = run_command("translate", trained / "run", stdin=lines)
    assert (done.code, done.err) == (0, "fastmos: warning: 1 of 3 lines were cut to 12 codes\n")
    assert len(done.out.splitlines()) == 3
    done = run_command("translate", trained / "run", "--overlong", "refuse", stdin=lines)
    assert (done.code, done.out) == (2, "")
    assert done.err == "fastmos: line 2: 13 codes, but the model was trained on 12\n"


def test_a_terminal_gets_a_prompt(trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["3 1", "5"])

    def answer(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    done = run_command("translate", trained / "run", stdin=None)
    assert (done.code, len(done.out.splitlines())) == (0, 2)


def test_a_closed_pipe_ends_quietly(trained: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "fastmos", "translate", str(trained / "run"), str(trained / "test.a")],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["translate", "lm"], b"", "lm: a language model translates nothing; see fastmos score"),
        (["translate", "run", "--nbest", "3", "--beam", "2"], b"3\n", "nbest 3, beam 2: needs 1 <= nbest <= beam"),
        (["translate", "run", "--nbest", "0"], b"3\n", "needs 1 <= nbest <= beam"),
        (["evaluate", "run", "--beam", "0"], b"", "nbest 1, beam 0: needs 1 <= nbest <= beam"),
        (["evaluate", "lm", "--output", "x"], b"", "lm: a language model translates nothing; leave out --output"),
        (["translate", "run"], b"\xff\n", "standard input, line 1: not UTF-8"),
        (["translate", "none"], b"", "none: no such folder; give the folder that fastmos train made"),
        (["translate", "."], b"", "not a run folder (it has no run.json)"),
        (["evaluate", "run", "--source", "test.a"], b"", "evaluation needs --reference"),
        (
            ["evaluate", "run", "--source", "test.a", "--reference", "test.b", "--output", "test.b"],
            b"",
            "test.b: is read, and would be replaced; name another output",
        ),
        (["evaluate", "run", "--reference", "test.b"], b"", "this run is a translation run; give sources too"),
        (
            ["evaluate", "run", "--source", "test.a", "--reference", "train.b"],
            b"",
            "8 source lines and 400 target lines",
        ),
        (["score", "lm", "--target", "test.b", "--source", "test.a"], b"", "a language model, which has no source"),
        (["score", "run", "--target", "none", "--source", "test.a"], b"", "none: no such file"),
        (["sample", "run"], b"", "lines are made up by a language model"),
        (["average", "run"], b"", "give one of --last and --best, as in fastmos average RUN --last 5"),
        (
            ["average", "run", "--last", "9"],
            b"",
            "in all, so 9 cannot be averaged; see training.keep_last and keep_best",
        ),
    ],
)
def test_refusals(
    words: list[str], stdin: bytes, said: str, trained: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    done = run_command(*words, stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.startswith("fastmos: ")
    assert done.err.count("\n") == 1


# ---- evaluate, score, average


def test_evaluate_says_everything(trained: Path, run_command: Command, tmp_path: Path) -> None:
    done = run_command("evaluate", trained / "run", "--output", tmp_path / "out")
    bleu, chrf, nats, speed = done.out.splitlines()
    assert bleu.startswith("BLEU ")
    assert "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp" in bleu
    assert chrf.startswith("chrF ")
    assert "nats per word" in nats
    assert "sentences/s" in speed
    assert (tmp_path / "out").read_text() == run_command("translate", trained / "run", trained / "test.a").out
    files = ["--source", trained / "test.a", "--reference", trained / "test.b"]
    record = json.loads(run_command("evaluate", trained / "run", *files, "--json").out)
    assert f"BLEU {record['bleu']:.2f}" in bleu
    assert record["about"]["seed"] == 1
    assert record["lines"] == 8


def test_evaluate_gives_the_figures_of_wmt(trained: Path, run_command: Command) -> None:
    plain, text, compounds, *_ = run_command("evaluate", trained / "run", "--language", "de").out.splitlines()
    assert text.startswith("text BLEU ")
    assert "|tok:13a|" in text
    assert compounds.startswith("compound BLEU ")
    assert compounds.endswith("|compounds:split)")
    assert plain.split()[1] == compounds.split()[2]  # these words have no hyphens
    refused = run_command("evaluate", trained / "run", "--language", "xx")
    assert refused.code == 2
    assert refused.err.startswith("fastmos: language 'xx' is unknown to Moses' rules; give one of ")


def test_raw_text_has_no_second_figure_of_wmt(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fastmos.load(trained / "run")
    monkeypatch.setattr(run.target, "text", Text("moses", "de"))
    with pytest.raises(InputError, match=r"text is raw, and its BLEU that of text \(13a\) already"):
        run.evaluate(["3 1"], ["1 3"], language="de")


def test_evaluate_and_score_agree(trained: Path, run_command: Command) -> None:
    files = ["--source", trained / "test.a", "--target", trained / "test.b"]
    scores = run_command("score", trained / "run", *files).out.split()
    record = json.loads(run_command("evaluate", trained / "run", "--json").out)
    total = record["nats_per_word"] * (record["words"] + record["lines"])
    assert total == pytest.approx(-sum(map(float, scores)), rel=1e-4)
    assert len(scores) == 8


def test_evaluate_and_validation_agree(trained: Path, run_command: Command) -> None:
    """A language model reads running text in both."""
    log = [json.loads(line) for line in (trained / "lm" / "log.jsonl").read_text().splitlines()]
    record = json.loads(run_command("evaluate", trained / "lm", "--reference", trained / "valid.b", "--json").out)
    assert record["nats_per_word"] == pytest.approx(log[-1]["nats_per_word"], rel=1e-5)
    assert len(run_command("score", trained / "lm", "--target", trained / "valid.b").out.split()) == 8


def test_a_language_model_makes_up_the_same_lines_for_a_seed(trained: Path, run_command: Command) -> None:
    made = [run_command("sample", trained / "lm", "--lines", 3, "--seed", seed).out for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]
    assert len(made[0].splitlines()) == 3


@pytest.mark.parametrize("choice", ["--last", "--best"])
def test_average_makes_a_run_of_its_own(choice: str, trained: Path, run_command: Command, tmp_path: Path) -> None:
    output = tmp_path / "mean"
    done = run_command("average", trained / "run", choice, 2, "--output", output)
    assert done.out.startswith(f"{output}: mean of the checkpoints at steps ")
    assert run_command("evaluate", output).out.startswith("BLEU ")
    again = run_command("average", trained / "run", choice, 2, "--output", output)
    assert (again.code, again.err) == (2, f"fastmos: {output}: exists; give another --output\n")


def test_an_average_that_cannot_be_written_leaves_nothing(
    trained: Path, run_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "mean")

    with monkeypatch.context() as disk:
        disk.setattr(RunFolder, "write", full)
        done = run_command("average", trained / "run", "--last", 2, "--output", tmp_path / "mean")
    assert (done.code, done.err) == (2, "fastmos: mean: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_gets_a_sentence(run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*arguments: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes.")

    monkeypatch.setattr("fastmos.cli._dispatch", greedy)
    done = run_command("translate", "run")
    assert (done.code, done.err) == (
        2,
        "fastmos: there is not enough memory for this; choose smaller sizes or batches\n",
    )


# ---- run folders


def test_a_run_folder_can_be_moved(trained: Path, tmp_path: Path) -> None:
    before = fastmos.load(trained / "run").translate(["3 1 2"])
    shutil.copytree(trained / "run", tmp_path / "moved", ignore=shutil.ignore_patterns("cache", "state*", "log*"))
    assert fastmos.load(tmp_path / "moved").translate(["3 1 2"]) == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("run.json", b'{"format": 2}', "run folder of format 2, but this fastmos reads format 1"),
        ("run.json", b"[]", "run folder of format None, but this fastmos reads format 1"),
        ("run.json", b"{", "not valid JSON"),
        ("config.yaml", b"modle: {}", "no key 'modle'; did you mean 'model'?"),
        ("config.yaml", None, "config.yaml: no such file"),
        ("target.json", b"{}", "target.json"),
        ("model.safetensors", b"", "model.safetensors: damaged"),
        ("model.safetensors", None, "model.safetensors: no such file"),
    ],
)
def test_damaged_run_folders_are_refused(
    name: str, content: bytes | None, said: str, trained: Path, tmp_path: Path, run_command: Command
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained / "run", folder, ignore=shutil.ignore_patterns("cache"))
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    done = run_command("translate", folder)
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1


def test_weights_of_another_model_are_refused(trained: Path, tmp_path: Path, run_command: Command) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained / "run", folder)
    shutil.copy(trained / "lm" / "model.safetensors", folder)
    done = run_command("translate", folder)
    assert done.code == 2
    assert "does not fit the model of its config" in done.err
