"""The work of ``hybridbn impute``: what goes where, who else is writing there, and what an earlier run left.

The input is read twice, in blocks of rows. What each block gives is a file of its own beside the output, so a run that was
killed is taken up where it was; the fingerprint of input, options and versions says whether the parts still fit.
"""

from __future__ import annotations

from hybridbn.commands.locations import OutputTaken, locate, open_source, refuse_existing_output
from hybridbn.commands.run import (
    ImputationRequest,
    ImputationRun,
    RunMismatch,
    Workspace,
    fingerprint,
    lock_output,
    name_input_in_errors,
    refuse_clashes,
    refuse_present,
)
from hybridbn.commands.terminal import Terminal, keep_interrupts
from hybridbn.formats.tables.base import names
from hybridbn.formats.tables.database_base import Database
from hybridbn.formats.tables.delimited import MISSING

__all__ = ["ImputationRequest", "impute"]


def impute(request: ImputationRequest, terminal: Terminal) -> None:
    """Do what is asked for, or raise.

    Raises
    ------
    HybridBNError, OSError
        What is wrong with input or options; what the system refuses.
    Taken, OtherRun
        Someone else's output or parts are in the way.
    """
    keep_interrupts()
    origin = locate(request.input, request.from_format, request.format, "INPUT")
    # a pipe says nothing, so it has the input's format
    same = origin.suffix.removeprefix(".") if request.output == "-" and origin.suffix[1:] in names() else None
    goal = locate(request.output, request.to_format, request.format or same, "OUTPUT")
    refuse_clashes(request, origin, goal)
    beside = goal.beside(request.parts)
    with lock_output(beside, goal.shown):
        work = Workspace(beside)
        if not (work.lasting and work.has("manifest.json") and not request.restart):
            refuse_present(request, goal)
        try:
            work.begin(request.restart)
            _run(ImputationRun(request, terminal, origin, goal, work))
        except KeyboardInterrupt:
            if work.lasting:
                raise KeyboardInterrupt("interrupted; the same command goes on from there") from None
            work.clear()
            raise
        except RunMismatch:
            if not work.lasting:
                work.clear()
            raise
        except BaseException:
            work.clear()
            raise
        work.clear()


def _run(run: ImputationRun) -> None:
    request, work = run.request, run.work
    options = {"delimiter": request.delimiter, "missing": request.missing or MISSING, "decimal": request.decimal}
    run.terminal.show_step("reading")
    with name_input_in_errors(run):
        run.source = open_source(run.origin, work.folder, request.encoding, options)
    resumed = work.agree(fingerprint(run))
    if resumed and _already_there(run):
        return
    if resumed:
        refuse_present(request, run.goal)
        run.terminal.note("going on from where an earlier run was ended")
    from hybridbn.commands.imputation import complete  # as it imports all of learning, after what is refused at once

    complete(run)


def _already_there(run: ImputationRun) -> bool:
    """Tell whether an earlier run made its table of a database, and was ended while it cleaned up.

    A file would be put together again, of the same bytes.
    """
    noted = run.work.json("finishing.json")
    form = run.goal.form
    if not isinstance(form, Database) or noted is None:
        return False
    try:
        refuse_existing_output(run.goal, no_clobber=True)
    except OutputTaken:
        return form.count(run.goal.url) == int(noted["rows"])
    return False
