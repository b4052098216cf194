"""Answers, networks and completed tables are those of an earlier version; both are run here, in one environment.

``pytest -m slow tests/inference/test_answers_unchanged.py -k gaussian`` runs a section, and ``python
tests/inference/test_answers_unchanged.py gaussian`` prints its summary, with every path where the two differ.
"""

from __future__ import annotations

import math
import os
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from earlier import compare_section, encode, run_as_tool
from inference_tools import Spec, crops, network_of, random_discrete, random_hybrid
from known_answers import TABLES
from narrowing import as_kind

import hybridbn as hb

pytestmark = pytest.mark.slow

HEART = Path(__file__).resolve().parents[2] / "examples" / "data" / "heart.csv"
FAMILIES = ("auto", "mte", "kernel", "gaussian", "multinomial")
NARROW: dict[str, Any] = {"max_bytes": 2.0**22}  # what needs more takes long, and is refused by both versions
WIDEST = 6  # nodes of a network that is asked with soft evidence of numbers, too
SMALL = ("iris", "labor", "cpu", "zoo", "fruitfly")
CLASSES = {"iris": "class", "labor": "class", "zoo": "type"}


def attempt(question: Callable[..., Any]) -> Any:
    """Return the encoded answer; an error is an answer, too."""
    try:
        return encode(question())
    except (hb.TooWide, MemoryError) as error:
        return {"error": type(error).__name__}  # how wide is no answer
    except Exception as error:  # whatever is raised must be the same in both versions
        return {"error": f"{type(error).__name__}: {error}"}


# -- networks and evidence ---------------------------------------------------------------------------------------------


def linear_gaussian(rng: np.random.Generator, nodes: int, discrete: int = 0) -> hb.Network:
    """Make a random linear Gaussian network, conditional on some discrete nodes."""
    variables: list[Any] = []
    potentials: list[Any] = []
    for i in range(discrete):
        variable = hb.Discrete(f"d{i}", ("a", "b", "c")[: int(rng.integers(2, 4))])
        above = variables[-1:] if i % 2 else []
        table = rng.dirichlet(np.ones(len(variable)), size=[len(v) for v in above] or None)
        variables.append(variable)
        potentials.append(hb.Multinomial(variable, above, table=table))
    for i in range(nodes):
        child = hb.Continuous(f"x{i}")
        count = int(rng.integers(0, min(len(variables), 3) + 1))
        above = [variables[j] for j in rng.choice(len(variables), count, replace=False)] if count else []
        above.sort(key=lambda v: not isinstance(v, hb.Discrete))
        shape = [len(v) for v in above if isinstance(v, hb.Discrete)]
        numbers = len(above) - len(shape)
        potentials.append(
            hb.LinearGaussian(
                child,
                above,
                intercept=rng.normal(size=shape),
                coefficients=rng.normal(size=[*shape, numbers]),
                variance=rng.uniform(0.1, 2, size=shape),
            )
        )
        variables.append(child)
    return hb.Network(potentials)


def leaves(rng: np.random.Generator) -> hb.Network:
    """Make a tree's network: boxes of two numbers and a state choose a leaf, the leaf
    chooses the family of a number.
    """
    d = hb.Discrete("d", ("u", "v"))
    x, z, y = hb.Continuous("x"), hb.Continuous("z"), hb.Continuous("y")
    leaf = hb.Discrete("leaf", ("one", "two", "three"))
    cut, other = float(rng.normal()), float(rng.normal())
    sides = [
        np.ones((3, 2), dtype=int),
        np.array([[-math.inf, cut], [cut, math.inf], [cut, math.inf]]),
        np.array([[-math.inf, math.inf], [-math.inf, other], [other, math.inf]]),
    ]
    line = partial(hb.LinearGaussian, y)
    return hb.Network(
        [
            hb.Multinomial(d, table=rng.dirichlet([2, 2])),
            hb.LinearGaussian(x, (d,), intercept=rng.normal(size=2), variance=rng.uniform(0.5, 2, 2)),
            hb.LinearGaussian(
                z,
                (x,),
                intercept=float(rng.normal()),
                coefficients=rng.normal(size=1),
                variance=float(rng.uniform(0.5, 2)),
            ),
            hb.Boxes(leaf, (d, x, z), sides, rng.uniform(0.5, 2, 3)),
            hb.Cases(
                y,
                (leaf, x, d),
                [
                    line((x,), intercept=0.5, coefficients=rng.normal(size=1), variance=0.5),
                    line((d,), intercept=rng.normal(size=2), variance=rng.uniform(0.5, 1, 2)),
                    hb.Kernel(y, points=rng.normal(size=6), bandwidths=0.7),
                ],
            ),
        ]
    )


