"""``hybridbn impute``: lock the output, profile the table, learn, fill it block by block, and join the parts.

The input is read in passes. Each completed block is stored as a part file beside the output, so that a run that was
killed continues where it stopped; a fingerprint of input, options and versions decides whether the parts still fit.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import time
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import hybridbn
from hybridbn.commands.column_profiles import TableProfile
from hybridbn.commands.locations import (
    Location,
    locate,
    open_source,
    refuse_existing_output,
)
from hybridbn.commands.models import find_structure, kinds_of
from hybridbn.commands.output import Output
from hybridbn.commands.report import add_counts, count_values, format_preview, list_variables, render_page
from hybridbn.commands.table_input import (
    TableRequest,
    answer_blocks,
    answer_inputs,
    choose_columns,
    list_inputs,
    locate_output,
    read_profile,
    refuse_unknown_states,
    rows_per_block,
    sample_inputs,
    seed_of_file,
)
from hybridbn.commands.terminal import OutputTaken, RunMismatch, Terminal, UsageFault, keep_interrupts
from hybridbn.commands.workspace import Workspace, lock_of, lock_output, parts_of
from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.completion import seed_of
from hybridbn.exchange.hbn import load_network, save
from hybridbn.fitting.base import check_spec
from hybridbn.learning.imputation.data_augmentation import Filler, Settings, fit_imputation, use_network
from hybridbn.learning.imputation.model import Model, count_outside, has_metadata, read_columns, remark_on_outside
from hybridbn.network import Network
from hybridbn.options import ImputationOptions
from hybridbn.tables import Table
from hybridbn.tables.columns import open_frame
from hybridbn.tables.formats.base import Fills, TableSource, name_file_in_errors
from hybridbn.tables.formats.database_base import Database
from hybridbn.tables.formats.files import open_scratch, refuse_special_file, resolve_links, write_atomically
from hybridbn.variables import shorten


@dataclass(frozen=True)
class ImputationRequest(ImputationOptions, TableRequest):
    """The options of ``hybridbn impute`` under their own names."""

    draws: int | None = None
    model: str | None = None
    save_model: str | None = None
    include: tuple[str, ...] = ()
    random_state: int = 0
    report: str | None = None
    draw_column: str = "draw"
    restart: bool = False
    show: int = 0


def _refuse_clashes(request: ImputationRequest, source: Location, destination: Location) -> None:
    """Refuse outputs that would overwrite the input or each other."""
    beside = destination.beside(request.parts)
    if request.parts is not None and not os.path.isdir(request.parts):
        raise UsageFault(f"--parts {request.parts}: there is no such folder")
    named = {"INPUT": source.path, "OUTPUT": destination.path}
    if request.model is not None:
        named["--model"] = Path(os.path.realpath(request.model))
    if beside is not None:
        named |= {"the lock of OUTPUT": lock_of(beside), "the folder of unfinished runs": parts_of(beside)}
    for option, path in (("--save-model", request.save_model), ("--report", request.report)):
        if path is None:
            continue
        target = resolve_links(path)
        refuse_special_file(target)
        clash = next((other for other, taken in named.items() if taken in (target, *target.parents)), None)
        if clash:
            raise UsageFault(f"{option} {path} is {clash}, too; choose another name")
        if target.is_dir() or not target.parent.is_dir():
            raise UsageFault(
                f"{option} {path}: {'a folder' if target.is_dir() else f'there is no folder {target.parent}'}"
            )
        named[option] = target


def _refuse_present(request: ImputationRequest, destination: Location) -> None:
    """Refuse outputs that exist and must not be replaced."""
    refuse_existing_output(destination, request.no_clobber)
    for option, path in (("--save-model", request.save_model), ("--report", request.report)):
        if path is not None and request.no_clobber and os.path.exists(path):
            raise OutputTaken(f"{option} {path} exists already, and --no-clobber says to leave it")


_NOT_IN_RESULT = {
    *("input", "output", "save_model", "report", "no_clobber", "restart", "parts", "show"),
    *("backend", "scheduler", "workers"),
}
"""Options that do not change the bytes of the output."""


@dataclass
class ImputationRun:
    """The state of a running command; the fields without a value are set as it proceeds."""

    request: ImputationRequest
    terminal: Terminal
    origin: Location
    destination: Location
    workspace: Workspace
    source: TableSource = field(init=False)
    profile: TableProfile = field(init=False)
    filler: Filler = field(init=False)
    value_counts: dict[str, Any] = field(default_factory=dict)
    outside: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)


def _fingerprint(run: ImputationRun) -> dict[str, Any]:
    """Return everything that the bytes of the output depend on: the input's hash, the options and the versions."""
    options = {name: value for name, value in asdict(run.request).items() if name not in _NOT_IN_RESULT}
    options["formats"] = [run.origin.suffix, run.destination.suffix]
    options["report"] = run.request.report is not None
    if run.request.model is not None:
        options["model"] = hashlib.sha256(Path(run.request.model).read_bytes()).hexdigest()
    versions = {"hybridbn": hybridbn.__version__}
    for name in ("numpy", "scipy", "pandas", "pyarrow"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "none"
    known = {"input": run.source.digest(), "options": options, "versions": versions}
    return dict(json.loads(json.dumps(known)))


def identify_file(status: os.stat_result) -> list[int]:
    """Return by what a file is known again, whatever its name."""
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def impute_inputs(request: ImputationRequest, terminal: Terminal) -> None:
    """Complete a table, or each of several files by one model, which a sample of the rows of all of them tells."""
    several = None if request.backend == "duckdb" else list_inputs(request.input)
    if several is None:
        answer_inputs(request, partial(impute, terminal=terminal), terminal)
        return
    if request.draws is not None or request.report is not None:
        raise UsageFault("--draws and --report are for one table; impute the files one by one, with --model")
    with open_scratch() as folder:
        model = request.model or f"{folder}/model.hbn"
        if request.model is None:
            terminal.note(f"learning one model for {len(several)} files")
            with sample_inputs(request) as sample:
                learned = replace(request, input=sample, output=f"{folder}/sample.parquet", save_model=model)
                impute(learned, terminal)
            if request.save_model is not None:
                shutil.copy(model, request.save_model)

        def complete(one: ImputationRequest) -> None:
            name = os.path.relpath(one.output, request.output)
            impute(replace(one, random_state=seed_of_file(one.random_state, name)), terminal)

        # what was for learning is in the model
        given = replace(request, model=model, include=(), **LEARNING)
        answer_inputs(given, complete, terminal)


LEARNING: dict[str, Any] = {
    name: getattr(ImputationRequest, name)
    for name in ("structure", "target", "potentials", "rounds", "full_precision", "donors", "rules", "save_model")
}
"""Options of learning and what they are where they are not given."""


def impute(request: ImputationRequest, terminal: Terminal) -> None:
    """Complete the missing cells of a table and write the result.

    Raises
    ------
    HybridBNError, OSError
        If the input or an option is wrong, or the system refuses a file operation.
    OutputTaken, RunMismatch
        If another run writes the output, it exists already, or parts of a different run are beside it.
    """
    keep_interrupts()
    origin = locate(request.input, request.from_format, request.format, "INPUT")
    destination = locate_output(request, origin)
    _refuse_clashes(request, origin, destination)
    beside = destination.beside(request.parts)
    with lock_output(beside, destination.shown), open_scratch() as scratch:
        workspace = Workspace(beside or scratch / "output", lasting=beside is not None)
        is_ours = not workspace.lasting
        try:
            if request.restart or not workspace.has_begun():
                _refuse_present(request, destination)
            workspace.begin(request.restart)
            is_ours = True
            _run(ImputationRun(request, terminal, origin, destination, workspace))
            workspace.clear()
        except BaseException as error:
            goes_on = workspace.lasting and isinstance(error, KeyboardInterrupt | RunMismatch)
            if is_ours and not goes_on:
                workspace.clear()
            elif goes_on and isinstance(error, KeyboardInterrupt):
                if is_ours:
                    workspace.forget_unfinished()
                error.args = ("interrupted; the same command goes on from there",)
            raise


def _run(run: ImputationRun) -> None:
    request, workspace = run.request, run.workspace
    run.terminal.show_step("reading")
    with name_file_in_errors(run.origin.shown):
        run.source = open_source(run.origin, workspace.folder, request.encoding, request.reading, request.rows)
    known = _fingerprint(run)
    resumed = workspace.agree(known)
    if resumed and _already_there(run):
        return
    if workspace.is_partial:  # and the output was removed since
        workspace.forget(known)
    if resumed:
        _refuse_present(request, run.destination)
        run.terminal.note("going on from where an earlier run was ended")
    complete(run)


def _already_there(run: ImputationRun) -> bool:
    """Return whether an earlier run finished its output and was stopped during cleanup."""
    noted, form, path = run.workspace.finishing, run.destination.form, run.destination.path
    if noted is None:
        return False
    if not isinstance(form, Database):
        return path is not None and path.exists() and identify_file(path.stat()) == noted["file"]
    try:
        refuse_existing_output(run.destination, no_clobber=True)
    except OutputTaken:
        return form.count(run.destination.url) == int(noted["rows"])
    return False


def complete(run: ImputationRun) -> None:
    """Impute the missing cells of a run's table and write the output."""
    request = run.request
    check_spec(request.potentials)
    if request.structure != "auto":  # all builders are imported for that
        find_structure(request.structure)
    model = None if request.model is None else load_network(request.model)
    _profile(run, model)
    counter = None if request.draws is None else request.draw_column
    output = Output(run.destination, run.source, run.profile, counter, request.encoding)
    _learn(run, model)
    with run.terminal.forward_warnings():
        run.filler.models[0].columns.rules.tell()
    parts = _write_parts(run, output)
    if not run.source.is_unchanged():
        run.workspace.clear()  # what was made of the former input is of no use to the next run
        raise RunMismatch(f"{run.origin.shown} was changed while it was read; run the command again")
    if not run.destination.pipe:  # which may be the same terminal
        run.terminal.show_step("writing")
    output.assemble(parts, not request.no_clobber, partial(_finish, run))
    run.terminal.clear_step()
    _summarize(run)


def _profile(run: ImputationRun, model: Network | None) -> None:
    """Read the whole table once, to profile its columns and to sample rows."""
    request = run.request
    kinds = {} if model is None else kinds_of(model)
    # Columns that number the rows are left out unless the user names them.
    index = run.source.index - {*kinds, *request.discrete, *request.continuous, *request.include}
    if run.source.names and {*run.source.names} <= {*request.keep} | index:
        raise TableError(f"{run.origin.shown}: no column is left to complete: all of them are kept as they are")
    named = request.bounds if isinstance(request.bounds, dict) else ()
    run.profile = read_profile(
        run.source, run.origin.shown, request, run.terminal, kinds=kinds, bounds=named, leave=index
    )


def _learn(run: ImputationRun, model: Network | None) -> None:
    """Learn models from the sample, or load those of an earlier run, or use the network of the user."""
    request, workspace, profile = run.request, run.workspace, run.profile
    with run.terminal.forward_warnings():
        _warn_about_strategy(run)
        with name_file_in_errors(run.origin.shown):
            names = _choose_columns(run, model)
        table = profile.sample.select(names)
        settings = _make_settings(run, names)
        if model is not None:
            run.filler = _apply_network(model, table, settings, request.draws)
            refuse_unknown_states(profile, run.filler.models[0].columns.variables, request.unknown, run.terminal)
            return
        history = workspace.json("history.json")
        count = request.draws or 1
        if history is not None:
            networks = [load_network(workspace.path(f"model-{draw}.hbn")) for draw in range(count)]
            models = [Model.from_metadata(network, settings.options) for network in networks]
            run.filler = Filler(models, settings.strategy, seed_of(settings.random_state), history)
            return
        run.terminal.show_step("learning")
        ranges = {name: field.limits for name, field in run.source.fields.items() if field.limits is not None}
        run.filler = Filler.of(fit_imputation(table, settings, ranges), request.strategy, request.draws)
    for draw in range(count):
        save(run.filler.models[draw].network, workspace.path(f"model-{draw}.hbn"))
    workspace.put_json("history.json", run.filler.history)


def _apply_network(network: Network, table: Table, settings: Settings, draws: int | None) -> Filler:
    """Return what fills a table with a network of the user."""
    if has_metadata(network):
        absent = [name for name in read_columns(network).variables if name not in table.names]
        if absent:
            raise NetworkError(
                f"the model completes the columns {shorten(absent)}, but the table hasn't; its columns are"
                f" {shorten(table.names)}"
            )
    return Filler.of(use_network(network, open_frame(table), settings), settings.strategy, draws)


def _choose_columns(run: ImputationRun, model: Network | None) -> list[str]:
    """Return the columns to complete: those that the model knows, or all but those that are left alone."""
    profile, terminal = run.profile, run.terminal
    if model is None:
        for name in run.request.include:
            column = profile.columns[name]
            if column.variable is None or column.overflowing:
                raise TableError(f"--include {name}: the column has {column.reason_alone}, so nothing can be imputed")
        names = choose_columns(profile, run.request, terminal, "completes identifiers and texts from their own values")
        if profile.blank and len(profile.columns) > 1:
            terminal.warn(
                f"rows without any observed cell ({profile.blank:,}) are drawn from the distribution of all rows"
            )
        if not names:
            raise TableError("no column is left to complete")
        return names
    known = set(kinds_of(model)) | set(model)
    if not known & set(profile.columns):
        raise NetworkError(
            f"the model and the table have no column in common: {shorten(sorted(known))} against"
            f" {shorten(profile.columns)}"
        )
    absent = [name for name in model if name not in profile.columns]
    if absent and "imputation" not in model.graph:
        terminal.warn(
            f"the model has columns {shorten(absent)} that the table hasn't; they count as unknown in each row"
        )
    unmodeled = [n for n, c in profile.columns.items() if c.missing and n not in known and c.reason_alone is None]
    if unmodeled:
        raise NetworkError(
            f"columns {shorten(unmodeled)} have missing cells, but the model doesn't know them; --keep them, or"
            " learn a model that does"
        )
    return [name for name in profile.columns if name in known]


def _make_settings(run: ImputationRun, names: list[str]) -> Settings:
    request = run.request
    columns = run.profile.columns
    whole = [name for name in names if columns[name].kind == "number" and columns[name].integer]
    changed = {
        "include": [name for name in request.include if name in names],
        # a network says nothing of types, and where one is learned, columns of whole numbers are seen in the sample
        "integers": None if request.model is None else whole,
    }
    return Settings(**{option.name: getattr(request, option.name) for option in fields(ImputationOptions)} | changed)


def _warn_about_strategy(run: ImputationRun) -> None:
    request = run.request
    if request.strategy != "draw":
        run.terminal.warn(
            f"--strategy {request.strategy} makes variances too small and correlations too large: fine to predict"
            " single cells, wrong for any estimate computed from the completed table; --draws 20 and hybridbn.pool are"
            " right"
        )
    if request.draws and request.model is not None:
        run.terminal.warn(
            "the draws share the model's parameters, so intervals that are pooled from them are too short; without"
            " --model, each draw has parameters of its own"
        )


def _write_parts(run: ImputationRun, output: Output) -> list[Path]:
    """Write the parts that do not exist yet; return all of them in the order of the output."""
    request, workspace, profile = run.request, run.workspace, run.profile
    draws = request.draws or 1
    count = -(-profile.rows // rows_per_block(run.source, request))
    # A block is complete when the part of its last draw exists, which is written last.
    first = next((block for block in range(count) if not workspace.has(f"part-{draws - 1}-{block}")), count)
    fill, variables = partial(_fill, run.filler, draws), list_variables(profile, run.filler)
    ranges = _find_ranges(profile)
    with closing(answer_blocks(request, run.source, variables, fill, "imputing", profile.rows, first)) as answered:
        for number, (block, table, fills) in enumerate(answered if first < count else (), start=first):
            numbers = ({name: values for name, (_, values) in part.items()} for part in fills)
            workspace.put_json(f"outside-{number}.json", count_outside(numbers, ranges))
            if request.report:
                workspace.put_json(f"tally-{number}.json", count_values(profile, table, fills))
            for draw, part_fills in enumerate(fills):
                workspace.put(f"part-{draw}-{number}", output.make_part(block, part_fills, draw))
    if request.report:
        run.value_counts = add_counts(workspace.json(f"tally-{number}.json") for number in range(count))
    beyond = (Counter[str](workspace.json(f"outside-{number}.json")) for number in range(count))
    run.outside = sum(beyond, Counter[str]())
    return [workspace.path(f"part-{draw}-{number}") for draw in range(draws) for number in range(count)]


def _fill(filler: Filler, draws: int, rows: tuple[Table, int]) -> list[Fills]:
    return [filler.fill_table(draw, *rows) for draw in range(draws)]


def _find_ranges(profile: TableProfile) -> dict[str, tuple[float, float]]:
    return {name: (one.low, one.high) for name, one in profile.columns.items() if one.kind == "number"}


# -- the end --------------------------------------------------------------------------------------------------------


def _finish(run: ImputationRun, status: os.stat_result | None = None) -> None:
    """Save the model and the report, and record that the output, a file of this state, only lacks its name."""
    request = run.request
    if request.save_model is not None:
        write_atomically(request.save_model, run.workspace.path("model-0.hbn").read_bytes())
    if request.report is not None:
        facts, remarks = _list_facts(run), run.terminal.warnings
        text = render_page(
            f"Imputation of {run.origin.shown}",
            facts,
            run.profile,
            run.value_counts,
            run.filler.history,
            remarks,
            request.draws or 1,
        )
        write_atomically(request.report, text.encode())
    rows = run.profile.rows * (request.draws or 1)
    run.workspace.note_finishing({"rows": rows, "file": None if status is None else identify_file(status)})


def _list_facts(run: ImputationRun) -> list[tuple[str, str]]:
    request, profile = run.request, run.profile
    network = run.filler.models[0].network
    columns = f"{len(run.source.names)} columns, {len(run.filler.names)} of them in the model"
    learned = f"{len(profile.sample):,} of {profile.rows:,} rows" if len(profile.sample) < profile.rows else "all rows"
    rounds = f"structure {request.structure}, {len(run.filler.history)} rounds"
    origin = f"learned from {learned}, {rounds}" if request.model is None else f"from {request.model}"
    arcs = (
        "nothing depends on anything" if not len(network) else f"{len(network)} nodes, {network.number_of_edges()} arcs"
    )
    return [
        ("output", run.destination.shown),
        ("table", f"{profile.rows:,} rows, {columns}"),
        ("model", f"{origin}: {arcs}"),
        (
            "strategy",
            f"{request.strategy}, seed {request.random_state}" + (f", {request.draws} draws" if request.draws else ""),
        ),
        ("version", f"hybridbn {hybridbn.__version__}"),
    ]


def _summarize(run: ImputationRun) -> None:
    profile, terminal = run.profile, run.terminal
    names = [name for name in run.filler.names if profile.columns[name].missing]
    cells = sum(profile.columns[name].missing for name in names)
    draws = f", {run.request.draws} times" if run.request.draws else ""
    terminal.note(
        f"completed {cells:,} cells in {len(names)} of {len(run.source.names)} columns, {profile.rows:,} rows{draws}: "
        f"{run.destination.shown} ({time.monotonic() - run.began:.1f} s)"
    )
    with terminal.forward_warnings():
        remark_on_outside(run.outside, _find_ranges(profile), run.filler.models[0].columns.variables)
    if run.request.show and not run.destination.pipe:
        terminal.show(format_preview(run.source, run.profile, run.filler, run.request.show))
