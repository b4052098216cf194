"""Tables of codes: their probabilities by hand, and held-out rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous, as_discrete, as_kind
from scipy.special import gammaln

import hybridbn as hb
from hybridbn.fitting import AtomsFitter, MTEFitter
from hybridbn.fitting.code_tables import EVEN_SHARE, STRENGTHS, find_rest
from hybridbn.potentials import Multinomial

CODES = (1.0, 2.0, 3.0, 4.0, 5.0)


def make_table(rows: int = 240, seed: int = 2) -> hb.Table:
    rng = np.random.default_rng(seed)
    group, level = rng.integers(0, 3, rows), rng.normal(size=rows)
    rating = np.clip(np.rint(2 + group + level + 0.7 * rng.normal(size=rows)), 1, 5)
    rating[::17] = np.nan
    return hb.Table({"rating": rating, "group": np.array(list("abc"))[group], "level": level})


def shrink(counts: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Return probabilities by the Dirichlet prior of greatest evidence, row by row."""
    prior = (1 - EVEN_SHARE) * masses / masses.sum(axis=1, keepdims=True) + EVEN_SHARE / masses.shape[1]

    def weigh(worth: float) -> float:
        total = 0.0
        for own, before in zip(counts, prior * worth, strict=True):
            total += gammaln(before.sum()) - gammaln(before.sum() + own.sum())
            total += sum(gammaln(n + b) - gammaln(b) for n, b in zip(own, before, strict=True))
        return total

    worth = max(STRENGTHS, key=weigh)
    return (counts + worth * prior) / (counts.sum(axis=1, keepdims=True) + worth)


@pytest.mark.parametrize("given", [(), ("group",)])
def test_frequencies_are_shrunk_to_the_density(given: tuple[str, ...]) -> None:
    table = make_table()
    rating, parents = table.variable("rating"), tuple(map(table.variable, given))
    learned = as_kind(hb.Atoms, AtomsFitter(CODES, grid=True).fit(table, rating, parents))
    density = MTEFitter().fit(table, rating, parents)
    groups = range(3) if given else [slice(None)]
    values, own = table.column("rating"), table.column("group")
    rows = [own == number if given else np.ones(len(values), dtype=bool) for number in groups]
    counts = np.array([[(values[chosen] == code).sum() for code in CODES] for chosen in rows])
    edges = np.array([-np.inf, 1.5, 2.5, 3.5, 4.5, np.inf])
    cases = [{"group": "abc"[number]} if given else {} for number in groups] if given else [{}]
    masses = []
    for case in cases:
        cdf = (
            hb.Network([density, *[hb.Multinomial(as_discrete(p), table=[1 / 3] * 3) for p in parents]])
            .posterior("rating", case)
            .cdf
        )
        masses.append(np.diff([0.0, *cdf(edges[1:-1]), 1.0]))
    expected = shrink(counts, np.array(masses)) * (1 - find_rest(counts.sum(axis=0)))
    table_of = as_kind(Multinomial, learned.component).table
    found = np.moveaxis(table_of, -1, 0)[:-1].reshape(len(CODES), -1).T
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_cells_of_numbers_have_frequencies_of_their_own() -> None:
    table = make_table(3000)
    rating, level = table.variable("rating"), as_continuous(table.variable("level"))
    learned = AtomsFitter(CODES, grid=True).fit(table, rating, (level,))
    network = hb.Network([learned, MTEFitter().fit(table, level)])
    fitter = MTEFitter()
    leaves = fitter.fit_leaves(fitter.statistics(table, rating, (level,)))
    boxes = [box for leaf in leaves for box in leaf.boxes]
    values, levels = table.column("rating"), table.column("level")
    assert len(boxes) > 3
    for box in boxes:
        inside = (levels >= box.low[0]) & (levels < box.high[0]) & ~np.isnan(values)
        posterior = network.posterior("rating", {"level": float(np.median(levels[inside]))})
        found = np.array([posterior.probability(code) for code in CODES])
        assert found.sum() == pytest.approx(1, abs=1e-3)
        # the density counts for a few rows
        observed = np.array([(values[inside] == code).mean() for code in CODES])
        assert np.abs(found - observed).max() < max(0.05, 2 / inside.sum())


@pytest.mark.parametrize("given", [(), ("group",), ("level",), ("group", "level")])
def test_rows_of_one_code_are_learned_from(given: tuple[str, ...]) -> None:
    """A fold may have no other."""
    table = make_table()
    alone = table.take(table.column("rating") == 3)
    parents = tuple(map(table.variable, given))
    learned = AtomsFitter(CODES, grid=True).fit(alone, table.variable("rating"), parents)
    cells = {name: ["a", "b"] if name == "group" else [0.0, 1.0] for name in given}
    values = np.asarray(learned(rating=[3.0, 4.0], **cells))
    assert values[0] > 0.9 > 10 * values[1] > 0


def test_refitting_keeps_tables_of_codes() -> None:
    table = make_table()
    network = hb.fit([("group", "rating"), ("level", "rating")], table)
    again = hb.fit(network, table)
    for case in ({"group": "a"}, {"group": "c", "level": 1.0}):
        first, second = (net.posterior("rating", case) for net in (network, again))
        assert first.probability(3) == pytest.approx(second.probability(3), rel=1e-9)


def score(frame: pd.DataFrame, column: str, potentials: str, build: str) -> float:
    """Return the mean log probability of a column's held-out values on their grid."""
    table, total, rows = hb.Table(frame), 0.0, 0
    fold = np.random.default_rng(0).permutation(len(table)) % 3
    for held_out in range(3):
        training, test = table.take(fold != held_out), table.take(fold == held_out)
        network = getattr(hb.structures, build)(training, *(() if build == "hill_climb" else ("target",)), potentials)
        truth = test.column(column)
        seen = ~np.isnan(truth)
        cdf = network.posterior(column, test.drop(column).take(seen)).cdf
        ends = np.unique(np.concatenate([truth[seen] - 0.5, truth[seen] + 0.5]))
        upto = dict(zip(ends, np.moveaxis(np.atleast_2d(cdf(ends)), 1, 0), strict=True))
        probability = [
            upto[value + 0.5][row] - upto[value - 0.5][row] for row, value in enumerate(truth[seen].tolist())
        ]
        total += float(np.log(np.maximum(probability, 1e-12)).sum())
        rows += int(seen.sum())
    return total / rows


@pytest.mark.parametrize("build", ["naive_bayes", pytest.param("hill_climb", marks=pytest.mark.slow)])
def test_held_out_codes_are_more_likely_than_by_densities(build: str) -> None:
    rng = np.random.default_rng(4)
    rows = 240
    target = rng.integers(0, 2, rows)
    mood = rng.normal(size=rows) + target
    frame = pd.DataFrame(
        {
            "target": np.array(["no", "yes"])[target],
            "likert": np.clip(np.rint(3 + 1.2 * mood), 1, 5),
            "children": rng.poisson(0.6 + 0.8 * target).clip(0, 8),
            "grade": rng.choice([1, 2, 3, 4, 5, 6], rows, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05]),
            "mood": mood,
        }
    )
    for data, column in ((frame, "likert"), (frame, "children"), (frame, "grade")):
        assert score(data, column, "auto", build) > score(data, column, "mte", build)