def values_of(specs: Mapping[str, Spec] | None, network: hb.Network, rng: np.random.Generator) -> dict[str, Any]:
    """Draw a case without the library, so that both versions get the same evidence."""
    values: dict[str, Any] = {}
    for variable in network.variables:
        name = variable.name
        if isinstance(variable, hb.Discrete):
            values[name] = variable.states[int(rng.integers(len(variable)))]
        else:
            low, high = (-2.0, 2.0) if specs is None else specs[name].reach
            values[name] = float(rng.uniform(max(low, -1.5), min(high, 1.5)))
    return values


def evidence_of(case: Mapping[str, Any], network: hb.Network, rng: np.random.Generator, kind: str) -> dict[str, Any]:
    """Make evidence of a pattern around a case; the last node is always hidden."""
    *names, _ = network
    if kind == "complete":
        return {name: case[name] for name in names}
    evidence: dict[str, Any] = {}
    vague = False  # one number with soft evidence is enough: closed forms end there
    for name in names:
        variable, value = network.variable(name), case[name]
        if rng.random() < (0.3 if kind == "holes" else 0.5):
            continue
        if kind == "holes":
            evidence[name] = value
        elif isinstance(variable, hb.Discrete):
            if kind == "sets":
                evidence[name] = {value, variable.states[int(rng.integers(len(variable)))]}
            else:
                evidence[name] = {s: float(rng.random()) + 0.1 for s in variable.states}
        elif vague:
            evidence[name] = value
        elif kind == "sets":
            vague = True
            evidence[name] = hb.Interval(value - 0.7, value + 0.4) if rng.random() < 0.6 else hb.Interval(value - 0.5)
        else:
            vague = True
            evidence[name] = lambda x, value=value: np.exp(-np.abs(np.asarray(x) - value))
    return evidence


def described(posterior: Any) -> dict[str, Any]:
    """Return what a posterior says; errors are estimates, and not compared."""
    if hasattr(posterior, "probabilities"):
        return {"probabilities": posterior.probabilities}
    points = np.linspace(-2, 2, 5)
    return {
        "mean": posterior.mean(),
        "std": posterior.std(),
        "cdf": posterior.cdf(points),
        "pdf": posterior.pdf(points),
        "quantile": posterior.quantile([0.05, 0.5, 0.9]),
    }


def _joint(network: hb.Network, names: Sequence[str], evidence: Any) -> Any:
    posterior = network.posterior(list(names), evidence, **NARROW)
    discrete = [isinstance(network.variable(name), hb.Discrete) for name in names]
    if all(discrete):
        return posterior.probabilities
    if not any(discrete):
        return {"mean": posterior.mean(), "cov": posterior.cov()}
    return {name: described(posterior.marginal(name)) for name in names}


def _table(network: hb.Network, specs: Mapping[str, Spec] | None, rng: np.random.Generator, rows: int = 5) -> hb.Table:
    """Make a table of cases of which 30 % are holes."""
    cases = [values_of(specs, network, rng) for _ in range(rows)]
    frame = pd.DataFrame({name: pd.Series([case[name] for case in cases], dtype=object) for name in network})
    frame = frame.mask(rng.random(frame.shape) < 0.3, None)
    discrete = [name for name in network if isinstance(network.variable(name), hb.Discrete)]
    for name in network:
        if name not in discrete:
            frame[name] = frame[name].astype(float)
    known = [name for name in network if frame[name].notna().any()]
    return hb.Table(frame[known], discrete=[name for name in discrete if name in known])


