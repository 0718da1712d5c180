"""`make torture`: kill every long command again and again, at any time; it must end with the very files of one that is
left alone. Then kill workers of torchrun, fill the disk, and forbid writing. Prints what was done, and ends with 1 if
anything differed."""

import argparse
import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.training.tiny import in_child, start_child, tiny, tiny_language_model, write_digits

Command = list[str]
NOT_COMPARED = {"log.jsonl", ".lock", "rounds.json", "previous-state.safetensors"}  # times, and what a kill changes


def fastmos(words: Command) -> None:
    """A command in this process, which has everything imported."""
    from fastmos.cli import dispatch

    quiet = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(quiet, number)
    dispatch(words)


def prepare(folder: Path) -> None:
    """Text, configs, images, a run and a tokenizer to work with."""
    from PIL import Image

    from fastmos.config import changed, write_config
    from fastmos.experiment import train
    from fastmos.samples.scenes import write_scenes
    from fastmos.vision.backbones import load_backbone
    from fastmos.vision.extraction import extract
    from tests.tasks.captioner import tiny_captioner

    write_digits(folder)
    transformer = {"model": {"type": "transformer", "hidden_size": 8, "num_heads": 2, "ffn_size": 8}}
    configs = {
        "translation": tiny(),
        "transformer": changed(tiny(), transformer),
        "language model": tiny_language_model(),
    }
    for name, config in configs.items():
        (folder / f"{name}.yaml").write_text(write_config(config))
    train(configs["translation"], folder, folder / "run")
    scenes = folder / "scenes"
    write_scenes(scenes, train=60, valid=10, test=10)
    extract(scenes, scenes / "f.safetensors", load_backbone("color-grid"))
    (scenes / "captioning.yaml").write_text(write_config(tiny_captioner(save_every=3)))
    (folder / "photos").mkdir()
    for number in range(60):
        Image.effect_noise((96, 96), number % 100 + 1).save(folder / "photos" / f"{number}.png")


def commands(folder: Path) -> dict[str, Callable[[Path], Command]]:
    """Name -> the command that writes to a path."""

    def train(name: str) -> Callable[[Path], Command]:
        return lambda out: ["train", str(folder / f"{name}.yaml"), "--folder", str(out)]

    text, valid = str(folder / "train.b"), str(folder / "valid.b")
    learn = ["tokenizer", "learn", text, "--type", "table", "--frequent", "2", "--learn", "--valid", valid]
    return {
        "train translation": train("translation"),
        "train transformer": train("transformer"),
        "train language model": train("language model"),
        "train captioning": train("scenes/captioning"),
        "learned table": lambda out: [*learn, "--rounds", "2", "--hidden-size", "8", "-o", str(out / "table.json")],
        "features": lambda out: ["features", str(folder / "photos"), "--backbone", "color-grid", "-o", str(out / "f")],
        "average": lambda out: ["average", str(folder / "run"), "--last", "2", "-o", str(out)],
        "data sample": lambda out: ["data", "sample", str(out), "--pairs", "500"],
    }


def content(folder: Path) -> dict[str, bytes]:
    """What is compared; files that are not finished count too."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in NOT_COMPARED]
    relative = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {name: one for name, one in relative.items() if "about.json" not in name and name != "run.json"}


def killed(command: Callable[[Path], Command], folder: Path, kills: int, choose: random.Random) -> tuple[int, bool]:
    """How many kills struck, and whether the files are those of a command left alone."""
    begin = time.monotonic()
    (folder / "alone").mkdir()
    (folder / "killed").mkdir()
    assert in_child(lambda: fastmos(command(folder / "alone" / "out"))) == 0
    lasts = time.monotonic() - begin
    struck, same = 0, True
    while struck < kills:
        child = start_child(lambda: fastmos(command(folder / "killed" / "out")))
        time.sleep(choose.uniform(0, lasts))
        os.kill(child, signal.SIGKILL)
        was_killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        struck += was_killed
        time.sleep(1.1)  # what was left is cleared by a call that comes a second later
        if not was_killed or (
            (folder / "killed" / "out" / "model.safetensors").exists() and command(folder)[0] == "average"
        ):
            same = same and content(folder / "alone") == content(folder / "killed")
            shutil.rmtree(folder / "killed")
            (folder / "killed").mkdir()
    assert in_child(lambda: fastmos(command(folder / "killed" / "out"))) == 0
    same = same and content(folder / "alone") == content(folder / "killed")
    return struck, same and not list(folder.rglob(".*.tmp"))


def spoilt(kind: str, command: Command, folder: Path) -> bool:
    """A command that meets a full disk, or may not write, ends with an error and leaves nothing half-written."""

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sabotage() -> None:
        if kind == "small files":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
        elif kind == "full disk":
            os.fsync = no_space  # type: ignore[assignment]
        elif os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    folder.mkdir()
    if kind == "read-only folder":
        folder.chmod(0o555)
    code = in_child(lambda: fastmos(command), sabotage)
    return code != 0 and not list(folder.rglob(".*.tmp")) and not list(folder.rglob("model.safetensors"))


WORKER = """
import os, random, signal, sys, threading, time
from fastmos.cli import main
if os.environ["RANK"] == str(int(os.environ["TORCHELASTIC_RESTART_COUNT"]) % 2):
    if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < int(sys.argv[-1]):
        wait = random.Random(os.environ["TORCHELASTIC_RESTART_COUNT"]).uniform(0, 20)
        threading.Timer(wait, os.kill, (os.getpid(), signal.SIGKILL)).start()
sys.argv = ["fastmos", *sys.argv[1:-1]]
main()
"""


def workers_killed(folder: Path, kills: int) -> bool:
    """Two processes of torchrun, one of which is killed again and again; beside two that are left alone."""
    from fastmos.config import write_config

    (folder / "long.yaml").write_text(
        write_config(tiny(training={"max_epochs": 400, "batch_size": 4, "save_every": 20}))
    )
    (folder / "worker.py").write_text(WORKER)
    for name, count in (("two-alone", 0), ("two-killed", kills)):
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
        launch += ["--nproc-per-node=2", f"--max-restarts={kills}", str(folder / "worker.py")]
        words = ["train", str(folder / "long.yaml"), "--folder", str(folder / name), str(count)]
        subprocess.run([*launch, *words], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True)
    return content(folder / "two-alone") == content(folder / "two-killed")


def show(title: str, kills: int, same: bool) -> None:
    print(f"{title:22} {kills:4} kills, {'bit-equal' if same else 'DIFFERENT'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=105, help="SIGKILLs, over all commands")
    parser.add_argument("--workers", type=int, default=20, help="killed workers of torchrun")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    choose, total, wrong = random.Random(args.seed), 0, []
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        prepare(base)
        jobs = commands(base)
        for number, (title, command) in enumerate(jobs.items()):
            folder = base / f"job{number}"
            folder.mkdir()
            struck, same = killed(command, folder, -(-args.kills // len(jobs)), choose)
            total += struck
            wrong += [] if same else [title]
            show(title, struck, same)
        for number, kind in enumerate(("full disk", "small files", "read-only folder")):
            for part, (title, command) in enumerate(jobs.items()):
                place = base / f"spoilt-{number}-{part}"
                if not spoilt(kind, command(place / "out"), place):
                    wrong.append(f"{title} with {kind}")
            print(f"{kind:22} {len(jobs):4} commands", flush=True)
        if args.workers:
            same = workers_killed(base, args.workers)
            wrong += [] if same else ["torchrun"]
            show("workers of torchrun", args.workers, same)
    print(f"{total} kills of commands, {args.workers} of workers; failures: {', '.join(wrong) or 'none'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
