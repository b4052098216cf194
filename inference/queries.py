"""Questions to a network: posteriors and the probability of evidence, for one case or a table of cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TableError, TooWide, renumber_rows
from hybridbn.inference.engines import find_first_engine, list_engines
from hybridbn.inference.engines.single_case import CASES_PER_MEASUREMENT, MOST_KNOWN
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.relevance import Snapshot, Status, ancestors, find_requisite, status_of
from hybridbn.network import Network
from hybridbn.options import Options, list_items
from hybridbn.variables import Discrete, Values, shorten

if TYPE_CHECKING:
    from hybridbn.inference.compilation import Problem
    from hybridbn.inference.posteriors.continuous import ContinuousPosterior
    from hybridbn.inference.solutions import Answer, AnyNetwork


def posterior(
    network: Network, target: str | Sequence[str], evidence: Any = None, options: Options | None = None
) -> Any:
    """Return the posterior of one variable, or the joint posterior of several."""
    answer = partial(_answer_at_once, network, target, options or Options())
    if not _is_rows(evidence):
        return answer(evidence)
    from hybridbn.inference.posteriors.batches import postpone_posterior

    return evidence.answer_when_asked(answer, partial(postpone_posterior, network, target, options or Options()))


def _answer_at_once(network: Network, target: str | Sequence[str], options: Options, evidence: Any) -> Any:
    if isinstance(target, str):
        return _answer(network, evidence, [target], options)[target]
    from hybridbn.inference.posteriors.joint import joint_posterior

    return joint_posterior(network, target, evidence, options)


def _is_rows(evidence: Any) -> bool:
    """Tell whether evidence is rows; a single case needs no tables."""
    if evidence is None or isinstance(evidence, Mapping):
        return False
    from hybridbn.tables import Rows

    return isinstance(evidence, Rows)


def posteriors(
    network: Network, evidence: Any = None, targets: Sequence[str] | None = None, options: Options | None = None
) -> dict[str, DiscretePosterior | ContinuousPosterior]:
    """Return the posteriors of several variables in one pass.

    Without `targets`, those of all variables that are not observed in every row.
    """
    wanted = None if targets is None else check_targets(network, targets)
    return _answer(network, evidence, wanted, options or Options())


def _answer(
    network: Network, evidence: Any, targets: Sequence[str] | None, options: Options
) -> dict[str, DiscretePosterior | ContinuousPosterior]:
    """Return the posteriors of variables, or of all that are not observed in every row."""
    snapshot = Snapshot.of(network)
    by_name = snapshot.by_name
    for name in targets or ():
        if name not in by_name:
            network.variable(name)  # tells what is wrong
    reader = EvidenceReader(network, evidence, targets or ())
    wanted = targets
    if wanted is None:
        wanted = [name for name in by_name if status_of(reader.finding(name)) != "hard"]
    if reader.single and wanted:
        posteriors_of_case = _answer_case(snapshot, reader, wanted, options)
        if posteriors_of_case is not None:
            return posteriors_of_case
    from hybridbn.inference.solutions import empty_posterior, infer_posteriors

    if not reader.rows:
        return {name: empty_posterior(by_name[name].child) for name in wanted}
    if not wanted:
        return {}
    answers = dict(
        zip(wanted, infer_posteriors(snapshot, wanted, reader, options, refuse_contradictions=True), strict=True)
    )
    for name, answer in answers.items():
        answer._log_evidence = partial(_weigh_evidence_of, snapshot, reader, options, name)
    return answers


def _answer_case(
    snapshot: Snapshot, reader: EvidenceReader, wanted: Sequence[str], options: Options
) -> dict[str, DiscretePosterior | ContinuousPosterior] | None:
    """Return the posteriors of a single case if tables are all that they need."""
    # tables that take longer than allowed are too large as well
    most_bytes = min(options.max_bytes, 8 * options.cells_per_row)
    answer = find_first_engine().answer(snapshot, reader.evidence(), wanted, most_bytes)
    if answer is None:
        return None
    tables, log_norm, error = answer
    if log_norm == -np.inf:
        if options.impossible != "nan":
            raise impossible_evidence([0], True, nan=True)
        tables = [np.full_like(table, np.nan) for table in tables]
    by_name: Any = snapshot.by_name
    errors = np.array([error])
    return {
        name: DiscretePosterior(
            by_name[name].child,
            table[:, None],
            True,
            errors,
            partial(_weigh_evidence_of, snapshot, reader, options, name),
        )
        for name, table in zip(wanted, tables, strict=True)
    }


def read_relevant_evidence(network: AnyNetwork, reader: EvidenceReader | Evidence, targets: Sequence[str]) -> Evidence:
    """Read only what the posterior of the targets depends on."""
    if reader.single:
        return reader.evidence()
    seen: dict[str, Status] = {}

    def status(name: str) -> Status:
        if name not in seen:
            seen[name] = status_of(reader.finding(name))
        return seen[name]

    find_requisite(network.pred, network.succ, targets, status)
    return reader.evidence(name for name, known in seen.items() if known != "hidden")


def log_evidence(network: Network, evidence: Any = None, options: Options | None = None) -> Any:
    """Return the logarithm of the probability (density) of the evidence; -inf where it is impossible."""
    options = options or Options()
    if not _is_rows(evidence):
        return _answer_log(network, options, evidence)
    from hybridbn.inference.posteriors.batches import answer_batches

    return np.concatenate([*answer_batches(evidence, network, partial(_answer_log, network, options))])


def _answer_log(network: Network, options: Options, evidence: Any, first: int = 0) -> Any:
    reader = EvidenceReader(network, evidence)
    values = log_evidence_of(network, reader.evidence(), options)
    return float(values[0]) if reader.single else values


def log_evidence_of(network: AnyNetwork, read: Evidence, options: Options) -> Values:
    """Return the log probability of evidence that is read already."""
    return _weigh_evidence(network, read, options).log_norm if read.rows else np.empty(0)


def _weigh_evidence(network: AnyNetwork, read: Evidence, options: Options, *targets: str) -> Answer:
    """Return the answer that has the log probability of evidence.

    A target is named where potentials above it may not have mass one, so that they count.
    """
    from hybridbn.inference.compilation import Question
    from hybridbn.inference.solutions import collect_nothing, solve

    return solve(network, Question(targets, joint=True, all_of=True), read, options, collect_nothing)


def suppose(
    network: AnyNetwork, read: Evidence, values: Mapping[str, NDArray[Any]], rows: NDArray[np.intp] | None = None
) -> Evidence:
    """Return the evidence of all rows, or of some, as a table in which other variables have values."""
    repeated = read if rows is None else read.take(rows, len(rows))
    supposed = {name: Finding(network.variable(name), column) for name, column in values.items()}
    return Evidence({**repeated.findings, **supposed}, repeated.rows, single=False)


def log_joint(network: AnyNetwork, read: Evidence, values: Mapping[str, NDArray[Any]], options: Options) -> Values:
    """Return the log probability (rows,) of evidence together with values of variables of which it has none."""
    return log_evidence_of(network, suppose(network, read, values), options) + read.log_weights_of(values)


def _weigh_evidence_of(network: Snapshot, reader: EvidenceReader, options: Options, target: str) -> Values:
    """Return the log probability of a posterior's evidence, with its limits where it is sampled."""
    whole = all(network.potential(name).normalized for name in ancestors(network.pred, [target]))
    answer = _weigh_evidence(network, reader.evidence(), options, *[target] * (not whole))
    if answer.bounds is None:
        return answer.log_norm
    return np.stack([answer.log_norm, *answer.arrange_rows(answer.bounds[-1])])


