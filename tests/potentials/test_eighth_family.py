"""A user's own family that is learned by name: one class for the potential, one for the
fitter, nothing else anywhere.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.fitting import Fitter, Statistics, observed
from hybridbn.fitting.base import fitter_of, list_fitter_names, spec_of
from hybridbn.potentials.base import Potential, spread
from hybridbn.structures import hill_climb, naive_bayes, nb_tree, tan
from hybridbn.variables import Continuous, Discrete


class Laplace(Potential):
    """A double exponential around a center for each configuration of discrete parents."""

    family = "test double exponential"

    def __init__(self, child, parents, centers, widths):
        self.child, self.parents = child, tuple(parents)
        self.centers, self.widths = np.asarray(centers, float), np.asarray(widths, float)

    def on(self, axes):
        *codes, x = spread(axes, self.scope)
        center, width = (a[tuple(codes)] if codes else a for a in (self.centers, self.widths))
        return np.exp(-np.abs(x - center) / width) / (2 * width), 0.0

    def breaks(self, name, within=None):
        return np.unique(self.centers)

    def scale(self, name):
        return float(self.widths.min())

    def support(self, name, tail=1e-12, within=None):
        reach = -np.log(max(tail, 1e-300)) * self.widths.max()
        return float(self.centers.min() - reach), float(self.centers.max() + reach)

    def to_dict(self):
        return {"centers": self.centers, "widths": self.widths}

    @classmethod
    def from_dict(cls, child, parents, state):
        return cls(child, parents, **state)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LaplaceStatistics(Statistics):
    values: np.ndarray
    cells: np.ndarray
    weights: np.ndarray

    def merged(self, other):
        both: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("values", "cells", "weights")
        }
        return replace(self, total=self.total + other.total, **both)


@dataclass(frozen=True)
class LaplaceFitter(Fitter):
    """Learns a center and a width by weighted medians and mean distances."""

    name: ClassVar[str] = "test laplace fit"
    family: ClassVar[str] = Laplace.family

    @classmethod
    def fits(cls, child, parents=()):
        return isinstance(child, Continuous) and all(isinstance(parent, Discrete) for parent in parents)

    def statistics(self, table, child, parents=()):
        (values, *codes), weights, total = observed(table, child, parents)
        cells = np.zeros(len(values), np.intp)
        for parent, column in zip(parents, codes, strict=True):
            cells = cells * len(parent) + column
        weights = np.ones(len(values)) if weights is None else weights
        return LaplaceStatistics(
            child=child, parents=tuple(parents), total=total, values=values, cells=cells, weights=weights
        )

    def potential(self, statistics):
        shape = tuple(map(len, statistics.parents))
        centers, widths = np.empty(shape).reshape(-1), np.empty(shape).reshape(-1)
        for cell in range(len(centers)):
            mine = statistics.cells == cell
            if not mine.any():
                mine = np.ones(len(mine), bool)
            values, weights = statistics.values[mine], statistics.weights[mine]
            order = np.argsort(values)
            reached = np.cumsum(weights[order])
            centers[cell] = values[order][np.searchsorted(reached, reached[-1] / 2)]
            widths[cell] = max(weights @ np.abs(values - centers[cell]) / weights.sum(), 1e-3)
        return Laplace(statistics.child, statistics.parents, centers.reshape(shape), widths.reshape(shape))


NAME = LaplaceFitter.name


def data(rows=120, holes=False):
    rng = np.random.default_rng(0)
    c = rng.integers(2, size=rows)
    columns = {"c": np.array(["no", "yes"])[c].astype(object), "x": rng.laplace(2.0 * c), "y": rng.laplace(size=rows)}
    if holes:
        for name in columns:
            columns[name][rng.random(rows) < 0.1] = None if name == "c" else np.nan
    return columns


def families(network):
    return {type(potential) for potential in network.potentials}


@pytest.mark.parametrize("spec", [NAME, LaplaceFitter()], ids=["name", "fitter"])
@pytest.mark.parametrize(
    "build",
    [
        lambda spec: hb.fit([("c", "x")], data(), spec),
        lambda spec: naive_bayes(data(), "c", spec),
        lambda spec: tan(data(), "c", spec),
        lambda spec: hill_climb(data(), spec),
        lambda spec: hb.fit([("c", "x")], data(holes=True), spec, missing="em"),
        lambda spec: hb.structural_em(data(holes=True), "c", naive_bayes, spec, rounds=1, draws=2).network,
        lambda spec: hb.augment(data(holes=True), "c", potentials=spec).network,
    ],
    ids=["fit", "naive_bayes", "tan", "hill_climb", "em", "structural_em", "augment"],
)
def test_it_is_learned_by_name_and_discrete_columns_are_left_to_tables(build, spec):
    network = build(spec)
    assert Laplace in families(network)
    assert families(network) <= {Laplace, hb.Multinomial, hb.MTE}
    assert isinstance(network.potential("c"), hb.Multinomial | hb.MTE)


def test_a_tree_has_it_in_its_leaves():
    network = nb_tree(data(300), "c", potentials=NAME)  # type: ignore[arg-type]
    cases = [potential for potential in network.potentials if isinstance(potential, hb.Cases)]
    kinds = {type(case.potential) for potential in cases for case in potential.cases} | families(network)
    assert Laplace in kinds


def test_a_search_pays_for_its_parameters():
    network = hill_climb({"c": data()["c"], "y": data()["y"]}, NAME)  # type: ignore[arg-type]
    assert not network.edges
    assert Laplace(Continuous("x"), (Discrete("c", ("a", "b")),), [0, 1], [1, 1]).free_parameters() == 4


def test_a_network_of_it_is_learned_again_and_keeps_it():
    network = naive_bayes(data(), "c", NAME)  # type: ignore[arg-type]
    again = hb.fit(network, data(60))
    assert families(again) == {Laplace, hb.Multinomial}
    assert families(hb.fit(network, data(holes=True), missing="em")) == {Laplace, hb.Multinomial}


def test_estimators_ensembles_and_imputation_take_it(tmp_path):
    columns = data()
    X = np.column_stack([columns["x"], columns["y"]])
    classifier = hb.HybridClassifier("naive_bayes", potentials=NAME).fit(X, columns["c"])  # type: ignore[arg-type]
    assert classifier.score(X, columns["c"]) > 0.7
    assert np.isfinite(
        hb.HybridRegressor("naive_bayes", potentials=NAME).fit(X[:, :1], columns["y"]).predict(X[:, :1])  # type: ignore[arg-type]
    ).all()
    ensemble = hb.boost(columns, "c", potentials=NAME, rounds=2, random_state=0)  # type: ignore[arg-type]
    assert any(Laplace in families(network) for network in ensemble.networks)
    filled = hb.impute(data(holes=True), structure="naive_bayes", target="c", potentials=NAME, random_state=0)  # type: ignore[call-overload]
    assert not np.isnan(np.asarray(filled["x"], float)).any()


def test_files_and_the_command_know_it(tmp_path, capsys):
    network = naive_bayes(data(), "c", NAME)  # type: ignore[arg-type]
    network.save(tmp_path / "model.hbn")
    loaded = as_kind(hb.Network, hb.load(tmp_path / "model.hbn"))
    before, after = (as_kind(Laplace, net.potential("x")) for net in (network, loaded))
    assert after.centers.tolist() == before.centers.tolist()
    hb.Table(data(holes=True)).write(tmp_path / "in.csv")
    options = ["--structure", "naive_bayes", "--target", "c", "--potentials", NAME, "--quiet"]
    assert run(["impute", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *options]) == 0
    assert not any(hb.read_table(tmp_path / "out.csv").missing.values())
    with pytest.raises(SystemExit):
        run(["impute", "--help"])
    assert NAME in " ".join(capsys.readouterr().out.split())


def test_names_come_from_one_registry():
    assert {"auto", "mte", "kernel", "gaussian", "multinomial", "softmax", NAME} <= set(list_fitter_names())
    assert spec_of(Laplace(Continuous("x"), (), [0.0], [1.0])) == NAME
    with pytest.raises(hb.NetworkError, match="did you mean 'test laplace fit'"):
        naive_bayes(data(), "c", "test laplace fitt")  # type: ignore[arg-type]
    c = Discrete("c", ("a", "b"))
    assert fitter_of(NAME, c, ()).name == "multinomial"
    assert fitter_of(NAME, Continuous("x"), (Continuous("y"),)).name == "mte"


def test_a_name_belongs_to_one_fitter():
    with pytest.raises(TypeError, match="there is a fitter called 'kernel' already"):

        class Other(LaplaceFitter):
            name = "kernel"

    with pytest.raises(TypeError, match="'auto' stands for a choice among all"):

        class Auto(LaplaceFitter):
            name = "auto"


def test_a_family_that_is_not_saved_must_count_its_parameters():
    class Bare(Laplace):
        family = ""

        def to_dict(self):
            return Potential.to_dict(self)

    with pytest.raises(hb.NetworkError, match=r"Bare must implement free_parameters\(\)"):
        Bare(Continuous("x"), (), 0.0, 1.0).free_parameters()
