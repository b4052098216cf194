"""What is learned and answered stays what it is, to five digits.

Sums of the numbers of each result are kept in a file: of calls with keywords of all that learns and answers, as far as
they take little time, of the potentials of all families, of questions about networks of them, of what users see
(`kept_faces`), and of the tasks of `test_blocks`. They are compared where the packages that compute have the versions
that the sums were made with, as others may break ties in other ways. Whoever means to change a result, or to keep those
of other keywords, names them in the file and renews it:
python tests/core/test_kept_answers.py
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from kept_faces import FACES

import hybridbn as hb
from hybridbn.potentials.mte.conversions import mte_from_density, mte_from_gaussian
from hybridbn.structures.building import BUILDERS

FILE = Path(__file__).resolve().parents[1] / "data" / "kept_answers.json"
VERSIONS = {name: version(name) for name in ("numpy", "scipy", "pandas", "networkx", "scikit-learn")}
KEPT: dict[str, Any] = json.loads(FILE.read_text())
"""The sums by keyword or question, by what is called or asked."""
MADE_WITH = KEPT.pop("versions")
DIGITS = 1e-5
pytestmark = pytest.mark.skipif(MADE_WITH != VERSIONS, reason=f"the sums were made with {MADE_WITH}")


# -- what learns and answers, with its keywords --------------------------------------------------------------------


def call(name: str, keyword: str) -> Any:
    """Return the result of a call with the value of a keyword that has an effect."""
    import test_keywords as known

    if name in BUILDERS:
        effect = known.entries_of(name)[keyword]
        goal, table = effect.target or known.TARGETS.get(name, "c"), known.frame(effect.data)
        return known.build(name, goal, table, **{**effect.given, keyword: effect.value})
    run, _, entries = (known.FUNCTIONS | known.QUESTIONS)[name]
    effect = entries[keyword]
    table = known.frame(effect.data)
    given = {key: known.made(value) for key, value in {**effect.given, keyword: effect.value}.items()}
    return run(table[list(effect.columns)] if effect.columns else table, **given)


def call_all(name: str) -> dict[str, Any]:
    return {keyword: call(name, keyword) for keyword in KEPT[name]}


# -- potentials ----------------------------------------------------------------------------------------------------


def evaluate_potentials(name: str) -> dict[str, Any]:
    """Return what the potentials of the contract's examples say of themselves, by their names."""
    from contract import some_axes
    from test_potentials_contract import EXAMPLES

    told = {}
    for example in EXAMPLES:
        potential, child = example.potential, example.potential.child
        rng = np.random.default_rng(7)
        axes = some_axes(example, rng)
        values, scale = potential.on(axes)
        given = {parent.name: axes[parent.name][0] for parent in potential.parents}
        uniforms = rng.random(4)
        numbers = [variable.name for variable in potential.variables if isinstance(variable, hb.Continuous)]
        parts = [
            [values * np.exp(scale), potential.log_on(axes), potential.free_parameters(), potential.has_zeros],
            [potential.support(variable, tail) for variable in numbers for tail in (0.0, 1e-12, 1e-3)],
            [[potential.breaks(variable), potential.scale(variable)] for variable in numbers],
            [potential.cellwise(variable) for variable in numbers],
            potential.ppf(uniforms, given) if len(uniforms) == 4 else [],
        ]
        if child.name in numbers and potential.exact_mass:
            low, high = np.nanquantile(axes[child.name], [0.1, 0.9])
            outer = {parent: points for parent, points in axes.items() if parent != child.name}
            mass, scale = potential.mass(outer, np.linspace(low, high, 4))
            parts.append(mass * np.exp(scale))
        told[example.name] = parts
    return told


# -- questions -----------------------------------------------------------------------------------------------------


