"""Translation, captioning and language modeling: all that differs between them, one class each."""

from pathlib import Path
from typing import Any

from fastmos.config import TASKS, Config, load_class
from fastmos.run_folder import RunFolder
from fastmos.tasks.base import Task as Task


def build_task(config: Config, base: Path, folder: RunFolder) -> Task:
    """The task of a config, whose files are relative to `base`, in a run folder."""
    task: Any = load_class(TASKS[config.task])
    return task(config, base, folder)  # type: ignore[no-any-return]
