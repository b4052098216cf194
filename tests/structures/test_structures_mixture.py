"""Naive Bayes mixtures: EM that never falls, exact agreement with the network they become, recovery of simulated
groups.
"""

import itertools
from dataclasses import replace
from importlib import import_module

import networkx as nx
import numpy as np
import pytest
from narrowing import as_discrete, as_kind, known
from sklearn.metrics import adjusted_rand_score

import hybridbn as hb
from hybridbn.structures import mixture, mixture_em, mixture_statistics
from hybridbn.structures.mixture import cluster_rows
from hybridbn.structures.mixture_em import (
    RowKernels,
    compute_responsibilities,
    continue_fits,
    fit_kernels,
    fit_mixture,
    score_held_out,
    start_fits,
)
from hybridbn.structures.mixture_statistics import Cells, compute_statistics
from hybridbn.structures.training_data import read_data_without_target


def simulated(rows: int, seed: int, missing: float = 0.2):
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=rows)
    data = {
        "x": np.array([0.0, 5.0, 10.0])[group] + rng.normal(size=rows),
        "y": 1000 * (np.array([2.0, -3.0, 2.0])[group] + rng.normal(size=rows)),
        "c": np.array(["a", "b", "a"], dtype=object)[group],
    }
    flip = rng.random(rows) < 0.15
    data["c"] = np.where(flip, rng.choice(["a", "b", "d"], rows), data["c"]).astype(object)
    for name in ("x", "y"):
        data[name][rng.random(rows) < missing] = np.nan
    data["c"][rng.random(rows) < missing] = None
    return data, group


def statistics(rng):
    """Numbers and categories of few and of many states, with holes and weights, some of them zero."""
    columns = [
        rng.normal(size=60),
        rng.integers(-1, 3, size=60),
        rng.integers(-1, 50, size=60),
        np.where(rng.random(60) < 0.5, np.nan, rng.normal(size=60)),
    ]
    return compute_statistics(columns, [None, 3, 50, None], np.maximum(rng.random(60) - 0.1, 0.0))


def by_definition(data, fit):
    """Return the log-densities of the rows given each component, times its share, from the statistics in one matrix."""
    matrix = np.concatenate([data.narrow, data.wide.toarray()], axis=1)
    return matrix @ fit.natural + fit.log_shares


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("components", [1, 2, 3, 6])
def test_the_objective_never_falls(seed, components):
    rng = np.random.default_rng(seed)
    data = statistics(rng)
    history = np.array(fit_mixture(data, components, 3, rng).history)
    assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()


@pytest.mark.parametrize("components", [1, 4])
def test_a_step_is_the_textbook_s(components):
    rng = np.random.default_rng(11)
    data = statistics(rng)
    fit = fit_mixture(data, components, 2, rng)
    logs = by_definition(data, fit)
    shares, densities = compute_responsibilities(data, fit)
    np.testing.assert_allclose(densities, np.log(np.exp(logs).sum(axis=1)), rtol=1e-12)
    np.testing.assert_allclose(shares, np.exp(logs - densities[:, None]), rtol=1e-9)
    assert fit.log_likelihood == pytest.approx(data.weights @ densities)
    matrix = np.concatenate([data.narrow, data.wide.toarray()], axis=1)
    np.testing.assert_allclose(
        data.sums(shares.T * data.weights), (matrix * data.weights[:, None]).T @ shares, atol=1e-12
    )


def held_out(data, components, parts, starts, rng):
    weights = (parts != np.arange(4)[:, None]) * data.weights
    fits = start_fits(data, weights, components, starts, rng)
    return score_held_out(data, continue_fits(data, weights, fits, data), parts)


