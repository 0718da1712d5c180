"""The example of CONTRIBUTING.md: a body added as it says is trained, evaluated and sampled by the command line."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from fastmos.config import write_config
from tests.training.tiny import tiny_language_model, write_digits

ROOT = Path(__file__).parents[1]


def blocks() -> dict[str, tuple[str, str]]:
    """What each code block of the example is for: file, section or entry -> (path, text)."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {what: (path, code) for what, path, code in re.findall(r"```python (\w+)=(\S+)\n(.*?)```", text, re.DOTALL)}


def test_a_new_body_is_one_file_and_one_section(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    example = blocks()
    path, code = example["file"]
    (tmp_path / path).write_text(code, encoding="utf-8")
    path, section = example["section"]
    registry = "BODIES: dict[str, type[BodyConfig]] = {\n"
    models = (tmp_path / path).read_text(encoding="utf-8")
    assert models.count(registry) == 1
    changed = models.replace(registry, f"{section}\n\n{registry}{example['entry'][1]}")
    (tmp_path / path).write_text(changed, encoding="utf-8")

    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = [len(list(filter(None, text.splitlines()))) for text in (code, section + example["entry"][1])]
    assert f"with {lines[0]} and {lines[1]} new lines" in said

    write_digits(tmp_path)
    (tmp_path / "config.yaml").write_text(write_config(tiny_language_model(max_epochs=1)), encoding="utf-8")

    def fastmos(*words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "fastmos", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    fastmos("train", "config.yaml", "--folder", "run", "--model.type", "gru")
    assert "perplexity" in fastmos("evaluate", "run")
    assert len(fastmos("sample", "run", "--lines", "3").splitlines()) == 3
