"""Networks with 60-digit answers, solved by nothing but the MTE algebra."""

from __future__ import annotations

import functools
import json
import math
import operator

import numpy as np
import pytest
from known_answers import ANSWERS

from hybridbn.potentials.mte import MTE, Piece
from hybridbn.variables import Continuous, Discrete

CASES = sorted(path for pattern in ("stress_*.json", "mte_*.json") for path in (ANSWERS / "hybrid").glob(pattern))
EPSILON = 1e-13
SMALL = 1e-12


def test_the_cases_are_there():
    assert len(CASES) >= 9


def variables_of(case):
    return {
        name: Discrete(name, tuple(v["states"]))
        if "states" in v
        else Continuous(name, (float(v["domain"][0]), float(v["domain"][1])))
        for name, v in case["variables"].items()
    }


def potential(case, name):
    """Make the MTE of a node from the case's decimal strings."""
    variables = variables_of(case)
    pieces = []
    for leaf in case["potentials"][name]:
        given = {k: g for k, g in leaf["given"].items() if not isinstance(g, list)}
        box = {k: tuple(g) for k, g in leaf["given"].items() if isinstance(g, list)}
        if "state" in leaf:
            given[name] = leaf["state"]
        else:
            box[name] = tuple(leaf["piece"])
        pieces.append(Piece(box, given, leaf["const"], [(c, dict(e)) for c, e in leaf["terms"]]))
    parents = tuple(variables[parent] for parent in case["parents"][name])
    return MTE(variables[name], parents, pieces, normalize=None)


def queries():
    for path in CASES:
        case = json.loads(path.read_text())
        for number, query in enumerate(case["queries"]):
            yield pytest.param(case, query, id=f"{path.stem}-{number}")


def posterior(case, target, evidence):
    """Multiply everything, put the evidence in, sum the rest out; also return the condition of the evidence."""
    joint = functools.reduce(operator.mul, [potential(case, name) for name in case["variables"]])
    known = joint.restrict({k: v if "states" in case["variables"][k] else float(v) for k, v in evidence.items()})
    result = known.marginalize([name for name in known.scope if name != target])
    return result, max(known.condition, result.condition)


@pytest.mark.parametrize(("case", "query"), list(queries()))
def test_posterior_is_that_of_the_oracle(case, query):
    target, expected = query["target"], query["expected"]
    result, condition = posterior(case, target, query["evidence"])
    tolerance = max(SMALL, EPSILON * condition)
    assert math.log(result.integral()) == pytest.approx(float(expected["log_evidence"]), rel=tolerance, abs=tolerance)
    if "p" in expected:
        states = case["variables"][target]["states"]
        got = result(**{target: np.array(states, dtype=object)}) / result.integral()
        np.testing.assert_allclose(got, [float(expected["p"][s]) for s in states], rtol=tolerance)
        return
    assert result.mean() == pytest.approx(float(expected["mean"]), rel=tolerance)
    assert result.var() == pytest.approx(float(expected["var"]), rel=tolerance)
    if "pdf" in expected:
        grid, wanted = (np.array([float(x) for x in expected[name]]) for name in ("grid", "pdf"))
        np.testing.assert_allclose(result.pdf(grid), wanted, rtol=tolerance, atol=1e-15 * condition * wanted.max())
        inside = wanted > 0
        logs = result.log_on({target: grid[inside]}) - math.log(result.integral())
        np.testing.assert_allclose(logs, np.log(wanted[inside]), rtol=tolerance, atol=max(1e-12, 1e-15 * condition))