def find_contradictions(
    network: Snapshot, problem: Problem, reader: EvidenceReader | Evidence, options: Options
) -> NDArray[np.bool_]:
    """Tell the rows that are impossible for reasons which do not matter for the targets.

    Only potentials with zeros can make evidence impossible, so only those are looked at; together if that is not too
    wide, or else each table of probabilities by itself, which overlooks contradictions that only several of them show.
    """
    names = tuple(reader.names)
    risk = problem.risks.get(names)
    if risk is None:
        risk = problem.risks[names] = _find_risk(network, problem, names)
    result = np.zeros(reader.rows, dtype=bool)
    if not risk.discrete and not risk.continuous:
        return result
    key = _case_key(reader, names) if reader.single else None
    if key is not None and key in risk.known:
        result[:] = risk.known[key]
        return result
    options = replace(options, impossible="nan", beyond=None)
    if risk.discrete:
        try:
            result |= _find_impossible(network, risk.discrete, reader, options)
        except TooWide:
            for name in risk.discrete:
                with suppress(TooWide):
                    result |= _find_impossible(network, frozenset([name]), reader, options)
    if risk.continuous:
        with suppress(TooWide):
            result |= np.isneginf(log_evidence_of(network, reader.evidence(), options))
    if key is not None and len(risk.known) < MOST_KNOWN:
        risk.known[key] = bool(result[0])
        if len(risk.known) % CASES_PER_MEASUREMENT == 0:
            problem.note_growth()
    return result


