"""An experiment from its config to a trained run: `fastmos train`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from fastmos.config import METRICS, Config, Table, TokenizerConfig
from fastmos.distributed import World, join_world, leave_world
from fastmos.errors import printable
from fastmos.files import read_json, read_lines
from fastmos.models import Generator
from fastmos.provenance import provenance
from fastmos.run_folder import RunFolder
from fastmos.tables.learning import learn_in_folder, table_of
from fastmos.tables.rounds import TableLearning
from fastmos.tasks import Task, build_task
from fastmos.tasks.base import Split, learn_tokenizer
from fastmos.tasks.dataset import Dataset
from fastmos.tasks.evaluation import Evaluation, Evaluator, Interruptible
from fastmos.tokenizers import UNK, Tokenizer
from fastmos.tokenizers.detection import looks_raw
from fastmos.training.run_log import RunLog
from fastmos.training.state import State, begun_with, restore_state
from fastmos.training.trainer import Batches, Trainer, reason_to_end


def train(config: Config, base: Path, root: Path) -> None:
    """Train in the folder `root`, resuming what is there; data paths are relative to `base`."""
    folder = RunFolder(root)
    task = build_task(config, base, folder)
    task.check()
    world = join_world()
    try:
        with ExitStack() as stack:

            def start() -> None:
                stack.enter_context(folder.lock())
                restore_state(folder.state)
                begin(task)

            world.first_only(start)
            _learn_tables(task, world)
            _train(task, world)
    finally:
        leave_world(world)


def begin(task: Task) -> None:
    """Make the run folder and its tokenizers."""
    task.folder.begin(task.config, task.base.resolve())

    def learn(section: TokenizerConfig, files: list[Path], side: str) -> Tokenizer:
        for file in files if not section.language else []:
            if looks_raw(read_lines(file)):
                key = f"tokenizers.{side}.language"
                print(
                    f"warning: {printable(file)}: looks raw, with punctuation attached to words; set {key}",
                    file=sys.stderr,
                )
        return learn_tokenizer(section, files, task.base)

    task.prepare(learn)


def _learn_tables(task: Task, world: World) -> None:
    """The first phase of a run: learn the tables that its config asks for, starting from those that `begin` made."""
    tokenizers, folder = task.config.tokenizers, task.folder
    if folder.state.exists():
        return
    for side in ("target",) if tokenizers.joint else ("source", "target"):
        section, path = getattr(tokenizers, side), folder.root / f"{side}.json"
        if not isinstance(section, Table) or not section.learn or not path.exists():
            continue
        sides = ("source", "target") if tokenizers.joint else (side,)
        found = learn_in_folder(
            folder.root / f"table-{side}",
            partial(table_of, path),
            [task.text("train", one) for one in sides],
            [task.text("valid", one) for one in sides],
            TableLearning(rounds=section.rounds, method=section.method, seed=task.config.training.seed),
            world,
            neighbors=section.layout in ("", "neighbors"),
        )
        for one in sides:
            world.first_only(partial(found.tokenizer.save, folder.root / f"{one}.json"))


def _train(task: Task, world: World) -> None:
    config, folder = task.config, task.folder
    splits: tuple[Split, Split] = ("train", "valid")
    world.first_only(lambda: [task.dataset(split) for split in splits])  # the others find the text in the cache
    data, valid = (task.dataset(split) for split in splits)
    world.first_only(lambda: task.choose_shortlist(data))
    share = begun_with(folder.state, world.size)
    batches = task.training_batches(data, world.rank, world.size, share)
    model = task.build_model()
    task.start_from(data, model)

    def validate(model: Generator, world: World, interruptible: Interruptible) -> Evaluation:
        evaluator = Evaluator(model, task.target, config.search, world, interruptible, quick=True)
        return task.evaluate(valid, evaluator)

    trainer = Trainer(config.training, folder, world, model, batches, validate)
    state = trainer.begin(State(f"{data.fingerprint()} {valid.fingerprint()}", world.size))
    if world.first:
        folder.write(config, task.base.resolve())
    ended = reason_to_end(config.training, state)
    if ended:
        if world.first:
            print(
                f"{printable(folder.root)}: finished at step {state.step:,} ({ended}); {_best(config, state)}",
                file=sys.stderr,
            )
        return
    validated = state.history[-1][0] if state.history else 0
    total = _total_steps(config, batches)
    run_log = RunLog(folder.root, folder.log, state.step, validated, total, config.training.log_to, not world.first)
    try:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        run_log.say(_summary(task, data, parameters, batches, world))
        for warning in _unseen_unk(task.tokenizers, data, valid):
            run_log.say(warning)
        if state.step:
            run_log.say(f"resuming at step {state.step:,}")
        run_log.write({"step": state.step, "parameters": parameters, "about": provenance(config.training.seed)})
        trainer.run(run_log)
        ended = reason_to_end(config.training, state)
        run_log.say(f"finished at step {state.step:,} ({ended}); {_best(config, state)}, in {folder.root}")
    finally:
        run_log.close()


def _total_steps(config: Config, batches: Batches) -> int:
    """Steps until the limit, as far as the first epoch tells."""
    training = config.training
    limits = [training.max_epochs * -(-batches.steps(0) // training.accumulate_steps), training.max_steps]
    return min(limit for limit in limits if limit)


def _best(config: Config, state: State) -> str:
    metric, value = config.training.early_stopping_metric, max(value for _, value in state.history)
    return f"best {METRICS[metric]} {-value:.4f}" if metric == "nll" else f"best {METRICS[metric]} {value:.2f}"


def _unseen_unk(tokenizers: Sequence[Tokenizer], data: Dataset, valid: Dataset) -> Iterator[str]:
    """A model that first meets unk in validation may mispredict the rest of the line."""
    for tokenizer, text, held_out in zip(tokenizers, data.texts, valid.texts, strict=True):
        unknown = int((held_out.tokens == UNK).sum()) if tokenizer.type != "bpe" else 0
        if unknown and not (text.tokens == UNK).any():
            yield f"warning: {held_out.name}: {unknown:,} unknown words, but none in training; set unk_share"


def _summary(task: Task, data: Dataset, parameters: int, batches: Batches, world: World) -> str:
    config, head = task.config, task.config.head
    output = "one softmax" if head.type == "softmax" else f"{head.type} head of {head.num_mixtures} components"
    output += f" over {len(task.target):,} tokens"
    if task.folder.shortlist.exists():
        output += f" ({len(read_json(task.folder.shortlist)):,} on the shortlist)"
    lines = [
        f"{config.task}: {len(data.target):,} lines, {len(data.target.tokens):,} target tokens; {config.model.type} of "
        f"hidden size {config.model.hidden_size}, {output}, {parameters:,} parameters",
        f"{batches.steps(0):,} batches an epoch, {world.size} x {world.device.type}",
    ]
    empty, overlong = getattr(batches, "empty", 0), getattr(batches, "overlong", 0)
    if empty or overlong:
        limit = config.data.max_length
        lines.append(f"left out of training: {empty:,} pairs with an empty side, {overlong:,} of over {limit} tokens")
    return "\n".join(lines)