def test_neither_sparse_indicators_nor_the_number_of_fits_at_a_time_matter(monkeypatch):
    def found():
        rng = np.random.default_rng(12)
        data = statistics(rng)
        fit = fit_mixture(data, 3, 4, rng)
        return (
            compute_responsibilities(data, fit)[0],
            held_out(data, 3, np.arange(60) % 4, 3, rng),
            np.array(fit.history),
        )

    first = found()
    for module, name, value in (
        (mixture_statistics, "WIDE", 1),
        (mixture_statistics, "WIDE", 100),
        (mixture_em, "TOGETHER", 1),
        (mixture_em, "TOGETHER", 500),
    ):
        monkeypatch.setattr(module, name, value)
        for one, other in zip(first, found(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_a_row_of_weight_zero_is_as_if_it_were_not_there():
    data = statistics(np.random.default_rng(13))
    kept = data.take(data.weights > 0)
    first, second = (fit_mixture(d, 3, 5, np.random.default_rng(1)) for d in (data, kept))
    assert len(kept) < len(data)
    np.testing.assert_allclose(first.natural, second.natural, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("criterion", ["held_out", "bic"])
def test_simulated_groups_are_found(criterion):
    data, group = simulated(900, 1)
    net = mixture(data, criterion=criterion)
    assert len(as_discrete(net.variable("cluster"))) == 3
    found = as_discrete(net.posterior("cluster", hb.Table(data))).probabilities.argmax(axis=1)
    assert adjusted_rand_score(group, found) > 0.6
    complete, group = simulated(900, 2, missing=0.0)
    found = as_discrete(mixture(complete, 3).posterior("cluster", hb.Table(complete))).probabilities.argmax(axis=1)
    assert adjusted_rand_score(group, found) > 0.95


def test_the_network_is_the_mixture():
    data, _ = simulated(200, 3)
    read = read_data_without_target(data, "gaussian", None)
    found = cluster_rows(read, 4, "held_out", 20, 3, np.random.default_rng(0))
    net = found.build_network("cluster")
    np.testing.assert_allclose(
        as_discrete(net.posterior("cluster", hb.Table(data))).probabilities, found.assign(read.table), atol=1e-9
    )
    logs = compute_responsibilities(found.statistics, found.fit)[1]
    rows = found.data.table
    seen = ~np.isnan(np.stack([rows.column("x"), rows.column("y")], axis=1))
    expected = logs - seen @ np.log(found.statistics.scales)
    np.testing.assert_allclose(net.log_evidence(rows), expected, rtol=1e-9)
    assert (np.diff(as_kind(hb.Multinomial, net.potential("cluster")).table) <= 0).all()


def test_units_do_not_matter():
    data, _ = simulated(300, 4)
    moved = {**data, "y": data["y"] * 1e-6 + 40}
    first, second = mixture(data, 3), mixture(moved, 3)
    np.testing.assert_allclose(
        as_discrete(first.posterior("cluster", hb.Table(data))).probabilities,
        as_discrete(second.posterior("cluster", hb.Table(moved))).probabilities,
        atol=1e-6,
    )


def test_a_weight_of_two_is_two_rows():
    data, _ = simulated(100, 5)
    twice = {name: np.repeat(values, 2) for name, values in data.items()}
    table, doubled = hb.Table(data, weights=np.full(100, 2.0)), hb.Table(twice)
    one, two = (mixture(read, 1) for read in (table, doubled))
    assert as_kind(hb.LinearGaussian, one.potential("x")).variance == pytest.approx(
        as_kind(hb.LinearGaussian, two.potential("x")).variance, rel=1e-12
    )
    np.testing.assert_allclose(
        as_kind(hb.Multinomial, one.potential("c")).table, as_kind(hb.Multinomial, two.potential("c")).table, rtol=1e-12
    )


@pytest.mark.parametrize("potentials", ["auto", "mte", "kernel", "multinomial", {"x": "mte"}])
def test_any_family(potentials):
    data, group = simulated(300, 6, missing=0.1)
    net = mixture(data, 3, potentials, random_state=1)
    found = as_discrete(net.posterior("cluster", hb.Table(data))).probabilities
    assert found.shape == (300, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert adjusted_rand_score(group, found.argmax(axis=1)) > 0.5


def test_numbers_without_holes_are_no_normal_ones():
    data, _ = simulated(100, 6, missing=0.0)
    net = mixture({name: data[name] for name in ("x", "y")}, 2, "mte", random_state=1)
    assert {type(net.potential(name)) for name in ("x", "y")} == {hb.MTE}


def test_held_out_rows_are_not_seen():
    rng = np.random.default_rng(7)
    data = compute_statistics([rng.normal(size=40)], [None], np.ones(40))
    parts = np.arange(40) % 4
    found = held_out(data, 1, parts, 1, rng)
    alone = fit_mixture(data.take(parts != 2), 1, 1, rng)
    np.testing.assert_allclose(found[parts == 2], compute_responsibilities(data.take(parts == 2), alone)[1])


def test_awkward_tables():
    rng = np.random.default_rng(8)
    assert len(as_discrete(mixture({"x": [1.0, 1.0, 1.0]}, 2).variable("cluster"))) == 2
    assert len(as_discrete(mixture({"x": rng.normal(size=3)}).variable("cluster"))) == 1
    net = mixture({"x": [1.0, np.nan, 2.0, np.nan], "c": ["a", None, "b", None]}, 2)
    np.testing.assert_allclose(
        as_discrete(net.posterior("cluster", {})).probabilities, as_kind(hb.Multinomial, net.potential("cluster")).table
    )
    huge = mixture({"x": np.r_[rng.normal(size=50), 1e120]}, 2)
    with pytest.raises(hb.TableError, match="'x': the values lie so far apart"):
        mixture({"x": np.r_[rng.normal(size=50), 1e308, -1e308]}, 2)
    assert np.isfinite(huge.log_density(hb.Table({"x": [0.0, 1e120]}))).all()


@pytest.mark.parametrize("covariance", [None, "diagonal"])
def test_a_constant_column_changes_no_clusters(covariance):
    rng = np.random.default_rng(12)
    group = rng.integers(3, size=150)
    x = 5.0 * group + rng.normal(size=150)
    data = {"x": x, "y": rng.normal(size=150) + 0.5 * x, "c": np.where(group == 0, "a", "b")}
    net = mixture(data, most=4, starts=2, covariance=covariance)
    with pytest.warns(UserWarning, match="columns 'one' have the same value"):
        more = mixture({**data, "one": 7.0 * np.ones(150)}, most=4, starts=2, covariance=covariance)
    assert len(as_discrete(net.variable("cluster"))) == 3
    table = hb.Table(data)
    probabilities = [as_discrete(one.posterior("cluster", table)).probabilities for one in (net, more)]
    np.testing.assert_allclose(probabilities[0], probabilities[1], atol=1e-4)
    assert "one" not in more


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"components": 0}, "components must be a whole number of at least 1"),
        ({"components": True}, "components must be a whole number of at least 1"),
        ({"criterion": "aic"}, "criterion must be"),
        ({"name": "x"}, "has a column 'x'"),
        ({"most": 1.5}, "most must be"),
    ],
)
def test_bad_requests(change, message):
    with pytest.raises(hb.HybridBNError, match=message):
        mixture({"x": [1.0, 2.0, 3.0], "c": ["a", "b", "a"]}, **change)