def record_network(
    network: hb.Network, seed: int, specs: Mapping[str, Spec] | None = None, mode: bool = True
) -> dict[str, Any]:
    """Ask a network everything, with every pattern of evidence."""
    rng = np.random.default_rng(seed)
    names = list(network)
    answers: dict[str, Any] = {}
    wide = len(names) > WIDEST and not any(isinstance(network.potential(n), hb.Multinomial) for n in names[-1:])
    for kind in ("complete", "holes") if wide else ("complete", "holes", "soft", "sets"):
        evidence = evidence_of(values_of(specs, network, rng), network, rng, kind)
        hidden = [name for name in names if name not in evidence]
        answer = {
            "log_evidence": attempt(partial(network.log_evidence, evidence, **NARROW)),
            "posteriors": {
                name: attempt(
                    lambda name=name, evidence=evidence: described(network.posterior(name, evidence, **NARROW))
                )
                for name in hidden[-2:]
            },
        }
        if len(hidden) > 1:
            answer["joint"] = attempt(partial(_joint, network, hidden[-2:], evidence))
        states = [name for name in hidden if isinstance(network.variable(name), hb.Discrete)]
        if states and kind == "holes":
            answer["explain"] = attempt(lambda s=states[-1], e=evidence: explained(network, s, e))
        if mode and kind in ("holes", "sets"):
            answer["most_probable"] = attempt(partial(network.most_probable, evidence, **NARROW))
        answers[kind] = answer
    table = _table(network, specs, rng)
    answers["table"] = {
        "log_density": attempt(partial(network.log_density, table, **NARROW)),
        "posterior": attempt(lambda: described(network.posterior(names[-1], table, impossible="nan", **NARROW))),
    }
    if mode:
        answers["table"]["most_probable"] = attempt(lambda: network.most_probable(table, **NARROW).to_dict())
    return answers


def explained(network: hb.Network, target: str, evidence: Mapping[str, Any]) -> Any:
    explanation = network.explain(target, evidence)
    return {"probability": explanation.probability, "text": str(explanation)}


def discrete_networks() -> Iterator[tuple[str, hb.Network, dict[str, Spec] | None]]:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        yield f"tables{seed}", random_discrete(rng, int(rng.integers(3, 12))), None


def gaussian_networks() -> Iterator[tuple[str, hb.Network, dict[str, Spec] | None]]:
    for seed in range(25):
        rng = np.random.default_rng(100 + seed)
        yield f"gaussian{seed}", linear_gaussian(rng, int(rng.integers(2, 15))), None
    for seed in range(20):
        rng = np.random.default_rng(200 + seed)
        yield f"conditional{seed}", linear_gaussian(rng, int(rng.integers(2, 8)), int(rng.integers(1, 4))), None


def hybrid_networks() -> Iterator[tuple[str, hb.Network, dict[str, Spec] | None]]:
    for seed in range(30):
        specs = random_hybrid(np.random.default_rng(300 + seed), 3 + seed % 3)
        yield f"mixed{seed}", network_of(specs), specs
    yield "crops", crops(), None


def family_networks() -> Iterator[tuple[str, hb.Network, dict[str, Spec] | None]]:
    kinds = {
        "mte": ("mte", "mte-slope", "multinomial"),
        "kernel": ("kernel", "multinomial"),
        "softmax": ("softmax", "gaussian", "multinomial"),
        "density": ("density", "multinomial"),
    }
    for number, (name, families) in enumerate(kinds.items()):
        for seed in range(7):
            specs = random_hybrid(np.random.default_rng(400 + 20 * number + seed), 3 + seed % 2, families)
            yield f"{name}{seed}", network_of(specs), specs


def leaf_networks() -> Iterator[tuple[str, hb.Network, dict[str, Spec] | None]]:
    for seed in range(6):
        yield f"leaves{seed}", leaves(np.random.default_rng(500 + seed)), None


def _record(networks: Callable[[], Iterator[tuple[str, hb.Network, Any]]], mode: bool = True) -> dict[str, Any]:
    return {name: record_network(network, seed, specs, mode) for seed, (name, network, specs) in enumerate(networks())}


def record_discrete() -> Any:
    return _record(discrete_networks)


def record_gaussian() -> Any:
    return _record(gaussian_networks)


def record_hybrid() -> Any:
    return _record(hybrid_networks)


def record_families() -> Any:
    return _record(family_networks)


