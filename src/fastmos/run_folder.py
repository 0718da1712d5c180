"""The run folder: what lies where, its format version, and who may write in it."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from fastmos.checkpoints import Checkpoints, read_tensors
from fastmos.config import Config, options, parse_config, write_config
from fastmos.config.reading import read_yaml
from fastmos.errors import InputError
from fastmos.files import clear_temporary, read_json, write_json, written_whole

FORMAT = 1
LAST_KEY = "max_length"  # of `search`, the last section: a config.yaml that was cut lacks it, and would get defaults
# A run may be made longer; and its files may move, since their content is compared (see `state.py`).
MAY_CHANGE = {"training.max_epochs", "training.early_stopping_patience", "training.log_to", "data.cache"}
PATHS = {f"data.{split}.{side}" for split in ("train", "valid", "test") for side in ("source", "target")}
PATHS.add("data.features")


class BusyError(InputError):
    """Another process trains in the folder."""


class RunFolder:
    """Names of everything in a run folder.

    run.json            format version, and the folder that data paths are relative to
    config.yaml         the config with every value written out
    source.json, target.json    the tokenizers
    features.json       captioning: what made the features, and how many an image has
    shortlist.json      heads with a shortlist: the tokens on it
    model.safetensors   the best weights
    checkpoints/        the best few and the last few
    state.safetensors   all that is needed to resume: weights, optimizer, counters
    previous-state.safetensors  the state before, in case that one is damaged
    log.jsonl           one JSON object a line: steps and validations
    validation/         translations of the validation text, one file a validation
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.about = root / "run.json"
        self.config = root / "config.yaml"
        self.source = root / "source.json"
        self.target = root / "target.json"
        self.features = root / "features.json"
        self.shortlist = root / "shortlist.json"
        self.model = root / "model.safetensors"
        self.state = root / "state.safetensors"
        self.log = root / "log.jsonl"
        self.validation = root / "validation"
        self.cache = root / "cache"
        self.checkpoints = Checkpoints(root / "checkpoints")
        # What the weights are of no use without.
        self.inputs = (self.source, self.target, self.features, self.shortlist)

    def read(self) -> tuple[Config, Path]:
        """The run's config, and the folder its data paths are relative to."""
        if not self.root.is_dir():
            raise InputError(f"{self.root}: no such folder; give the folder that fastmos train made")
        if not self.about.is_file():
            raise InputError(f"{self.root}: not a run folder (it has no {self.about.name})")
        about = read_json(self.about)
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            found = about.get("format") if isinstance(about, dict) else None
            raise InputError(f"{self.root}: run folder of format {found}, but this fastmos reads format {FORMAT}")
        if not self.config.is_file():
            raise InputError(f"{self.root}: not a run folder (it has no {self.config.name})")
        values = read_yaml(self.config)
        config = parse_config(values, str(self.config))
        if LAST_KEY not in values.get("search", {}):
            raise InputError(f"{self.config}: is cut off (it has no search.{LAST_KEY}); get the whole folder again")
        return config, Path(str(about.get("base", "")))

    def digests(self) -> dict[str, str]:
        """SHA-256 of what gives the weights their meaning; features say themselves what made them."""
        paths = (self.source, self.target, self.shortlist)
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()}

    def read_weights(self) -> dict[str, Tensor]:
        """The run's weights, which must be those that were trained with its tokenizers."""
        tensors, notes = read_tensors(self.model)
        trained = notes.get("inputs", {})  # older runs do not say
        for name, digest in self.digests().items():
            if trained.get(name, digest) != digest:
                raise InputError(f"{self.root}: was trained with another {name}; get the whole folder again")
        return tensors

    def begin(self, config: Config, base: Path) -> None:
        """Make the folder for this config, or see that it was made for it."""
        if self.model.exists() and not self.state.exists() and "averaged" in read_tensors(self.model)[1]:
            raise InputError(f"{self.root}: holds averaged weights, which are not trained on; give another --folder")
        if self.about.exists():
            if self.state.exists() or self.model.exists():  # it is written anew when the data is known to be the same
                _compare(self.root, self.read()[0], config)
                return
        elif self.root.is_dir() and any(path.name != ".lock" for path in self.root.iterdir()):
            raise InputError(f"{self.root}: not a run folder, and not empty; give another --folder")
        self.write(config, base)

    def write(self, config: Config, base: Path) -> None:
        """What makes a folder a run folder; first the file that says so, lest a killed run not know its own folder."""
        write_json(self.about, {"format": FORMAT, "base": str(base)})
        with written_whole(self.config) as file:
            file.write(write_config(config))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one training at a time into the folder, and clear away what a killed one left."""
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / ".lock", "w") as file:  # closing it, or dying, unlocks
            _lock(file.fileno(), self.root)
            for folder in (self.root, self.validation, self.checkpoints.folder):
                clear_temporary(folder, settled=0.0)  # nobody else writes files of this run
            yield


def _lock(handle: int, root: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not POSIX: nothing to lock with
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(f"{root}: another process trains in this folder; wait for it") from None
    except OSError:  # a disk without locks
        return


def _compare(root: Path, before: Config, now: Config) -> None:
    old, new = options(before), options(now)
    may_change = MAY_CHANGE | PATHS
    if now.training.lr_schedule != "linear":  # whose learning rate depends on the last step from the first one on
        may_change |= {"training.max_steps"}
    for key in old | new:
        if old.get(key) != new.get(key) and key not in may_change:
            raise InputError(
                f"{root}: was trained with {key} {old.get(key)}, not {new.get(key)}; give another --folder"
            )