def test_the_parts_of_the_cross_validation_can_be_chosen():
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=60) + 8 * (np.arange(60) % 3)}
    for folds in (2, 10):
        assert len(as_discrete(mixture(data, folds=folds, random_state=1).variable("cluster"))) == 3
    for wrong in (1, 2.5, True):
        with pytest.raises(hb.NetworkError, match="folds"):
            mixture(data, folds=wrong)  # type: ignore[arg-type]


FORMS = ("full", "tied", "factors", "tree")


def correlated(rows, seed, missing=0.0):
    """Return columns of three clusters with covariances of their own."""
    rng = np.random.default_rng(seed)
    shape = np.random.default_rng(99)
    turns, centers = shape.normal(size=(3, 5, 5)), shape.normal(0, 4, (3, 5))
    group = rng.integers(3, size=rows)
    cells = centers[group] + np.einsum("nij,nj->ni", turns[group], rng.normal(size=(rows, 5)))
    cells[rng.random(cells.shape) < missing] = np.nan
    return {f"x{i}": 10.0**i * cells[:, i] for i in range(5)}


@pytest.mark.parametrize("covariance", FORMS)
def test_covariances_are_densities_of_networks(covariance):
    """The network has the density that EM maximized, hidden cells included, whatever the arcs say."""
    data = correlated(120, 1, missing=0.2) | {"c": ["a", "b", None] * 40}
    read = read_data_without_target(data, "gaussian", None)
    clustering = cluster_rows(read, 2, "held_out", 5, 2, np.random.default_rng(0), 3, covariance)
    probabilities, logs = compute_responsibilities(clustering.statistics, clustering.fit)
    net = clustering.build_network("cluster")
    table = clustering.data.table
    scale = np.log(clustering.statistics.scales)
    seen = np.array([~np.isnan(np.asarray(table.column(f"x{i}"))) for i in range(5)])
    np.testing.assert_allclose(net.log_density(table), logs - scale @ seen, rtol=1e-8)
    np.testing.assert_allclose(as_discrete(net.posterior("cluster", table)).probabilities, probabilities, atol=1e-8)


