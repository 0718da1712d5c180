"""`fastmos train`: what it prints, how it ends, what it refuses."""

from pathlib import Path

import pytest

from fastmos import experiment
from fastmos.config import write_config
from fastmos.tokenizers import WordTokenizer
from tests.cli.calling import Command
from tests.training.tiny import tiny, write_digits


def write_yaml(base: Path, **sections: dict[str, object]) -> Path:
    (base / "tiny.yaml").write_text(write_config(tiny(training={"max_epochs": 1, "save_every": 0}, **sections)))
    return base / "tiny.yaml"


def test_train_resumes_and_says_when_it_is_done(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder = write_yaml(tmp_path), tmp_path / "run"
    first = run_command("train", path, "--folder", folder, "--model.hidden_size", 6)
    assert (first.code, first.out) == (0, "")
    assert "attention-lstm of hidden size 6" in first.err
    again = run_command("train", path, f"--folder={folder}", "--model.hidden_size", 6)
    assert again.code == 0
    assert again.err.startswith(f"{folder}: finished at step 6 (all steps done); best BLEU ")
    longer = run_command("train", path, "--folder", folder, "--model.hidden_size", 6, "--training.max_epochs", 2)
    assert "resuming at step 6" in longer.err
    other = run_command("train", path, "--folder", folder)
    sentence = f"fastmos: {folder}: was trained with model.hidden_size 6, not 8; give another --folder\n"
    assert (other.code, other.err) == (2, sentence)
    (folder / "state.safetensors").unlink()  # which takes the most room; the weights are still safe
    other = run_command("train", path, "--folder", folder)
    assert (other.code, other.err) == (2, sentence)


def test_a_refused_start_does_not_stand_in_the_way(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder = write_yaml(tmp_path), tmp_path / "run"
    few = ["--tokenizers.target.type", "bpe", "--tokenizers.target.vocab_size", 1]
    refused = run_command("train", path, "--folder", folder, *few)
    assert refused.code == 2 and "a vocab_size of 1 is too small" in refused.err
    assert run_command("train", path, "--folder", folder).code == 0


def test_a_run_is_named_after_its_config(tmp_path: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write_digits(tmp_path)
    path = write_yaml(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_command("train", path).code == 0
    assert (tmp_path / "runs" / "tiny" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: CONFIG; fastmos train --help lists the options"),
        (["none.yaml"], "none.yaml: no such file; the first argument of fastmos train is a YAML file"),
        (["sampl"], "sampl: no such file, and no packaged config of that name; did you mean 'sample'?"),
        (["YAML", "stray"], "no place for 'stray'; fastmos train --help lists the options"),
        (["YAML", "--folder"], "--folder: expected one argument; fastmos train --help lists the options"),
        (["YAML", "--foldr", "x"], "no option '--foldr'; did you mean '--folder'?"),
        (["YAML", "--num_layers", "2"], "no option '--num_layers'; did you mean '--model.num_layers'?"),
        (
            ["YAML", "--model.num_layer", "2"],
            "the command line: no key 'model.num_layer'; did you mean 'model.num_layers'?",
        ),
        (
            ["YAML", "--model.num-layers", "two"],
            "the command line: model.num_layers: input should be a valid integer, unable to parse ",
        ),
        (["YAML", "--head.type", "mso"], "the command line: head.type is 'mso'; it must be one of softmax, mos, "),
        (["YAML", "--data.train.target", ""], "the config is not usable: data.train.target is missing; name a file"),
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
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"fastmos: {said}")
    assert done.err.count("\n") == 1
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


def test_a_tokenizer_may_come_from_a_file(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder, tokenizer = write_yaml(tmp_path), tmp_path / "run", tmp_path / "tokenizer.json"
    WordTokenizer.learn((tmp_path / "train.b").read_text().splitlines(), vocab_size=9).save(tokenizer)
    words = ["--tokenizers.target.type", "file", "--tokenizers.target.path", tokenizer]
    assert run_command("train", path, "--folder", folder, *words).code == 0
    assert (folder / "target.json").read_bytes() == tokenizer.read_bytes()


def test_a_refused_start_leaves_no_tokenizer_behind(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, whole = write_yaml(tmp_path), (tmp_path / "train.a").read_text()
    (tmp_path / "train.a").write_text("1 2\n")
    assert run_command("train", path, "--folder", tmp_path / "run").code == 2
    (tmp_path / "train.a").write_text(whole)
    for name in ("run", "fresh"):
        assert run_command("train", path, "--folder", tmp_path / name).code == 0
    assert (tmp_path / "run/source.json").read_bytes() == (tmp_path / "fresh/source.json").read_bytes()


def test_data_that_changed_is_refused(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, folder = write_yaml(tmp_path), tmp_path / "run"
    assert run_command("train", path, "--folder", folder).code == 0
    before = (folder / "config.yaml").read_bytes()
    write_digits(tmp_path, seed=1)
    done = run_command("train", path, "--folder", folder, "--training.max_epochs", 2)
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


def test_one_softmax_needs_one_option(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    done = run_command("train", write_yaml(tmp_path), "--folder", tmp_path / "run", "--head.type", "softmax")
    assert done.code == 0
    assert "one softmax over" in done.err


def test_raw_text_is_noticed(tmp_path: Path, run_command: Command) -> None:
    write_digits(tmp_path)
    path, text = write_yaml(tmp_path), tmp_path / "train.a"
    text.write_text(text.read_text().replace("\n", " end.\n"))
    said = f"warning: {text}: looks raw, with punctuation attached to words; set tokenizers.source.language\n"
    assert run_command("train", path, "--folder", tmp_path / "run").err.startswith(said)
    language = ["--tokenizers.source.language", "en"]
    assert "warning" not in run_command("train", path, "--folder", tmp_path / "moses", *language).err


def test_help_shows_the_settings_of_the_config(tmp_path: Path, run_command: Command) -> None:
    path = write_yaml(tmp_path)
    shown = run_command("train", path, "--head.type", "softmax", "--model.num_layers", 3, "--help")
    assert shown.code == 0
    assert f"settings, as they are in {path}:" in shown.out
    assert "  --model.num_layers 3\n" in shown.out
    assert "--head.mixtures" not in shown.out
    assert "--head.mixtures 9\n" in run_command("train", "--help").out


def test_a_packaged_config_reads_files_below_the_current_folder(
    tmp_path: Path, run_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run_command("train", "sample")
    assert (refused.code, refused.err) == (
        2,
        "fastmos: runs/sample-data/train.de: no such file (named in the config)\n",
    )
    run_command("data", "sample", "runs/sample-data", "--pairs", 60, "--valid", 2, "--test", 2)
    sizes = ["--model.hidden_size", 8, "--training.max_epochs", 1, "--search.max_length", 3]
    vocabulary = [word for side in ("source", "target") for word in (f"--tokenizers.{side}.vocab_size", 100)]
    assert run_command("train", "sample", *sizes, *vocabulary).code == 0
    assert (tmp_path / "runs" / "sample" / "model.safetensors").exists()
    monkeypatch.chdir(tmp_path.parent)  # the run knows where its files are
    assert run_command("evaluate", tmp_path / "runs" / "sample").code == 0
