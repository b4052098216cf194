"""The explorer in notebooks: a widget of anywidget (the extra ``notebook``), with a picture for where widgets vanish.

It works wherever anywidget does: Jupyter and marimo are tested; VS Code and Colab have the same contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridbn.errors import HybridBNError, TableError
from hybridbn.explorer.page import read_module
from hybridbn.explorer.responder import Responder, list_findings, read_case
from hybridbn.network import Network
from hybridbn.pictures.html import draw_network

__all__ = ["make_widget"]


def make_widget(network: Network, evidence: Mapping[str, Any] | None = None, data: Any = None) -> Any:
    """Return a widget in which findings are set and beliefs follow.

    Parameters
    ----------
    network : Network
    evidence : mapping, optional
        What is known at first.
    data : table, optional
        Rows to step through.

    Returns
    -------
    anywidget.AnyWidget
        Its `findings` are what is set now, and `evidence` the same as `Network.posterior` takes it; `scenarios` are
        those that were saved. Both sides may change them.

    Raises
    ------
    HybridBNError
        If anywidget is not installed.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rain, wet = hb.Discrete("rain", states=("no", "yes")), hb.Discrete("wet", states=("no", "yes"))
    >>> net = hb.Network([
    ...     hb.Multinomial(rain, table=[0.7, 0.3]),
    ...     hb.Multinomial(wet, parents=(rain,), table=[[0.9, 0.1], [0.2, 0.8]]),
    ... ])
    >>> explorer = net.explore({"wet": "yes"})  # doctest: +SKIP
    >>> explorer.evidence  # doctest: +SKIP
    {'wet': 'yes'}
    >>> explorer.evidence = {"rain": "no"}  # doctest: +SKIP
    """
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise HybridBNError("the explorer in notebooks needs anywidget: pip install 'hybridbn[notebook]'") from error
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError(f"the explorer begins with one case: its evidence is a mapping, not {evidence!r:.80}")
    responder = Responder(network, data, evidence=evidence)

    class Explorer(anywidget.AnyWidget):
        """A network whose beliefs follow the findings that are set in it."""

        _esm = read_module()
        document: Any = traitlets.Dict().tag(sync=True)
        findings: Any = traitlets.List().tag(sync=True)
        scenarios: Any = traitlets.List().tag(sync=True)

        @property
        def evidence(self) -> dict[str, Any]:
            """What is known now, without interventions."""
            return dict(read_case(network, self.findings).evidence)

        @evidence.setter
        def evidence(self, evidence: Mapping[str, Any]) -> None:
            set_before = [finding for finding in self.findings if finding.get("set")]
            findings = list_findings(network, evidence)
            read_case(network, [*set_before, *findings])
            self.findings = [*set_before, *findings]

        @property
        def interventions(self) -> dict[str, Any]:
            """What is set now, as `Network.do` takes it."""
            return dict(read_case(network, self.findings).settings)

        def _answer(self, _: Any, question: Any, __: Any) -> None:
            self.send(responder.answer(question))

        def _repr_mimebundle_(self, **options: Any) -> Any:
            bundle = super()._repr_mimebundle_(**options)
            data = bundle[0] if isinstance(bundle, tuple) else bundle
            if data is not None:
                # for exports and viewers without a kernel
                data["text/html"] = self._draw_picture()
            return bundle

        def _draw_picture(self) -> str:
            case = read_case(network, self.findings)
            try:
                mutilated = network.do(dict(case.settings)) if case.settings else network
                return draw_network(mutilated, case.evidence)
            except HybridBNError:
                return network._repr_html_()

    document = responder.describe()
    widget = Explorer(document=document, findings=document["start"])
    widget.on_msg(widget._answer)
    return widget
