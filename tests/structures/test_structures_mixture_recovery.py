"""Mixtures recover what was simulated: groups, their number, and the density, in mixed tables with holes."""

import tracemalloc

import numpy as np
import pytest
from narrowing import as_discrete
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import hybridbn as hb
from hybridbn.structures import mixture

STATES = ("r", "s", "t", "u")


def truth(groups: int, seed: int, apart: float = 2.0, numbers: int = 5, categories: int = 5):
    """Return a network with a hidden node, numbers in all sorts of units, and categories."""
    rng = np.random.default_rng(seed)
    group = hb.Discrete("group", tuple(range(groups)))
    potentials: list[hb.Potential] = [hb.Multinomial(group, table=rng.dirichlet(np.full(groups, 10.0)))]
    for number in range(numbers):
        unit = 10.0 ** rng.integers(-3, 4)
        potentials.append(
            hb.LinearGaussian(
                hb.Continuous(f"x{number}"),
                (group,),
                intercept=unit * apart * rng.normal(size=groups),
                variance=unit**2 * rng.uniform(0.3, 1.5, size=groups),
            )
        )
    for number in range(categories):
        table = rng.dirichlet(np.full(len(STATES), 0.5), size=groups)
        potentials.append(hb.Multinomial(hb.Discrete(f"c{number}", STATES), (group,), table=table))
    return hb.Network(potentials)


def sampled(network, rows: int, seed: int, missing: float = 0.0):
    """Return columns with holes, and the groups."""
    frame = network.sample(rows, random_state=seed)
    group = frame.pop("group").to_numpy()
    rng = np.random.default_rng(seed)
    data = {}
    for name in frame:
        column = frame[name].to_numpy(dtype=float if name[0] == "x" else object, copy=True)
        column[rng.random(rows) < missing] = np.nan if name[0] == "x" else None
        data[name] = column
    return data, group


def by_normal_mixture(data, groups: int):
    """Cluster by a mixture of normal densities after imputing means and most frequent states; categories are
    indicators.
    """
    columns = []
    for column in data.values():
        if column.dtype == object:
            counts = [np.sum(column == state) for state in STATES]
            filled = np.where(column == None, STATES[int(np.argmax(counts))], column)  # noqa: E711
            columns += [filled == state for state in STATES]
        else:
            columns.append(np.nan_to_num((column - np.nanmean(column)) / np.nanstd(column)))
    table = np.stack(columns, axis=1).astype(float)
    return GaussianMixture(groups, covariance_type="diag", n_init=5, reg_covar=1e-3, random_state=0).fit_predict(table)


def posterior_groups(network, data, name="cluster"):
    return network.posterior(name, hb.Table(data)).probabilities.argmax(axis=1)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("missing", "level"), [(0.0, 0.97), (0.2, 0.9)])
def test_groups_are_found_in_mixed_tables_with_holes(seed, missing, level):
    network = truth(4, seed, apart=3.0)
    data, group = sampled(network, 1500, seed, missing)
    found = adjusted_rand_score(group, posterior_groups(mixture(data, 4), data))
    assert found > level
    # nothing can do better, on the average, than who knows the densities
    assert found > adjusted_rand_score(group, posterior_groups(network, data, "group")) - 0.02
    if missing:
        assert found > adjusted_rand_score(group, by_normal_mixture(data, 4)) + 0.02


@pytest.mark.parametrize("criterion", ["held_out", "bic"])
@pytest.mark.parametrize("groups", [1, 2, 3, 5])
def test_the_number_of_groups_is_found(criterion, groups):
    data, _ = sampled(truth(groups, 7 + groups), 1500, 0, missing=0.2)
    assert len(as_discrete(mixture(data, criterion=criterion).variable("cluster"))) == groups


def test_the_density_comes_closer_with_more_rows():
    network = truth(3, 5, apart=1.0)
    fresh, _ = sampled(network, 4000, 99)
    table = hb.Table(fresh)
    certain = network.log_evidence(table)
    apart = []
    for rows in (100, 1000, 10_000):
        data, _ = sampled(network, rows, 1, missing=0.1)
        apart.append(float(np.mean(certain - mixture(data, 3).log_evidence(table))))
    assert apart[0] > 3 * apart[1] > 9 * apart[2]
    # k parameters cost k / 2n nats
    assert apart[2] < 0.02


def test_categories_of_many_states_take_little_memory():
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=5000)
    data = {f"c{j}": (rng.zipf(1.3, size=5000) % 997 + 7 * j * group) % 997 for j in range(4)}
    table = hb.Table({**data, "x": 4.0 * group + rng.normal(size=5000)}, discrete=list(data))
    tracemalloc.start()
    net = mixture(table, 3)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert adjusted_rand_score(group, posterior_groups(net, table)) > 0.9
    # indicators of all states would be 160 MB, and a step would look at each of them
    assert used < 80e6