def record_leaves() -> Any:
    return _record(leaf_networks, mode=False)


def record_samples() -> Any:
    """Draws of the same seed: a section of its own, for they may change where the others must not."""
    answers = {}
    for networks, step in ((discrete_networks, 4), (gaussian_networks, 4), (hybrid_networks, 3), (leaf_networks, 3)):
        for seed, (name, network, specs) in enumerate(networks()):
            if seed % step:
                continue
            rng = np.random.default_rng(seed)
            evidence = evidence_of(values_of(specs, network, rng), network, rng, "holes")
            table = _table(network, specs, rng, 3)
            answers[name] = {
                "prior": attempt(lambda n=network: n.sample(6, random_state=1).to_dict("list")),
                "posterior": attempt(lambda n=network, e=evidence: n.sample(4, 2, e).to_dict("list")),
                "rows": attempt(lambda n=network, t=table: n.sample(2, 3, t).to_dict()),
                "one": attempt(lambda n=network, e=evidence: n.posterior(list(n)[-1], e).sample(5, random_state=4)),
            }
    return answers


# -- what is learned ---------------------------------------------------------------------------------------------------


def contents(network: hb.Network) -> dict[str, Any]:
    """Return all of a network that a file would hold: nodes in order, arcs, variables, parameters."""
    nodes = {
        name: {"variable": repr(network.variable(name)), "potential": network.potential(name).to_dict()}
        for name in network
    }
    return {"order": list(network), "arcs": sorted(map(list, network.edges)), "nodes": nodes}


def saved(network: hb.Network) -> dict[str, Any]:
    """Return `contents` after a file has been written and read again, and how long the file is, member by member."""
    path = Path("network.hbn")
    network.save(path)
    members = {}
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: f"{info.CRC:08x}" for info in archive.infolist()}
    again = contents(as_kind(hb.Network, hb.load(path)))
    return {"members": members, "contents": again} if members else {"bytes": path.read_bytes().hex(), "contents": again}


def heart() -> hb.Table:
    return hb.read_table(HEART)


def small_tables() -> Iterator[tuple[str, hb.Table]]:
    for name in SMALL:
        path = TABLES / f"{name}.arff"
        if path.is_file():
            yield name, hb.read_table(path)


def generated(rows: int = 150) -> pd.DataFrame:
    """Make a complete table of numbers and states, with a class and a skewed response."""
    rng = np.random.default_rng(11)
    c = rng.integers(0, 3, rows)
    x = rng.normal(c, 1)
    frame = pd.DataFrame(
        {
            "x": x,
            "y": 2 * x + rng.normal(size=rows),
            "skewed": np.exp(rng.normal(size=rows) + 0.3 * c),
            "kind": np.array(["u", "v", "w"])[(c + rng.integers(0, 2, rows)) % 3],
            "flag": rng.random(rows) < 0.3 + 0.2 * c,
            "class": np.array(["a", "b", "c"])[c],
        }
    )
    return frame


def _builders(target: str | None, number: str | None) -> Iterator[tuple[str, Callable[..., Any]]]:
    from hybridbn import structures

    if target is not None:
        for name in ("naive_bayes", "tan", "kdb", "nb_tree", "selective_naive_bayes", "class_clusters"):
            yield name, partial(getattr(structures, name), target=target)
    if number is not None:
        for name in ("naive_bayes", "tan", "nb_tree", "selective_naive_bayes", "regression", "model_tree"):
            yield f"{name} of a number", partial(getattr(structures, name), target=number)
    yield "chow_liu", structures.chow_liu
    yield "hill_climb", partial(structures.hill_climb, restarts=1, turns=2)


