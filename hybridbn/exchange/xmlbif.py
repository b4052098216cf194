"""Networks in the XMLBIF format (version 0.3), which Weka, JavaBayes, GeNIe, pgmpy and pyAgrum read.

In a ``TABLE`` the states of the child run fastest, then those of the last parent. Types of states and the cuts of
discretized numbers are kept as properties, which other programs skip.
"""

from __future__ import annotations

import os
from xml.sax.saxutils import escape

from hybridbn.errors import FormatError
from hybridbn.exchange import register_format
from hybridbn.exchange.discrete_networks import (
    Bins,
    bin_network,
    build_network,
    collect_tables,
    encode_properties,
    format_states,
    restore_variable,
)
from hybridbn.exchange.parsing import RowNormalizer, check_scope, parse_xml
from hybridbn.network import Network
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.tables.formats.files import read_network_bytes, write_network_text
from hybridbn.variables import Discrete

__all__ = ["format_xmlbif", "parse_xmlbif", "read_xmlbif", "write_xmlbif"]


def read_xmlbif(path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None) -> Network:
    """Read a network from an XMLBIF file.

    Parameters and errors are those of `hybridbn.exchange.bif.read_bif`; the default encoding is the one that
    the file declares.
    """
    return parse_xmlbif(read_network_bytes(path), normalize=normalize, source=str(path), encoding=encoding)


def parse_xmlbif(
    data: bytes, *, normalize: bool = True, source: str = "<text>", encoding: str | None = None
) -> Network:
    """Make a network from the bytes of an XMLBIF file; see `read_xmlbif`.

    Examples
    --------
    >>> parse_xmlbif(b'''<BIF VERSION="0.3"><NETWORK>
    ...   <VARIABLE TYPE="nature"><NAME>c</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
    ...   <DEFINITION><FOR>c</FOR><TABLE>0.25 0.75</TABLE></DEFINITION></NETWORK></BIF>''').potential("c").table
    array([0.25, 0.75])
    """
    root = parse_xml(data, source, encoding)
    network = root.first("network") if root.tag.lower() == "bif" else None
    if network is None:
        root.fail(f"expected <BIF> with a <NETWORK> inside, found <{root.tag[:40]}>")
    variables: dict[str, Discrete] = {}
    for element in network.all("variable"):
        name = element.first("name")
        if name is None or not name.text:
            element.fail("a variable without a name")
        if name.text in variables:
            element.fail(f"a second variable named {name.text[:60]!r}")
        kind = element.attributes.get("TYPE", "nature")
        if kind != "nature":
            element.fail(f"{name.text[:60]!r} is of the type {kind[:20]!r}; only chance nodes (nature) can be read")
        states = [outcome.text for outcome in element.all("outcome", "value")]
        properties = [p.text.partition("=") for p in element.all("property")]
        stripped = {key.strip(): text.strip() for key, _, text in properties}
        variables[name.text] = restore_variable(name.text, states, stripped, element.fail)
    rows = RowNormalizer(source, normalize)
    potentials: dict[str, Potential] = {}
    for element in network.all("definition", "probability"):
        owners = [child.text for child in element.all("for")]
        if len(owners) != 1:
            element.fail(f"a definition for {len(owners)} variables; expected one <FOR>")
        owner, *parents = scope = [*owners, *(child.text for child in element.all("given"))]
        check_scope(scope, variables, potentials, "definition", element.fail)
        table = element.first("table")
        if table is None:
            element.fail(f"the definition of {owner!r} has no <TABLE>")
        sizes = [len(variables[name]) for name in (*parents, owner)]
        potentials[owner] = Multinomial(
            variables[owner],
            parents=[variables[parent] for parent in parents],
            table=rows.parse_table(table.text, sizes, owner, table.fail_at),
        )
    return build_network(potentials, variables, rows)


def write_xmlbif(network: Network, path: str | os.PathLike[str], *, bins: Bins | None = None) -> None:
    """Write a discrete network to an XMLBIF file, every number as it is.
    Parameters and errors are those of `hybridbn.exchange.bif.write_bif`.
    """
    write_network_text(path, format_xmlbif(network, bins=bins))


def format_xmlbif(network: Network, *, bins: Bins | None = None) -> str:
    """Return a network as XMLBIF; see `write_xmlbif`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=(1, 2)), table=[0.25, 0.75])])
    >>> parse_xmlbif(format_xmlbif(net).encode()).variable("c").states
    (1, 2)
    """
    network = bin_network(network, bins, "XMLBIF")
    tables = collect_tables(network, "XMLBIF")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>", "<NAME>hybridbn</NAME>"]
    for variable in (table.child for table in tables):
        texts = format_states(variable, "XMLBIF")
        lines += ['<VARIABLE TYPE="nature">', f"  <NAME>{_escape_text(variable.name, 'the name')}</NAME>"]
        lines += [f"  <OUTCOME>{_escape_text(text, f'{variable.name!r}: the state')}</OUTCOME>" for text in texts]
        lines += [
            f"  <PROPERTY>{key} = {text}</PROPERTY>"
            for key, text in encode_properties(variable, texts, variable.name).items()
        ]
        lines += ["</VARIABLE>"]
    for table in tables:
        lines += ["<DEFINITION>", f"  <FOR>{escape(table.child.name)}</FOR>"]
        lines += [f"  <GIVEN>{escape(parent.name)}</GIVEN>" for parent in table.parents]
        rows = table.table.reshape(-1, len(table.child)).tolist()
        lines += ["  <TABLE>", *("    " + " ".join(map(repr, row)) for row in rows), "  </TABLE>", "</DEFINITION>"]
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


def _escape_text(text: str, what: str) -> str:
    if not text or text != text.strip() or not text.isprintable():
        raise FormatError(
            f"{what} {text!r} can't be written to XMLBIF: it is empty, starts or ends with a space, or holds a"
            " character that can't be printed. Rename it (net.rename), or save the network as .hbn"
        )
    return escape(text)


register_format((".xmlbif", ".bifxml", ".xml"), read_xmlbif, write_xmlbif)
