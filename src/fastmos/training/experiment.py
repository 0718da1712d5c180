"""An experiment from its config to its end: `fastmos train`."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from fastmos.codings import UNK, Coding
from fastmos.files import provenance, read_lines
from fastmos.models import Captioner
from fastmos.training.build import (
    Pair,
    build_model,
    check_files,
    encode,
    learn_codings,
    load_codings,
    training_batches,
)
from fastmos.training.captioning import Gallery, Split, encode_captions, prepare, split_captions
from fastmos.training.config import Config, check, data_path
from fastmos.training.distributed import World, join_world, leave_world
from fastmos.training.folder import RunFolder
from fastmos.training.journal import Journal
from fastmos.training.loop import Batches, Trainer, reason_to_end
from fastmos.training.state import State, fingerprint
from fastmos.training.validation import Validator


def train(config: Config, base: Path, root: Path) -> None:
    """Train in the folder `root`, going on with what is there; data paths are relative to `base`."""
    check(config)
    check_files(config, base)
    folder = RunFolder(root)
    world = join_world()
    try:
        with ExitStack() as stack:

            def start() -> None:
                stack.enter_context(folder.lock())
                begin(config, base, folder)

            world.first_does(start)
            _train(config, base, folder, world)
    finally:
        leave_world(world)


def begin(config: Config, base: Path, folder: RunFolder) -> None:
    """Make the run folder and its codings."""
    folder.begin(config, base.resolve())
    if config.task == "captioning":
        prepare(config, base, folder)
    else:
        learn_codings(config, base, folder)


def _train(config: Config, base: Path, folder: RunFolder, world: World) -> None:
    source, target = load_codings(folder)
    # The others find the text in the cache.
    splits: tuple[Split, Split] = ("train", "valid")
    world.first_does(lambda: [encode_split(config, split, source, target, base, folder) for split in splits])
    pair, valid = (encode_split(config, split, source, target, base, folder) for split in splits)
    batches = training_batches(config, pair, world.rank, world.size)
    model = build_model(config, source, target, pair.pictures.features.width if pair.pictures else 0)
    if isinstance(model.body, Captioner) and pair.pictures is not None:
        model.body.mean.data = pair.pictures.mean()
    trainer = Trainer(config, folder, world, model, batches, _validator(config, valid, target, base))
    data = " ".join(fingerprint(one.texts(), one.pictures) for one in (pair, valid))
    state = trainer.begin(State(data, world.size))
    if world.first:
        folder.write(config, base.resolve())
    ended = reason_to_end(config.training, state)
    if ended:
        if world.first:
            print(f"{folder.root}: finished at step {state.step:,} ({ended}); {_best(config, state)}", file=sys.stderr)
        return
    validated = state.history[-1][0] if state.history else 0
    total = _total_steps(config, batches)
    journal = Journal(folder.root, folder.log, state.step, validated, total, silent=not world.first)
    try:
        parameters = sum(parameter.numel() for parameter in model.parameters())
        journal.say(_summary(config, pair, len(target), parameters, batches, world))
        for warning in _unlearnt_unk([coding for coding in (source, target) if coding], pair, valid):
            journal.say(warning)
        if state.step:
            journal.say(f"going on from step {state.step:,}")
        journal.write({"step": state.step, "parameters": parameters, "about": provenance(config.training.seed)})
        trainer.run(journal)
        ended = reason_to_end(config.training, state)
        journal.say(f"finished at step {state.step:,} ({ended}); {_best(config, state)}, in {folder.root}")
    finally:
        journal.close()


def encode_split(
    config: Config, split: Split, source: Coding | None, target: Coding, base: Path, folder: RunFolder
) -> Pair:
    """A split in codes, with pictures if it is captions."""
    if config.task == "captioning":
        return encode_captions(config, split, target, base, folder)
    return encode(config, getattr(config.data, split), source, target, base, folder)


def _validator(config: Config, valid: Pair, target: Coding, base: Path) -> Validator:
    if valid.pictures is not None:
        gallery = Gallery.of(valid.pictures.features, split_captions(config, "valid", base))
        return Validator(config, valid, target, [], gallery)
    return Validator(config, valid, target, list(read_lines(data_path(config.data.valid.target, base))))


def _total_steps(config: Config, batches: Batches) -> int:
    """Steps until the limit, as far as the first epoch lets us know."""
    training = config.training
    limits = [training.epochs * -(-batches.steps(0) // training.accumulate), training.steps]
    return min(limit for limit in limits if limit)


def _best(config: Config, state: State) -> str:
    value = max(value for _, value in state.history)
    if config.training.measure == "nats":
        return f"best nats per word {-value:.4f}"
    return f"best {'CIDEr' if config.training.measure == 'cider' else 'BLEU'} {value:.2f}"


def _unlearnt_unk(codings: list[Coding], pair: Pair, valid: Pair) -> Iterator[str]:
    """A model that first meets unk when it is judged may mispredict the rest of the line."""
    for coding, text, judged in zip(codings, pair.texts(), valid.texts(), strict=True):
        unknown = int((judged.codes == UNK).sum()) if coding.kind != "bpe" else 0
        if unknown and not (text.codes == UNK).any():
            yield f"warning: {judged.name}: {unknown:,} unknown words, but none to learn from; set unk_share"


def _summary(config: Config, pair: Pair, codes: int, parameters: int, batches: Batches, world: World) -> str:
    head, model = config.head, config.model
    output = "one softmax" if head.kind == "softmax" else f"{head.kind} of {head.mixtures}"
    lines = [
        f"{config.task}: {len(pair.target):,} lines, {len(pair.target.codes):,} target codes; {model.kind} of width "
        f"{model.width}, {output} over {codes:,} codes, {parameters:,} parameters",
        f"{batches.steps(0):,} batches an epoch, {world.size} x {world.device.type}",
    ]
    empty, overlong = getattr(batches, "empty", 0), getattr(batches, "overlong", 0)
    if empty or overlong:
        limit = config.data.max_length
        lines.append(f"left out of training: {empty:,} pairs with an empty side, {overlong:,} of over {limit} codes")
    return "\n".join(lines)
