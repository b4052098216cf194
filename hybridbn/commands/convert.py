"""``hybridbn convert``: a network or a table from one format to another, by the suffixes."""

from __future__ import annotations

from hybridbn.commands.locations import refuse_replacement, report_present_output
from hybridbn.commands.table_input import TableRequest, read_marked
from hybridbn.commands.terminal import Terminal, UsageFault, keep_interrupts
from hybridbn.exchange import is_network, network_suffixes, read_network, write_network
from hybridbn.tables.formats import describe_location, suffix_of, write_table
from hybridbn.tables.formats.base import suffixes


def convert(request: TableRequest, terminal: Terminal, *, bins: int | None = None) -> None:
    """Read a file and write it in another format, whole or not at all.

    Parameters
    ----------
    request : TableRequest
        Its input and output are both files of networks, or both of tables (or tables of databases), as their suffixes
        tell.
    terminal : Terminal
    bins : int, optional
        Cut each continuous variable of a network into this many bins, if the format has no continuous variables.
    """
    source, target = request.input, request.output
    networks = _same_kind(source, target)
    if bins is not None and not networks:
        raise UsageFault("--bins is for networks; leave it out")
    if networks and (request.given or request.marks):
        raise UsageFault(f"--{next(iter(request.given), 'missing')} is for tables; leave it out")
    database = "://" in target
    if not database:
        refuse_replacement(source, target, request.no_clobber)
    with terminal.forward_warnings():
        if networks:
            write_network(read_network(source), target, **({} if bins is None else {"bins": bins}))
        else:
            keep_interrupts()
            _refuse_options(request)
            table = read_marked(request, terminal)
            with report_present_output(describe_location(target)):
                write_table(table, target, overwrite=not database, weights="weight" if table.weighted else None)


def names_network(text: str) -> bool:
    """Return whether a file is one of a network, by its suffix.

    Examples
    --------
    >>> names_network("alarm.bif.gz"), names_network("alarm.csv")
    (True, False)
    """
    # The suffixes of tables come first, because those of networks are known only when the modules of networks are
    # imported.
    return suffix_of(text) not in suffixes() and (is_network(text) or text.lower().endswith(".hbn.gz"))


def _same_kind(source: str, target: str) -> bool:
    """Return whether both files are networks; refuse files of neither kind, and one of each."""
    kinds = []
    for text in (source, target):
        if text == "-":
            raise UsageFault("files are converted, not pipes; name a file with a suffix")
        holds_network = names_network(text)
        known = holds_network or "://" in text or text.startswith("sqlite:") or suffix_of(text) in suffixes()
        if not known:
            raise UsageFault(
                f"{text}: the suffix tells no known format; known are"
                f" {', '.join(sorted({*network_suffixes(), *suffixes()}))} and databases such as"
                " sqlite:///file.db?table=t"
            )
        kinds.append("a network" if holds_network else "a table")
    if kinds[0] != kinds[1]:
        raise UsageFault(
            f"{describe_location(source)} is {kinds[0]} by its suffix, and {describe_location(target)} {kinds[1]}; both"
            " must be of one kind"
        )
    return kinds[0] == "a network"


def _refuse_options(request: TableRequest) -> None:
    """Refuse options that the input's format does not have."""
    source = request.input
    form = None if "://" in source or source.startswith("sqlite:") else suffixes().get(suffix_of(source))
    known = {"discrete", "continuous", *(form.options if form else ()), *(["encoding"] if form and form.text else ())}
    for name in request.given:
        if name not in known:
            raise UsageFault(f"--{name} says nothing of {form.title if form else 'a database'}; leave it out")