def _find_impossible(
    network: Snapshot, only: frozenset[str], reader: EvidenceReader | Evidence, options: Options
) -> NDArray[np.bool_]:
    """Tell the rows in which the product of some tables is zero everywhere."""
    from hybridbn.inference.compilation import Question
    from hybridbn.inference.solutions import collect_nothing, solve

    evidence = reader.evidence(sorted({name for child in only for name in network.scopes[child]}))
    return np.isneginf(solve(network, Question(joint=True, only=only), evidence, options, collect_nothing).log_norm)


def _case_key(reader: EvidenceReader | Evidence, names: Iterable[str]) -> tuple[float, ...] | None:
    """Return the values of a single case; None where there is more than values."""
    findings = [reader.finding(name) for name in names]
    if any(finding is not None and not finding.plain for finding in findings):
        return None
    return tuple([-1.0 if finding is None else finding.values.item() for finding in findings])


class Risk(NamedTuple):
    """Potentials with zeros above some evidence that the targets do not depend on."""

    discrete: frozenset[str]
    continuous: bool
    known: dict[tuple[float, ...], bool]
    """Single cases that were looked at before."""


def _find_risk(network: Snapshot, problem: Problem, names: tuple[str, ...]) -> Risk:
    above = ancestors(network.pred, names) - problem.potentials.keys()
    potentials = network.by_name
    risky = {name for name in above if potentials[name].has_zeros}
    discrete = {
        name for name in risky if all(isinstance(variable, Discrete) for variable in potentials[name].variables)
    }
    return Risk(frozenset(discrete), risky != discrete, {})


def impossible_evidence(rows: Sequence[int], single: bool, *, nan: bool = False, doubt: str = "") -> ImpossibleEvidence:
    """Return the error that names the impossible rows; with `nan`, it mentions impossible='nan'."""
    where = "the evidence has" if single else f"rows {shorten(list(rows))} of the evidence have"
    return ImpossibleEvidence(
        f"{where} probability zero under the network{' as far as could be seen' if doubt else ''}, so there is no"
        f" posterior{': ' + doubt if doubt else ''}; "
        + ("ask with impossible='nan' to get NaN there instead" if nan else "leave out what contradicts the rest"),
        tuple(rows),
    )


def name_impossible_rows(numbers: NDArray[np.intp], single: bool, *, nan: bool = False) -> AbstractContextManager[None]:
    """Let errors of impossible rows name them by numbers of the rows of the user's evidence."""
    return renumber_rows(numbers, lambda rows: impossible_evidence(rows, single, nan=nan).text)


def allow_draws(network: Network, target: str, options: Options) -> Options:
    """Return options under which what a row lacks is drawn where an exact answer about the target would take all of it
    together; the same options for any other target.
    """
    if target not in network:
        return options
    snapshot = Snapshot.of(network)
    drawn = any(engine.needs_draws(snapshot, target) for engine in list_engines())
    return replace(options, beyond="bound") if drawn else options


def check_targets(network: Network, targets: Sequence[str]) -> list[str]:
    """Return the targets as a list, refusing unknown names and repetitions."""
    names = list_items(targets, "the names of the variables that are asked for")
    for name in names:
        network.variable(name)
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise TableError(f"{shorten(sorted(twice))} is asked for twice")
    return names