def record_builders() -> Any:
    """Every builder with every family, on complete and incomplete tables."""
    from hybridbn import structures

    answers: dict[str, Any] = {}
    full = hb.Table(generated())
    holes = heart()
    for family in FAMILIES:
        for name, build in _builders("class", "y"):
            answers[f"generated {name} {family}"] = attempt(lambda b=build, f=family: saved(b(full, potentials=f)))
    for family in ("auto", "gaussian", "multinomial"):
        for name, build in _builders("disease", None):
            if name != "hill_climb":  # takes expectation maximization with holes; once is enough
                answers[f"heart {name} {family}"] = attempt(lambda b=build, f=family: saved(b(holes, potentials=f)))
    answers["heart hill_climb"] = attempt(
        lambda: saved(structures.hill_climb(holes, "multinomial", restarts=0, turns=0, missing="available"))
    )
    answers["heart regression"] = attempt(lambda: saved(structures.regression(holes, "cholesterol")))
    answers["heart model_tree"] = attempt(lambda: saved(structures.model_tree(holes, "cholesterol")))
    for components in (None, 3):
        answers[f"mixture {components}"] = attempt(lambda k=components: saved(structures.mixture(full, k, most=5)))
    answers["automatic"] = attempt(lambda: saved(structures.automatic(full, "class", folds=3)))
    for name, table in small_tables():
        target = CLASSES.get(name)
        number = None if target else table.names[-1]
        for builder, build in _builders(target, number):
            if builder != "hill_climb":
                answers[f"{name} {builder}"] = attempt(lambda b=build, t=table: saved(b(t)))
    return answers


def record_fits() -> Any:
    """`hb.fit` with every family, structural arcs given; with holes by available cases and by EM."""
    arcs = [("class", "x"), ("class", "kind"), ("x", "y"), ("kind", "y"), ("x", "skewed"), ("class", "flag")]
    backward = [("x", "class"), ("y", "kind"), ("kind", "skewed")]
    full = generated()
    holes = full.mask(np.random.default_rng(3).random(full.shape) < 0.15)
    weights = np.random.default_rng(4).uniform(0.5, 2, len(full))
    hearts = [("disease", "age"), ("disease", "pain"), ("sex", "pain"), ("age", "rate"), ("disease", "rate")]
    answers: dict[str, Any] = {}
    for family in FAMILIES:
        for name, table, given in (
            ("complete", full, {}),
            ("holes", holes, {}),
            ("weights", full, {"weights": weights}),
        ):
            answers[f"{family} {name}"] = attempt(
                lambda f=family, t=table, g=given: saved(hb.fit(arcs, t, potentials=f, **g))
            )
        answers[f"{family} backward"] = attempt(lambda f=family: saved(hb.fit(backward, full, potentials=f)))
        answers[f"{family} heart"] = attempt(lambda f=family: saved(hb.fit(hearts, heart(), potentials=f)))
    for family in ("gaussian", "multinomial"):
        answers[f"{family} em"] = attempt(lambda f=family: saved(hb.fit(arcs, holes, potentials=f, missing="em")))
    return answers


def record_boosting() -> Any:
    """Votes and posteriors of ensembles."""
    from hybridbn import structures

    answers: dict[str, Any] = {}
    frame = generated()
    cases: dict[str, dict[str, Any]] = {
        "default": {},
        "real": {"algorithm": "real"},
        "tan": {"build": structures.tan, "rounds": 5},
        "nb_tree": {"build": partial(structures.nb_tree, max_depth=1), "rounds": 5},
        "kernel": {"potentials": "kernel", "rounds": 4},
        "multinomial": {"potentials": "multinomial"},
        "seed": {"random_state": 7},
    }

    def ask(table: Any, target: str, given: dict[str, Any]) -> dict[str, Any]:
        # the default is the same builder, but had its nodes in another order once
        ensemble = hb.boost(table, target, **{"build": structures.naive_bayes, "rounds": 10, **given})
        return {
            "votes": ensemble.votes,
            "posterior": ensemble.posterior(table).probabilities[:40],
            "networks": [contents(network) for network in ensemble.networks[:2]],
        }

    for name, given in cases.items():
        answers[f"generated {name}"] = attempt(partial(ask, frame, "class", given))
        answers[f"heart {name}"] = attempt(partial(ask, heart(), "disease", given))
    return answers