def make_networks() -> dict[str, hb.Network]:
    """Return a network of each kind whose answers are found in a way of their own."""
    c, d, e = hb.Discrete("c", ("a", "b", "e")), hb.Discrete("d", ("u", "v")), hb.Discrete("e", (1, 2, 3))
    x, y, z = map(hb.Continuous, "xyz")
    rng = np.random.default_rng(8)
    table_c, table_d = hb.Multinomial(c, table=[0.5, 0.2, 0.3]), hb.Multinomial(d, (c,), table=rng.dirichlet([1, 1], 3))
    line_x = hb.LinearGaussian(x, (d,), intercept=[0.0, 2.0], coefficients=np.zeros((2, 0)), variance=[1.0, 0.5])
    slopes = [[1.0], [-0.5]]
    line_y = hb.LinearGaussian(y, (d, x), intercept=[0.5, -1.0], coefficients=slopes, variance=[0.3, 2.0])
    line_z = hb.LinearGaussian(z, (y,), intercept=1.0, coefficients=[0.7], variance=0.8)
    odds = hb.Softmax(e, (x,), intercept=[0.0, 1.0, -1.0], coefficients=[[0.0], [0.8], [-1.5]])
    kernel = hb.Kernel(z, (y,), points=rng.normal([0.0, 1.0], size=(12, 2)), bandwidths=[0.4, 0.6])
    pieces = [
        hb.Piece({"x": (-2, 0)}, constant=0.1, terms=[(0.3, {"x": 1.0})]),
        hb.Piece({"x": (0, 3)}, terms=[(0.4, {"x": -0.9})]),
    ]
    mte = hb.MTE(x, pieces=pieces, normalize=True)
    states = [
        hb.Piece({"x": (-2, 1)}, {"e": 1}, constant=0.2),
        hb.Piece({"x": (1, 3)}, {"e": 1}, constant=0.6),
        *(hb.Piece({"x": (-2, 1)}, {"e": state}, constant=0.4) for state in (2, 3)),
        *(hb.Piece({"x": (1, 3)}, {"e": state}, constant=0.2) for state in (2, 3)),
    ]
    table_e = hb.Multinomial(e, (c, d), table=rng.dirichlet([1, 1, 1], (3, 2)))
    smooth_y = hb.LinearGaussian(y, (x,), intercept=0.5, coefficients=[1.2], variance=0.4)
    return {
        "tables": hb.Network([table_c, table_d, table_e]),
        "lines": hb.Network([table_c, table_d, line_x, line_y, line_z]),
        "kernels": hb.Network([hb.LinearGaussian(y, intercept=1.0, variance=2.0), kernel]),
        "exponentials": hb.Network([mte, hb.MTE(e, (x,), pieces=states), table_c]),
        "mixed": hb.Network([mte, smooth_y, odds]),
    }


def ask(name: str) -> dict[str, Any]:
    """Return the answers of a network to all kinds of questions."""
    from narrowing import as_discrete

    net = make_networks()[name.removeprefix("questions: ")]
    numbers = [variable.name for variable in net.variables if isinstance(variable, hb.Continuous)]
    states = [variable.name for variable in net.variables if isinstance(variable, hb.Discrete)]
    drawn = net.sample(5, random_state=3)
    rows = drawn.mask(np.add.outer(np.arange(5), np.arange(len(net))) % 3 == 0)
    last = str(list(net)[-1])
    seen = {last: drawn[last][0]}
    told: dict[str, Any] = {"rows": [drawn.to_dict("list"), net.log_density(rows), net.log_evidence(seen)]}
    for one in states:
        posterior = net.posterior(one, rows)
        told[one] = [posterior.probabilities, posterior.mode(), posterior.entropy(), posterior.log_evidence]
    for one in numbers:
        posterior = net.posterior(one, rows.drop(columns=one))
        points = [-1.0, 0.3, 2.0]
        told[one] = [posterior.mean(), posterior.std(), posterior.median(), posterior.mode(), posterior.entropy()]
        told[f"{one} at points"] = [posterior.pdf(points), posterior.cdf(points), posterior.quantile([0.05, 0.6])]
        told[f"{one} in parts"] = [posterior[3].interval(0.8), posterior[[0, 2]].sample(3, random_state=1)]
        told[f"{one} scored"] = [posterior.log_score(np.full(5, 0.4)), posterior.crps(np.full(5, 0.4))]
        told[f"{one} within"] = net.posterior(last, {one: hb.Interval(-0.5, 1.0)} if one != last else None).entropy()
    if states:
        soft = {states[0]: dict(zip(as_discrete(net.variable(states[0])).states, (0.2, 0.9, 0.4), strict=False))}
        told["soft"] = [net.posterior(last, soft if last != states[0] else None).mode(), net.log_evidence(soft)]
        told["explained"] = list(net.explain(states[0], seen).weights) if last != states[0] else []
    told["completed"] = net.most_probable(seen)
    told["drawn"] = net.sample(4, random_state=5, evidence=seen).to_dict("list")
    told["set"] = net.do({str(next(iter(net))): drawn[str(next(iter(net)))][0]}).log_density(rows)
    pair = [*numbers[:1], *states[:1], *numbers[1:2]][:2]
    told["pair"] = net.posterior(pair, None).sample(3, random_state=2)
    return told


def ask_for_causes(_: str) -> dict[str, Any]:
    """Return effects, counterfactuals, and what findings and parameters contribute."""
    nets = make_networks()
    tables, lines, mixed = nets["tables"], nets["lines"], nets["mixed"]
    seen = {"c": "e", "d": "u", "e": 2}
    fact = {"d": "u", "x": 0.3, "y": 1.5, "z": 2.0}
    sensitivity = tables.sensitivity("e", {"d": "u"})
    told = [
        hb.effect(lines, "d", "z", {"c": "a"}).outcomes,
        hb.effect(mixed, "x", "e", values=[-1.0, 0.5]).outcomes,
        hb.effect(tables, "c", "e", pd.DataFrame({"d": ["u", None]})).outcomes,
    ]
    return {
        "effects": told,
        "twin": [told.mean() for told in [hb.counterfactual(lines, "z", fact, {"x": 1.0})]],
        "bounds": hb.counterfactual(tables, "e", seen, {"d": "v"}).probability_bounds,
        "monotone": hb.counterfactual(tables, "e", seen, {"d": "v"}, monotone=True).probabilities,
        "shapley": [
            hb.shapley_values(tables, "c", {"d": "u", "e": 2}),
            hb.shapley_values(lines, "x", {"y": 1, "z": 2}),
        ],
        "sensitivity": [sensitivity.derivatives("d"), sensitivity.ranges("e"), sensitivity.find_swings()],
        "information": [tables.value_of_information("c"), lines.value_of_information("d", {"z": 1.0}, {"x": 2.0})],
    }


