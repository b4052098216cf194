"""``hybridbn impute``: locate input and output, lock the output, and resume an unfinished run.

The input is read twice, in blocks of rows. Each completed block is stored as a part file beside the output, so that a
run that was killed continues where it stopped; a fingerprint of input, options and versions decides whether the parts
still fit.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from typing import Any

from hybridbn.commands.locations import OutputTaken, UsageFault, locate, open_source, refuse_existing_output
from hybridbn.commands.run import (
    ImputationRequest,
    ImputationRun,
    fingerprint,
    identify_file,
    refuse_clashes,
    refuse_present,
)
from hybridbn.commands.several_inputs import answer_inputs, list_inputs, sample_inputs, seed_of_file
from hybridbn.commands.table_input import name_input_in_errors
from hybridbn.commands.terminal import Terminal, keep_interrupts
from hybridbn.commands.workspace import RunMismatch, Workspace, lock_output
from hybridbn.formats.tables.base import names
from hybridbn.formats.tables.database_base import Database

__all__ = ["LEARNING", "ImputationRequest", "impute", "impute_inputs"]


def impute_inputs(request: ImputationRequest, terminal: Terminal) -> None:
    """Complete a table, or each of several files by one model, which a sample of the rows of all of them tells."""
    several = None if request.backend == "duckdb" else list_inputs(request.input)
    if several is None:
        answer_inputs(request, partial(impute, terminal=terminal), terminal)
        return
    if request.draws is not None or request.report is not None:
        raise UsageFault("--draws and --report are for one table; impute the files one by one, with --model")
    with tempfile.TemporaryDirectory(prefix="hybridbn-") as folder:
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
    # A pipe has no suffix, so it gets the input's format.
    same = origin.suffix.removeprefix(".") if request.output == "-" and origin.suffix[1:] in names() else None
    destination = locate(request.output, request.to_format, request.format or same, "OUTPUT")
    refuse_clashes(request, origin, destination)
    beside = destination.beside(request.parts)
    with lock_output(beside, destination.shown):
        workspace = Workspace(beside)
        is_ours = not workspace.lasting
        try:
            if request.restart or not workspace.has_begun():
                refuse_present(request, destination)
            workspace.begin(request.restart)
            is_ours = True
            _run(ImputationRun(request, terminal, origin, destination, workspace))
            workspace.clear()
        except KeyboardInterrupt as interrupt:
            if workspace.lasting:
                if is_ours:
                    workspace.forget_copies()
                interrupt.args = ("interrupted; the same command goes on from there",)
            else:
                workspace.clear()
            raise
        except RunMismatch:
            if not workspace.lasting:
                workspace.clear()
            raise
        except BaseException:
            if is_ours:
                workspace.clear()
            raise


def _run(run: ImputationRun) -> None:
    request, workspace = run.request, run.workspace
    run.terminal.show_step("reading")
    with name_input_in_errors(run.origin.shown):
        run.source = open_source(run.origin, workspace.folder, request.encoding, request.reading, request.rows)
    known = fingerprint(run)
    resumed = workspace.agree(known)
    if resumed and _already_there(run):
        return
    if workspace.is_partial:  # and the output was removed since
        workspace.forget(known)
    if resumed:
        refuse_present(request, run.destination)
        run.terminal.note("going on from where an earlier run was ended")
    from hybridbn.commands.imputation import complete  # as it imports all of learning, after what is refused at once

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
