"""What the numbers of columns are, as a table says it."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import hybridbn as hb
from hybridbn.tables.scales import find_scale

ROWS = 300
COLUMNS: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], str]] = {
    "truth": (lambda rng: rng.integers(0, 2, ROWS), "codes 0, 1"),
    "rating": (lambda rng: rng.integers(1, 8, ROWS), "codes 1, 2, 3, 4, 5, 6, 7"),
    "rating, one unseen": (lambda rng: rng.choice([1, 2, 3, 5], ROWS), "codes 1, 2, 3, 4, 5"),
    "school grades": (lambda rng: rng.choice([1.0, 1.3, 1.7, 2.0, 2.3], ROWS), "codes 1, 1.3, 1.7, 2, 2.3"),
    "years": (lambda rng: rng.integers(2015, 2020, ROWS), "codes 2015, 2016, 2017, 2018, 2019"),
    "counts": (lambda rng: rng.negative_binomial(1, 0.05, ROWS), "whole numbers, {} to {}, never negative"),
    "amounts": (lambda rng: rng.lognormal(4, 1, ROWS).round(2), "multiples of 0.01, {} to {}, positive"),
    "rounded prices": (lambda rng: np.rint(rng.lognormal(4, 1, ROWS)) * 25 + 25, "multiples of 25, {} to {}, positive"),
    "rain": (
        lambda rng: np.where(rng.random(ROWS) < 0.4, 0, rng.gamma(2, 5, ROWS).round(1)),
        "multiples of 0.1, {} to {}, never negative, often 0",
    ),
    "percent": (lambda rng: rng.uniform(0, 100, ROWS).round(), "whole numbers, {} to {}, between 0 and 100"),
    "shares": (lambda rng: rng.beta(2, 2, ROWS), "numbers, {:.4g} to {:.4g}, between 0 and 1"),
    "temperatures": (lambda rng: rng.normal(5, 8, ROWS).round(1), "multiples of 0.1, {} to {}"),
    "measurements": (lambda rng: rng.normal(0, 8, ROWS), "numbers, {:.4g} to {:.4g}"),
    "top-coded": (
        lambda rng: np.minimum(rng.normal(60, 20, ROWS), 80),
        "numbers, {:.4g} to {:.4g}, never above 80, often 80",
    ),
    "order numbers": (lambda rng: rng.permutation(ROWS) + 5001, "row numbers, 5001 to 5300"),
    "constant": (lambda rng: np.full(ROWS, 2.5), "always 2.5"),
    "huge": (lambda rng: rng.normal(size=ROWS) * 1e300, "numbers, {:.4g} to {:.4g}"),
}


@pytest.mark.parametrize("missing", [0, 7])
@pytest.mark.parametrize("name", COLUMNS)
def test_tables_say_what_numbers_are(name: str, missing: int) -> None:
    make, described = COLUMNS[name]
    numbers = make(np.random.default_rng(8)).astype(float)
    least, most = (f"{end:.10g}" if ":" not in described else end for end in (numbers.min(), numbers.max()))
    rows = np.append(numbers, np.full(missing, np.nan))
    if name == "order numbers":  # an integer type has no missing cells
        rows = numbers.astype(int)
    table = hb.Table({"x": rows})
    assert str(table).splitlines()[1].split("missing  ")[1] == described.format(least, most)
    assert table.scale("x") == find_scale(np.repeat(rows, 2)[::-1]) or name == "order numbers"


def test_dates_and_ordered_states_are_described() -> None:
    days = pd.Timestamp("2021-03-01") + pd.to_timedelta(np.arange(90) % 50, unit="D")
    table = hb.Table(
        {
            "day": days,
            "at": days + pd.Timedelta("5min"),
            "size": pd.Categorical(list("sml") * 30, ordered=True),
            "opens": [datetime.time(7 + row % 3, 30) for row in range(90)],
            "due": [f"{1 + row % 28:02d}.03.2021" for row in range(90)],
        },
        continuous=["due"],
    )
    lines = str(table).splitlines()
    assert lines[1].endswith("dates, 2021-03-01 to 2021-04-19")
    assert lines[2].endswith("points in time, 2021-03-01T00:05 to 2021-04-19T00:05")
    assert lines[3].endswith("ordered: 'l', 'm', 's'")
    assert lines[4].endswith("times of day, 07:30:00 to 09:30:00")
    assert lines[5].endswith("dates, %d.%m.%Y, 01.03.2021 to 28.03.2021")


def test_declared_codes_need_no_rows() -> None:
    stars = np.arange(30) % 15 + 1.0
    plain, ordered = (hb.Table({"stars": stars}, ordered=names).scale("stars") for names in ((), "stars"))
    assert not plain.codes
    assert ordered.codes == tuple(range(1, 16))


@settings(max_examples=examples(40), deadline=None)
@given(
    step=st.sampled_from([0.01, 0.05, 0.25, 0.5, 1, 5, 12, 1000]),
    start=st.integers(-50, 50),
    seed=st.integers(0, 9),
    scale=st.sampled_from([1, 2]),
)
def test_multiples_of_a_step_are_found(step: float, start: int, seed: int, scale: int) -> None:
    counts = start + np.random.default_rng(seed).integers(0, 400, 500)
    counts[:2] = start, start + 1
    numbers = np.asarray(np.round(counts * (step * scale), 2), dtype=np.float64)
    scale_found = find_scale(numbers)
    assert scale_found.grid is not None
    assert scale_found.grid.step == pytest.approx(step * scale)
    np.testing.assert_array_equal(scale_found.grid.round(numbers + 0.3 * step), numbers)


@pytest.mark.parametrize("rows", [400, 4000])
@pytest.mark.parametrize("name", ["rating", "rain", "measurements", "percent", "top-coded"])
def test_weights_are_frequencies(name: str, rows: int) -> None:
    rng = np.random.default_rng(3)
    numbers = np.resize(COLUMNS[name][0](rng).astype(float), rows)
    weights = rng.integers(0, 3, rows)
    assert find_scale(numbers, weights.astype(float)) == find_scale(np.repeat(numbers, weights))


def test_long_columns_are_as_short_ones() -> None:
    """Counting hashes first changes nothing."""
    rng = np.random.default_rng(1)
    for name in ("rain", "measurements", "shares", "amounts"):
        numbers = np.concatenate([COLUMNS[name][0](rng) for _ in range(10)]).astype(float)
        with pytest.MonkeyPatch.context() as patch:
            fast = find_scale(numbers)
            patch.setattr("hybridbn.tables.scales.MANY_ROWS", 10**9)
            assert find_scale(numbers) == fast


def test_few_rows_tell_nothing() -> None:
    assert find_scale(np.arange(10.0)).describe() == ""
    assert str(hb.Table({"x": [1.0, 2.0]})).endswith("0 missing")
