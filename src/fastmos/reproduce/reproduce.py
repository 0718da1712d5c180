"""`fastmos reproduce`: train what a suite lacks, measure, and print our figures beside the paper's.

Work is a list of jobs, each of which writes one file of results. A job whose file exists is done. A job that another
process works on is skipped, so that the same command may be started several times to share the work.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmos.config import parse_config
from fastmos.errors import InputError
from fastmos.files import check_output
from fastmos.processes import whole_number
from fastmos.reproduce.measurements import Measurement
from fastmos.reproduce.plans import Plan, Row, TablePlan, config_id, digest, plan, word_model
from fastmos.reproduce.records import read_result, write_result
from fastmos.reproduce.scales import Scale, scales_called
from fastmos.reproduce.suite import Suite
from fastmos.reproduce.suites import SUITES
from fastmos.reproduce.summary import table_text
from fastmos.run_folder import BusyError, RunFolder

ALL = "all"


@dataclass(frozen=True)
class Job:
    """A record to make."""

    kind: str  # of the record
    name: str
    path: Path  # of the record
    make: Callable[[], dict[str, Any]]
    needs: tuple[Path, ...] = ()  # what other jobs must have made


@dataclass(frozen=True)
class Folders:
    """Where runs and results go."""

    runs: Path
    results: Path

    def record(self, scale: Scale, name: str) -> Path:
        return self.results / scale.name / f"{name}.json"

    def table_record(self, scale: Scale, table: TablePlan) -> Path:
        return self.record(scale, f"table-{table.id}")


def reproduce(
    suite: str,
    scale: str,
    *,
    seeds: int | None = None,
    only: str = "",
    runs: Path = Path("runs"),
    results: Path = Path("results"),
    show: bool = False,
) -> None:
    """Train and measure what is missing, unless `show`, and print the tables of a suite, or of all."""
    if suite not in (*SUITES, ALL):
        raise InputError(f"no suite '{suite}'; choose one of {', '.join(SUITES)} or {ALL}")
    if seeds is not None and seeds < 1:
        raise InputError(f"{seeds} seeds train nothing; give at least 1")
    if whole_number("WORLD_SIZE", 1) > 1:
        raise InputError("fastmos reproduce trains each run in one process; start it without torchrun, several times")
    for folder in (runs, results):
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; give a folder")
    folders = Folders(runs.resolve(), results)
    chosen = list(SUITES.values()) if suite == ALL else [SUITES[suite]]
    names = [row.name for one in scales_called(scale) for some in chosen for row in some.rows_at(one)]
    if not names:
        raise InputError(f"the suite {suite} has no rows at the scale {scale}; docs/reproducing.md says which it has")
    if not any(_chosen(name, only) for name in names):
        raise InputError(f"no row has '{only}' in its name; there are {'; '.join(dict.fromkeys(names))}")
    failed = 0
    for one in scales_called(scale):
        work = jobs(chosen, one, folders, seeds, only)
        if not work:
            continue
        if show:
            _list(work)
        else:
            failed += _work(work, one, folders)
        for some in chosen:
            if some.rows_at(one):
                print(table_text(some.table(one, results_of(one, folders.results), seeds)))
    if failed:
        raise InputError(f"{failed} of these failed, for the reasons given above")


def results_of(scale: Scale, folder: Path) -> list[dict[str, Any]]:
    """All records of a scale; files that are none are left out, with a warning."""
    found = []
    for path in sorted((folder / scale.name).glob("*.json")):
        try:
            found.append(read_result(path))
        except InputError as error:
            _say(f"fastmos: warning: left out {error}")
    return found


# ---- what is to be done


def jobs(suites: Sequence[Suite], scale: Scale, folders: Folders, seeds: int | None, only: str) -> list[Job]:
    """All jobs, the first seed of every suite before the second; what suites share is there once."""
    found: dict[Path, Job] = {}
    turns = [(seed, suite) for suite in suites for seed in range(1, (seeds or suite.seeds_at(scale)) + 1)]
    for seed, suite in sorted(turns, key=lambda turn: turn[0]):
        rows = [row for row in suite.rows_at(scale) if _chosen(row.name, only)]
        for job in _jobs_of(suite, rows, scale, seed, folders, whole=bool(rows) and not only):
            found.setdefault(job.path, job)
    return list(found.values())


def _chosen(name: str, only: str) -> bool:
    return only.lower() in name.lower()


def _jobs_of(suite: Suite, rows: Sequence[Row], scale: Scale, seed: int, folders: Folders, whole: bool) -> list[Job]:
    plans = [plan(row, scale, seed) for row in rows]
    work = []
    for one in plans:
        work += _table_jobs(one, scale, folders)
        if suite.trains:
            work.append(_run_job(one, scale, folders))
    if seed == 1 and whole:
        work += [_measurement_job(measurement, plans, scale, folders) for measurement in suite.measurements(scale)]
    return work


def _table_jobs(one: Plan, scale: Scale, folders: Folders) -> list[Job]:
    if one.table is None:
        return []
    name = one.name.rsplit(", ", 1)[0]  # without the head's

    def make() -> dict[str, Any]:
        from fastmos.reproduce.prepare import table_record
        from fastmos.reproduce.records import header

        assert one.table is not None
        _prepare(one, scale, folders)
        about = header("table", scale.name, one.table.learning.seed)
        return {**about, "name": name, **table_record(one, folders.runs)}

    return [Job("table", f"table: {name}", folders.table_record(scale, one.table), make)]


def _prepare(one: Plan, scale: Scale, folders: Folders) -> None:
    """The table that a run needs, if it needs one."""
    from fastmos.reproduce.prepare import prepare_table

    if one.table is not None:
        prepare_table(one.table, folders.runs, folders.table_record(scale, one.table))


def _run_job(one: Plan, scale: Scale, folders: Folders) -> Job:
    def make() -> dict[str, Any]:
        from fastmos import experiment
        from fastmos.reproduce.evaluation import run_record

        _prepare(one, scale, folders)
        folder = folders.runs / one.id
        experiment.train(one.config, folders.runs, folder)
        with RunFolder(folder).lock():  # no other process evaluates it at the same time
            return run_record(folder, one.name, scale, word_model(scale), one.table.id if one.table else None)

    return Job("run", f"{one.name}, seed {one.config.training.seed}", folders.record(scale, one.id), make)


def _measurement_job(measurement: Measurement, plans: Sequence[Plan], scale: Scale, folders: Folders) -> Job:
    if measurement.all_suites:
        suites = [suite for suite in SUITES.values() if measurement in suite.measurements(scale)]
        plans = [plan(row, scale) for suite in suites for row in suite.rows_at(scale)]
    each = {one.id: one for one in plans}
    needs = tuple(folders.record(scale, run) for run in each) if measurement.needs_weights else ()

    def make() -> dict[str, Any]:
        for one in each.values():
            _prepare(one, scale, folders)
        with RunFolder(folders.runs / measurement.kind).lock():
            return measurement.record(list(each.values()), scale, folders.runs)

    path = folders.record(scale, f"{measurement.kind}-{digest(list(each))}")
    return Job(measurement.kind, measurement.label, path, make, needs)


# ---- doing it


def _work(work: Sequence[Job], scale: Scale, folders: Folders) -> int:
    """Do all jobs, and as long as some were done, look again at those that waited for others; how many failed."""
    from fastmos.reproduce.prepare import check_text, prepare_text

    for job in work:
        if _state(job) == BROKEN:
            raise InputError(f"{job.path}: no record of {job.name}; delete it to make it again")
    todo = [job for job in work if not job.path.exists()]
    failed: set[Path] = set()
    if todo:
        check_output(todo[0].path)
        try:
            prepare_text(scale, folders.runs)
            check_text(scale, folders.runs)
        except InputError as error:
            _say(str(error))
            return len(todo)
    while todo:
        before = len(todo)
        for number, job in enumerate(todo, 1):
            if not job.path.exists() and all(path.exists() for path in job.needs):
                _say(f"[{number} of {before}] {job.name} ({job.path.stem})")
                if not _do(job):
                    failed.add(job.path)
        todo = [job for job in todo if not job.path.exists() and job.path not in failed]
        if len(todo) == before:
            _say(f"{len(todo)} of {len(work)} jobs wait for other processes; start it again when those are done")
            break
    return len(failed)


def _do(job: Job) -> bool:
    """Make the record, unless another process works on it; False if it cannot be made."""
    try:
        record = job.make()
    except BusyError:
        _say(f"another process works on {job.name}")
        return True
    except InputError as error:
        _say(f"{job.name} failed: {error}")
        return False
    write_result(job.path, record)
    return True


DONE, BROKEN, TO_DO = "done", "broken", "to do"


def _state(job: Job) -> str:
    """Is there a record, and is it of this job?"""
    if not job.path.exists():
        return TO_DO
    try:
        record = read_result(job.path)
        right = job.kind != "run" or config_id(parse_config(record.get("config") or {}, "")) == job.path.stem
    except InputError:
        return BROKEN
    return DONE if record["kind"] == job.kind and right else BROKEN


def _list(work: Sequence[Job]) -> None:
    for job in work:
        print(f"{_state(job):6} {job.path.stem:18} {job.name}")
    print()


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
