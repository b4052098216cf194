"""The work of ``hybridbn impute`` on a table: look at it, learn, fill it block by block, put the parts together."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hybridbn
from hybridbn.commands.checking import modeled, refuse_unknown
from hybridbn.commands.filling import given, learn, of_networks, wishes_of
from hybridbn.commands.output import Output
from hybridbn.commands.profile import profiled
from hybridbn.commands.report import counted, joined, page, preview
from hybridbn.commands.request import refuse_contradictions, refuse_strangers
from hybridbn.commands.run import Run, named
from hybridbn.commands.terminal import Terminal
from hybridbn.commands.workspace import OtherRun
from hybridbn.errors import TableError
from hybridbn.formats.files import write_atomically
from hybridbn.formats.hbn import load, save
from hybridbn.learning.imputation.data_augmentation import Settings
from hybridbn.network import Network
from hybridbn.tables import Table

__all__ = ["complete"]

_CELLS = 400_000
"""In a block; what is held of a block is some hundred bytes a cell."""
_SAMPLE_CELLS = 5_000_000
_SAMPLE_NUMBERS = 20_000_000
"""In the largest array of learning, where columns have many states."""


def complete(run: Run) -> None:
    """Complete the table of a run that has begun."""
    request = run.request
    model = None if request.model is None else load(request.model)
    _look(run, model)
    output = _output(run)
    output.rehearse()
    _learn(run, model)
    parts = _fill(run, output)
    if not run.source.unchanged():
        raise OtherRun(f"{run.origin.shown} was changed while it was read; run the command again")
    if not run.goal.pipe:  # which may be the same terminal
        run.terminal.step("writing")
    output.assemble(parts, not request.no_clobber, lambda: _finishing(run))
    run.terminal.done()
    _tell(run)


def _look(run: Run, model: Network | None) -> None:
    """Read the whole table once."""
    request = run.request
    kinds: dict[str, Any] = dict.fromkeys(request.discrete, "discrete") | dict.fromkeys(
        request.continuous, "continuous"
    )
    refuse_contradictions(request)
    keep = frozenset(request.keep)
    if model is not None:
        kinds = wishes_of(model) | kinds
    kinds = {name: kind for name, kind in kinds.items() if name not in keep}
    # columns that number the rows, unless they are asked for
    index = run.source.index - {*kinds, *request.include}
    if run.source.names and {*run.source.names} <= keep | index:
        raise TableError(f"{run.origin.shown}: no column is left to complete: all of them are kept as they are")
    names = len(run.source.names)
    sample = min(request.sample, max(_SAMPLE_CELLS // max(names, 1), 2000))
    with run.terminal.progress("looking") as told, named(run):
        run.profile = profiled(run.source, _rows_of(run), kinds, keep | index, sample, told)
    run.profile.limit(_SAMPLE_NUMBERS)
    refuse_strangers(request, run.source.names)


def _rows_of(run: Run) -> int:
    """Return how many rows a block has."""
    if run.request.chunk is not None:
        return run.request.chunk
    return max(min(_CELLS // max(len(run.source.names), 1), 65_536), 100)


def _learn(run: Run, model: Network | None) -> None:
    """Learn from the sample, or take what an earlier run learned, or what the user has."""
    request, work, profile = run.request, run.work, run.profile
    with _warnings_told(run.terminal):
        _remark_on_strategy(run)
        with named(run):
            names = modeled(profile, model, request, run.terminal)
        table = profile.table(names)
        settings = _settings(run, names)
        if model is not None:
            run.filling = given(model, table, settings, strategy=request.strategy, draws=request.draws)
            refuse_unknown(profile, run.filling, request, run.terminal)
            return
        history = work.json("history.json")
        count = request.draws or 1
        if history is not None:
            networks = [load(work.path(f"model-{draw}.hbn")) for draw in range(count)]
            run.filling = of_networks(networks, settings, strategy=request.strategy, history=history)
            return
        run.terminal.step("learning")
        ranges = {name: field.limits for name, field in run.source.fields.items() if field.limits is not None}
        run.filling = learn(table, settings, ranges, strategy=request.strategy, draws=request.draws)
    for draw in range(count):
        save(run.filling.models[draw].network, work.path(f"model-{draw}.hbn"))
    work.put_json("history.json", run.filling.history)


def _settings(run: Run, names: list[str]) -> Settings:
    request = run.request
    numbers = {name: run.profile.columns[name] for name in names if run.profile.columns[name].kind == "number"}
    return Settings(
        structure=request.structure,
        target=request.target,
        potentials=request.potentials,
        include=[name for name in request.include if name in names],
        bounds=request.bounds,
        integers=[name for name, column in numbers.items() if column.integer],
        # of the whole table, though only a sample is learned from
        decimals={
            name: d for name, c in numbers.items() if (d := c.imputed_decimals(request.full_precision)) is not None
        },
        donors=request.donors,
        rounds=request.rounds,
        random_state=request.seed,
    )


@contextmanager
def _warnings_told(terminal: Terminal) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, UserWarning)):
        terminal.warn(text)


def _remark_on_strategy(run: Run) -> None:
    request = run.request
    if request.strategy != "draw":
        run.terminal.warn(
            f"--strategy {request.strategy} makes variances too small and correlations too large: fine to predict single cells, wrong "
            "for any estimate computed from the completed table; --draws 20 and hybridbn.pool are right"
        )
    if request.draws and request.model is not None:
        run.terminal.warn(
            "the draws share the model's parameters, so intervals that are pooled from them are too short; without --model, "
            "each draw has parameters of its own"
        )


def _output(run: Run) -> Output:
    request, delimiter = run.request, run.request.output_delimiter
    if delimiter is None and (run.goal.form, run.goal.suffix) == (run.origin.form, run.origin.suffix):
        delimiter = request.delimiter  # the same suffix has the same delimiter
    counter = request.draw_column if request.draws is not None else None
    return Output(run.goal, run.source, run.profile, counter, request.encoding, {"delimiter": delimiter})


def _fill(run: Run, output: Output) -> list[Path]:
    """Write the parts that are not there yet; return all of them in the order of the output."""
    request, work, profile = run.request, run.work, run.profile
    rows, draws = _rows_of(run), request.draws or 1
    source = run.source
    count = -(-profile.rows // rows)
    # the part of the last draw is written last
    first = next((block for block in range(count) if not work.has(f"part-{draws - 1}-{block}")), count)
    kinds = _second_kinds(run)
    with run.terminal.progress("imputing", profile.rows, first * rows) as told:
        if first < count:
            for number, block in enumerate(source.blocks(rows, first), start=first):
                cells = _aligned(run, block, kinds)
                table = Table.from_cells(cells, stateless=True)
                fills = [run.filling.fills(table, block.start, draw) for draw in range(draws)]
                if request.report:
                    work.put_json(f"tally-{number}.json", counted(profile, cells, fills))
                for draw, filled in enumerate(fills):
                    work.put(f"part-{draw}-{number}", output.part(block, filled, draw))
                told(block.start + block.rows)
    if request.report:
        run.tally = joined(work.json(f"tally-{number}.json") for number in range(count))
    return [work.path(f"part-{draw}-{number}") for draw in range(draws) for number in range(count)]


def _second_kinds(run: Run) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    for name in run.filling.names:
        column = run.profile.columns[name]
        if column.kind == "states":
            kinds[name] = "text" if run.source.spelled else "discrete"
    return kinds


def _aligned(run: Run, block: Any, kinds: dict[str, Any]) -> dict[str, Any]:
    names = run.filling.names
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = block.cells(names, kinds)
    return {name: run.profile.aligned(name, found.get(name), block.rows) for name in names}


# -- the end --------------------------------------------------------------------------------------------------------


def _finishing(run: Run) -> None:
    """Write what goes with the output, and note that only its name is missing."""
    request = run.request
    if request.save_model is not None:
        save(run.filling.models[0].network, request.save_model)
    if request.report is not None:
        facts, remarks = _facts(run), run.terminal.warned
        text = page(
            f"Imputation of {run.origin.shown}",
            facts,
            run.profile,
            run.tally,
            run.filling.history,
            remarks,
            request.draws or 1,
        )
        write_atomically(request.report, text.encode())
    run.work.put_json("finishing.json", {"rows": run.profile.rows * (request.draws or 1)})


def _facts(run: Run) -> list[tuple[str, str]]:
    request, profile = run.request, run.profile
    network = run.filling.models[0].network
    columns = f"{len(run.source.names)} columns, {len(run.filling.names)} of them in the model"
    learned = (
        f"{len(profile.sample_rows):,} of {profile.rows:,} rows"
        if len(profile.sample_rows) < profile.rows
        else "all rows"
    )
    if request.model is not None:
        origin = f"from {request.model}"
    else:
        origin = f"learned from {learned}, structure {request.structure}, {len(run.filling.history)} rounds"
    arcs = (
        "nothing depends on anything" if not len(network) else f"{len(network)} nodes, {network.number_of_edges()} arcs"
    )
    return [
        ("output", run.goal.shown),
        ("table", f"{profile.rows:,} rows, {columns}"),
        ("model", f"{origin}: {arcs}"),
        (
            "strategy",
            f"{request.strategy}, seed {request.seed}" + (f", {request.draws} draws" if request.draws else ""),
        ),
        ("version", f"hybridbn {hybridbn.__version__}"),
    ]


def _tell(run: Run) -> None:
    profile, terminal = run.profile, run.terminal
    names = [name for name in run.filling.names if profile.columns[name].missing]
    cells = sum(profile.columns[name].missing for name in names)
    draws = f", {run.request.draws} times" if run.request.draws else ""
    terminal.note(
        f"completed {cells:,} cells in {len(names)} of {len(run.source.names)} columns, {profile.rows:,} rows{draws}: "
        f"{run.goal.shown} ({time.monotonic() - run.began:.1f} s)"
    )
    if run.request.show and not run.goal.pipe:
        show: Callable[[str], None] = terminal.show
        show(preview(run.source, run.profile, run.filling, _second_kinds(run), run.request.show))