def convert(_: str) -> dict[str, Any]:
    """Return densities as MTEs, networks as texts of all formats, and pooled estimates."""
    x, half = hb.Continuous("x"), hb.Continuous("x", (-0.5, 4.0))
    points = np.linspace(-1.5, 3.5, 9)
    shapes = [mte_from_gaussian(x, 0.5, 2.0, method=method) for method in ("interpolation", "cobb-shenoy")]
    shapes += [mte_from_gaussian(half, 0.5, 2.0, max_error=1e-3)]
    shapes += [mte_from_density(x, np.abs, (-1.0, 2.0), breaks=(0.0,), tails=True, max_error=1e-3)]
    told: dict[str, Any] = {"densities": [[shape(x=points), shape.support("x"), shape.breaks("x")] for shape in shapes]}
    told["pooled"] = str(hb.pool([1.0, 1.5, 0.7], [0.2, 0.3, 0.1], complete_df=30))
    nets = make_networks()
    for name, suffixes in {"tables": ["bif", "xmlbif", "net", "xdsl", "uai", "elv"], "lines": ["net", "xdsl"]}.items():
        for suffix in suffixes:
            with tempfile.TemporaryDirectory() as folder:
                hb.write_network(nets[name], f"{folder}/net.{suffix}")
                told[f"{name}.{suffix}"] = Path(folder, f"net.{suffix}").read_text().splitlines()
    return told


def do_tasks(_: str) -> dict[str, Any]:
    """Return the results of the tasks of which parts are done at a time."""
    import test_blocks

    told = {}
    for name, task in test_blocks.TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            told[name] = test_blocks.flatten(task(Path(folder)))
    return told


# -- sums ----------------------------------------------------------------------------------------------------------


def flatten(thing: Any) -> list[Any]:
    """Return the parts of a result."""
    import test_keywords as known

    if isinstance(thing, Mapping):
        return [part for key in thing for part in (key, *flatten(thing[key]))]
    if isinstance(thing, list | tuple):
        return [part for each in thing for part in flatten(each)]
    if isinstance(thing, pd.DataFrame):
        return [part for name in thing for part in (name, *thing[name].tolist())]
    return known.flatten(thing)


def sum_up(result: Any) -> list[float]:
    """Return how many parts a result has, and sums in which each of them has a weight of its own."""
    parts = flatten(result)
    sizes = np.arcsinh(np.array([read_number(part) for part in parts]))
    phases = np.arange(len(parts))[:, None] * [0.0, 1.0, math.sqrt(2)]
    return [float(len(parts)), *(sizes @ np.cos(phases)).round(9).tolist()]


def read_number(part: Any) -> float:
    """Return a number, or for what is none one that belongs to its text."""
    if isinstance(part, bool | int | float | np.number) and np.isfinite(part):
        return float(part)
    return crc32(str(part).encode()) / 2**32


OTHERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "potentials": evaluate_potentials,
    "causes": ask_for_causes,
    "conversions": convert,
    "tasks": do_tasks,
    **FACES,
    **{f"questions: {name}": ask for name in ("tables", "lines", "kernels", "exponentials", "mixed")},
}


def sum_up_all(name: str) -> dict[str, list[float]]:
    with warnings.catch_warnings(action="ignore"):
        return {key: sum_up(result) for key, result in OTHERS.get(name, call_all)(name).items()}


def is_kept(name: str, key: str, sums: list[float]) -> bool:
    """Tell whether a result has the sums that are kept."""
    return np.allclose(sums, KEPT[name][key], rtol=0, atol=DIGITS * math.sqrt(max(sums[0], 1)))


@pytest.mark.parametrize("name", [name for name in KEPT if name != "tasks"])
def test_answers_are_kept(name: str) -> None:
    sums = sum_up_all(name)
    assert sums.keys() == KEPT[name].keys()
    changed = [key for key, own in sums.items() if not is_kept(name, key, own)]
    assert not changed, f"other results of {name} with {changed}; if that is meant, renew them: python {__file__}"


if __name__ == "__main__":
    sys.path += [str(folder) for folder in FILE.parents[1].iterdir() if folder.is_dir()] + [str(FILE.parents[1])]
    kept = {"versions": VERSIONS} | {name: sum_up_all(name) for name in dict.fromkeys([*KEPT, *OTHERS])}
    lines = [f'"{name}": {json.dumps(sums)}' for name, sums in kept.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