@pytest.mark.parametrize("covariance", ["full", "tied"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_the_objective_never_falls_with_any_covariance(covariance, missing):
    data = correlated(80, 2, missing)
    read = read_data_without_target({name: data[name] for name in ("x0", "x1", "x2")}, "gaussian", None)
    history = cluster_rows(read, 3, "held_out", 5, 2, np.random.default_rng(0), 3, covariance).fit.history
    assert len(history) > 3
    assert (np.diff(history) >= -1e-9 * np.abs(history[1:])).all()


def test_the_covariance_is_chosen():
    data, fresh = correlated(400, 3), hb.Table(correlated(400, 4))
    net = mixture(data, most=5)
    assert net.number_of_edges() == 5 + 10
    diagonal = mixture(data, covariance="diagonal")
    assert net.log_density(fresh).mean() > diagonal.log_density(fresh).mean() + 0.3
    holes = mixture(correlated(400, 3, missing=0.05), 3, covariance="full")
    assert holes.log_density(fresh).mean() > diagonal.log_density(fresh).mean() + 0.2
    assert mixture(data, 3, criterion="bic").number_of_edges() == 15
    with pytest.raises(hb.NetworkError, match="covariance must be one of"):
        mixture(data, covariance="round")  # type: ignore[arg-type]


@pytest.mark.parametrize("criterion", ["held_out", "bic"])
def test_covariances_are_tried_where_numbers_are_correlated_in_the_components(criterion, monkeypatch):
    tried = []

    def record(data, weights, fits, wanted, *converged):
        tried.append(wanted.covariance)
        return continue_fits(data, weights, fits, wanted, *converged)

    monkeypatch.setattr(import_module("hybridbn.structures.mixture"), "continue_fits", record)
    rng = np.random.default_rng(10)
    x = rng.normal(size=(300, 4)) + 5 * rng.integers(3, size=300)[:, None]
    x[rng.random(x.shape) < 0.2] = np.nan
    assert len(as_discrete(mixture(dict(zip("abcd", x.T, strict=True)), criterion=criterion).variable("cluster"))) == 3
    assert set(tried) == {"diagonal"}
    net = mixture(correlated(300, 5), criterion=criterion)
    assert {"diagonal", "full", "tied", "tree", "factors"} == set(tried)
    # no covariance is tried with more components than the best diagonal one has
    assert max(map(tried[tried.index("full") :].count, FORMS)) <= tried[: tried.index("full")].count("diagonal")
    assert net.number_of_edges() > 5


def test_the_prior_is_as_narrow_as_held_out_rows_ask():
    """A column that is nearly a sum of others, in each of two clusters, and one of whom half is nearly constant."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(600, 2)) + 3 * rng.integers(2, size=600)[:, None]
    near = {"a": x[:, 0], "b": x[:, 1], "c": x.sum(axis=1) + 1e-3 * rng.normal(size=600)}
    narrow = {"a": np.where(rng.random(600) < 0.5, 1e-3, 1.0) * rng.normal(size=600)}
    for columns, expected in ((near, 8.0), (narrow, 2.2)):
        table = hb.Table(columns)
        logs = mixture(table.take(np.arange(400)), 4, starts=2).log_density(table.take(np.arange(400, 600)))
        wide = mixture(table.take(np.arange(400)), 1, covariance="diagonal").log_density(
            table.take(np.arange(400, 600))
        )
        assert (logs - wide).mean() > expected


def small_groups(seed, groups=30):
    """Return two numbers and a category of rows in many narrow groups."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(5).normal(0, 10, (groups, 2))
    group = rng.integers(groups, size=150)
    x, y = (centers[group] + 0.1 * rng.normal(size=(150, 2))).T
    return hb.Table({"x": x, "c": np.array(["u", "v"])[group % 2], "y": 1000 * y + 50 * x})


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_kernels_and_components_are_the_density_of_the_network(covariance):
    table, fresh = small_groups(0), small_groups(1)
    read = read_data_without_target(table, "gaussian", None)
    found = cluster_rows(read, 2, "held_out", 5, 2, np.random.default_rng(0), 3, covariance, kernels=True)
    kernels, shares = known(found.kernels)
    assert 0.5 < kernels.share < 1
    net, without = found.build_network("cluster"), replace(found, kernels=None).build_network("cluster")
    measures = found.statistics
    values = (np.stack([fresh.column(name) for name in "xy"], axis=1) - measures.centers) / measures.scales
    unit = np.log(measures.scales).sum()
    fresh_cells = Cells(values, np.array([["u", "v"].index(state) for state in fresh.to_pandas()["c"]])[:, None])
    expected = kernels.log_densities(fresh_cells, without.log_density(fresh) + unit)
    np.testing.assert_allclose(net.log_density(fresh), expected - unit, rtol=1e-9)
    assert list(net) == ["cluster", "cluster_kernel", "x", "c", "y"]
    own = kernels.share * shares.mean(axis=0) + (1 - kernels.share) * np.exp(found.fit.log_shares)
    np.testing.assert_allclose(as_discrete(net.posterior("cluster")).probabilities, own)
    # a row far from all others has the density of the components
    far = {"x": 1e3, "y": 0.0, "c": "u"}
    assert net.log_density(far) == pytest.approx(without.log_density(far) + np.log1p(-kernels.share), rel=1e-6)
    # the column follows its group
    assert as_kind(hb.Multinomial, net.potential("c")).table[:150].max(axis=1).min() > 0.9


def test_kernels_leave_rows_out():
    centers = np.random.default_rng(0).normal(size=(20, 2))
    codes = np.arange(20) % 3
    states = np.array([0.5, 0.3, 0.2])
    cells = Cells(centers, codes[:, None])
    kernels = RowKernels(cells, np.ones(20), (states,), np.array([[0.3, 0.1], [0.1, 0.2]]), np.array([0.4]), 0.75)
    apart = np.delete(centers - centers[7], 7, axis=0)
    densities = np.exp(-0.5 * np.einsum("ni,ij,nj->n", apart, np.linalg.inv(kernels.covariance), apart))
    densities /= np.sqrt(np.linalg.det(2 * np.pi * kernels.covariance))
    densities *= 0.4 * states[codes[7]] + 0.6 * (np.delete(codes, 7) == codes[7])
    logs, shares = kernels.leave_out(np.array([7]), np.array([np.log(0.5)]))
    total = 0.75 * densities.mean() + 0.25 * 0.5
    assert logs[0] == pytest.approx(np.log(total))
    np.testing.assert_allclose(np.delete(shares[0], 7), 0.75 * densities / 19 / total)
    assert shares[0, 7] == 0


def test_kernels_are_chosen_by_held_out_rows():
    table, fresh = small_groups(0), small_groups(1)
    net, without = mixture(table, most=3, starts=2), mixture(table, most=3, starts=2, kernels=False)
    assert "cluster_kernel" in net
    assert "cluster_kernel" not in without
    assert len(as_discrete(net.variable("cluster"))) == len(as_discrete(without.variable("cluster")))
    assert net.log_density(fresh).mean() > without.log_density(fresh).mean() + 0.5
    assert "cluster_kernel" not in mixture(correlated(100, 3), 3, starts=1)
    holes = {"x": np.where(np.arange(150) < 3, np.nan, table.column("x")), "y": table.column("y")}
    assert "cluster_kernel" not in mixture(holes, 1)
    for data in (holes, {"x": table.column("x")}, {"x": table.column("x"), "c": ["a", "b"] * 75}):
        with pytest.raises(hb.NetworkError, match="kernels need at least two normal columns"):
            mixture(data, kernels=True)


def test_trees_of_numbers_are_the_likeliest_of_all():
    """Of the sixteen trees of four numbers, by the mutual information in components of different weights and scales."""
    rng = np.random.default_rng(3)
    edges = list(itertools.combinations(range(4), 2))
    trees = [set(t) for t in itertools.combinations(edges, 3) if nx.is_tree(nx.Graph(t)) and len(nx.Graph(t)) == 4]
    assert len(trees) == 16
    for _ in range(6):
        roots = rng.normal(size=(3, 4, 4)) * rng.lognormal(sigma=2.0, size=(3, 4, 1))
        covariances, total = roots @ np.swapaxes(roots, 1, 2), rng.uniform(1, 30, 3)

        def gain(tree, covariances=covariances, total=total):
            pairs = [
                covariances[:, i][:, [j]][:, 0] ** 2 / covariances[:, i, i] / covariances[:, j, j] for i, j in tree
            ]
            return sum(-0.5 * total @ np.log1p(-square) for square in pairs)

        found = mixture_statistics._find_tree(covariances, total)
        assert found[0] == (0, -1)
        placed = [child for child, _ in found]
        assert all(parent in placed[:place] for place, (_, parent) in enumerate(found) if place)
        assert {tuple(sorted(pair)) for pair in found[1:]} == max(trees, key=gain)
        fitted = mixture_statistics._fit_tree(covariances, total)
        for i, j in max(trees, key=gain) | {(i, i) for i in range(4)}:
            np.testing.assert_allclose(fitted[:, i, j], covariances[:, i, j])
        inverses = np.linalg.inv(fitted)
        others = [pair for pair in edges if pair not in max(trees, key=gain)]
        for i, j in others:  # independent given the other numbers
            scale = np.sqrt(inverses[:, i, i] * inverses[:, j, j])
            np.testing.assert_allclose(inverses[:, i, j] / scale, 0, atol=1e-6)


def test_kernels_of_rows_that_count_less_than_one_are_those_of_as_many_equal_ones():
    rng = np.random.default_rng(6)
    numbers, codes = rng.normal(size=(60, 2)), rng.integers(0, 2, (60, 1))
    near = -0.5 * (numbers**2).sum(axis=1) - 3.0
    cells, shares = Cells(numbers, codes), (np.array([0.5, 0.5]),)
    fits = [fit_kernels(cells, np.full(60, weight), shares, near) for weight in (1.0, 0.25)]
    for name in ("covariance", "smoothing", "share"):
        np.testing.assert_allclose(getattr(fits[0], name), getattr(fits[1], name), rtol=1e-9)