def record_augmentation() -> Any:
    """The completed table and the network of `hb.augment`, and structural EM."""
    from hybridbn import structures

    frame = generated()
    holes = frame.mask(np.random.default_rng(6).random(frame.shape) < 0.1)
    cases: dict[str, dict[str, Any]] = {
        "default": {},
        "simulation": {"response": "simulation"},
        "joint": {"joint": True},
        "tan": {"build": structures.tan},
        "gaussian": {"potentials": "gaussian"},
    }

    def ask(target: str, given: dict[str, Any]) -> dict[str, Any]:
        given = {"build": structures.naive_bayes, "random_state": 1, "max_iterations": 6, **given}
        augmented = hb.augment(holes, target, **given)
        return {
            "completed": hb.Table(augmented.completed).to_dict(),
            "network": contents(augmented.network),
        }

    answers = {
        f"{target} {name}": attempt(partial(ask, target, given))
        for name, given in cases.items()
        for target in ("y", "class")
    }
    from hybridbn.learning import structural_em

    answers["structural em"] = attempt(
        lambda: contents(
            structural_em(holes, "class", structures.tan, "gaussian", rounds=2, draws=2, random_state=3).network
        )
    )
    return answers


def record_imputation() -> Any:
    """The cells of `hb.impute`: seeds, strategies, structures, families."""
    frame = generated()
    rng = np.random.default_rng(8)
    holes = frame.mask(rng.random(frame.shape) < 0.2)
    holes["count"] = pd.Series(rng.poisson(3, len(frame)), dtype=float).mask(rng.random(len(frame)) < 0.2)
    cases: dict[str, dict[str, Any]] = {
        "seed 0": {"random_state": 0},
        "seed 1": {"random_state": 1},
        "seed 2": {"random_state": 2},
        "draws": {"draws": 3},
        "mean": {"strategy": "mean"},
        "most probable": {"strategy": "most_probable"},
        "precise": {"full_precision": True},
        "no donors": {"donors": False},
        "bounds": {"bounds": {"x": (-1, 1.5), "skewed": (0, None)}},
        "observed": {"bounds": "observed"},
        "integers": {"integers": ["count"]},
        "indicators": {"indicators": True},
        "one round": {"rounds": 1},
        "no round": {"rounds": 0},
    }
    for structure in ("tan", "naive_bayes", "kdb", "nb_tree", "class_clusters", "selective_naive_bayes"):
        cases[structure] = {"structure": structure, "target": "class", "rounds": 1}
    for structure in ("chow_liu", "hill_climb"):
        cases[structure] = {"structure": structure, "rounds": 1}
    for family in FAMILIES[1:]:
        cases[family] = {"structure": "tan", "target": "class", "potentials": family, "rounds": 1}

    def ask(table: Any, given: dict[str, Any]) -> Any:
        completed = hb.impute(table, **{"random_state": 5, **given})
        tables = completed if isinstance(completed, list | tuple) else [completed]
        return [hb.Table(one).to_dict() for one in tables]

    answers = {f"generated {name}": attempt(partial(ask, holes, given)) for name, given in cases.items()}
    for seed in (0, 1):
        answers[f"heart {seed}"] = attempt(partial(ask, heart(), {"random_state": seed}))
    answers["heart mean"] = attempt(partial(ask, heart(), {"strategy": "mean"}))
    labor = TABLES / "labor.arff"
    if labor.is_file():
        answers["labor"] = attempt(lambda: ask(hb.read_table(labor), {"random_state": 0}))
    return answers


SECTIONS: dict[str, Callable[[], Any]] = {
    "discrete": record_discrete,
    "gaussian": record_gaussian,
    "hybrid": record_hybrid,
    "families": record_families,
    "leaves": record_leaves,
    "samples": record_samples,
    "builders": record_builders,
    "fits": record_fits,
    "boosting": record_boosting,
    "augmentation": record_augmentation,
    "imputation": record_imputation,
}
TOLERANCES = dict.fromkeys(
    ("discrete", "gaussian", "hybrid", "families", "leaves", "samples", "augmentation", "imputation"), 1e-12
)
"""Relative to max(1, value); all other sections must be bit-equal."""


@pytest.mark.parametrize("section", SECTIONS)
def test_answers_are_those_of_the_earlier_version(section: str, tmp_path: Path) -> None:
    comparison = compare_section(os.path.abspath(__file__), section, TOLERANCES.get(section, 0.0), tmp_path)
    print(comparison)
    assert comparison.compared > 100
    assert not comparison.differences, str(comparison)


if __name__ == "__main__":
    sys.exit(run_as_tool(os.path.abspath(__file__), SECTIONS, TOLERANCES, sys.argv[1:]))
