"""Dates, points in time, times of day and durations are the same numbers and values in every library."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hybridbn as hb
from hybridbn.errors import TableError
from hybridbn.units import Unit, count_days, find_zone

DAY, HOUR = datetime.timedelta(days=1), datetime.timedelta(hours=1)
POINTS = [datetime.datetime(2024, 1, 31, 13, 5, 59, 250_001), None, datetime.datetime(1969, 12, 31, 23, 0)]
SECONDS = [None if point is None else point.replace(microsecond=0) for point in POINTS]
BERLIN = [None if point is None else point.replace(tzinfo=find_zone("Europe/Berlin")) for point in SECONDS]
VALUES: dict[str, list[Any]] = {
    "date": [datetime.date(2024, 1, 31), None, datetime.date(1969, 12, 31)],
    "microseconds": POINTS,
    "seconds": SECONDS,
    "hours": [None if point is None else point.replace(minute=0, second=0) for point in SECONDS],
    "zone": BERLIN,
    "time": [datetime.time(13, 5, 59), datetime.time(0, 0), None],
    "duration": [30 * HOUR, None, -DAY - datetime.timedelta(microseconds=500)],
    "whole days": [3 * DAY, None, -DAY],
}
MAKERS: dict[str, Callable[[list[Any]], Any]] = {
    "lists": lambda values: np.array(values, dtype=object),
    "pandas": lambda values: pd.Series(values, dtype=None if isinstance(values[0], datetime.timedelta) else object),
    "pandas time": lambda values: pd.to_timedelta(pd.Series(values)) if isinstance(values[0], datetime.timedelta) else (
        pd.Series(values) if type(values[0]) is datetime.datetime and values[0].tzinfo is None else None),
    "polars": lambda values: pl.Series(values),
    "arrow": lambda values: pa.array(values),
}  # fmt: skip


def plain(column: Any) -> list[Any]:
    """Return Python's values of a column of any library."""
    listed = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    found: list[Any] = []
    for value in listed:
        if value is None or value is pd.NaT or (isinstance(value, np.generic) and np.isnat(value)):
            found.append(None)
        elif isinstance(value, pd.Timestamp | pd.Timedelta):
            found.append(value.to_pydatetime() if isinstance(value, pd.Timestamp) else value.to_pytimedelta())
        elif isinstance(value, np.generic):
            found.append(value.astype(f"{value.dtype.kind}8[us]").tolist())
        else:
            found.append(value)
    return found


def as_moment(value: Any) -> Any:
    """Return a value so that dates and the midnights that begin them are the same."""
    if type(value) is datetime.date:
        return datetime.datetime.combine(value, datetime.time())
    return value


@pytest.mark.parametrize(
    ("kind", "maker"),
    [(kind, maker) for kind in VALUES for maker in MAKERS if MAKERS[maker](VALUES[kind]) is not None],
)
def test_values_are_the_same_in_every_library(kind: str, maker: str) -> None:
    values = VALUES[kind]
    given = MAKERS[maker](values)
    table = hb.Table({"t": given, "x": [1.0, 2.0, 3.0]})
    variable = table.variable("t")
    assert isinstance(variable, hb.Continuous)
    unit = variable.unit
    assert unit is not None
    wanted = [np.nan if value is None else unit.number(value) for value in values]
    np.testing.assert_allclose(table.column("t"), wanted, rtol=0, atol=1e-11)
    names = {"time": "time", "duration": "duration", "whole days": "duration", "date": "date"}
    assert unit.kind == names.get(kind, "datetime")
    assert unit.name == "days" + {"time": " since midnight", "duration": ""}.get(unit.kind, " since 1970-01-01")
    others = table.with_array("x", np.array([4.0, 5.0, 6.0]))
    fresh = table.with_array("t", np.array(table.column("t")))
    for each in (table, others, fresh, table.take([2, 0, 1])):
        order = [2, 0, 1] if len(each) and each.column("x")[0] == 3.0 else [0, 1, 2]
        for column in (each.to_pandas()["t"], each.to_polars()["t"], each.to_arrow()["t"], each.to_dict()["t"]):
            assert [*map(as_moment, plain(column))] == [as_moment(values[row]) for row in order]


@pytest.mark.parametrize("code", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_days_are_counted_in_every_unit_of_numpy(code: str) -> None:
    dates = np.array(["2024-01-31", "NaT", "1969-05-01"], dtype=f"M8[{code}]")
    since = (dates.astype("M8[ns]") - np.datetime64("1970-01-01", "ns")).astype(float)
    np.testing.assert_allclose(count_days(dates), np.where(np.isnat(dates), np.nan, since / 86400e9), rtol=1e-15)
    if code not in "YM":
        spans = np.array([5, "NaT", -3], dtype=f"m8[{code}]")
        days = spans.astype("m8[ns]").astype(float) / 86400e9
        np.testing.assert_allclose(count_days(spans), np.where(np.isnat(spans), np.nan, days), rtol=1e-12, atol=1e-16)
        triples = spans.astype(f"m8[3{code}]")
        wanted = np.where(np.isnat(triples), np.nan, triples.astype("m8[ns]").astype(float) / 86400e9)
        np.testing.assert_allclose(count_days(triples), wanted, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("kind", ["date", "datetime", "time", "duration"])
def test_numbers_of_days_are_what_they_stand_for(kind: Any) -> None:
    unit = Unit(kind, 86400 * 10**9 if kind == "date" else 10**9)
    days = np.array([[0.25, np.nan], [0.5, 0.0]]) + (0 if kind == "time" else 19000)
    array = unit.arrays(days)
    assert array.shape == (2, 2)
    assert array.dtype.kind == ("m" if kind in ("time", "duration") else "M")
    values = unit.list_values(days.ravel())
    assert values[1] is None
    wanted = {"date": "date", "datetime": "datetime", "time": "time", "duration": "timedelta"}
    assert type(values[0]) is getattr(datetime, wanted[kind])
    texts = [unit.text(day) for day in days.ravel() if not np.isnan(day)]
    numbers = [unit.number(text) for text in texts] if kind in ("date", "datetime") else days[~np.isnan(days)]
    np.testing.assert_allclose(numbers, np.floor(days[~np.isnan(days)]) if kind == "date" else days[~np.isnan(days)])


@pytest.mark.parametrize("kind", ["date32", "timestamp[us]", "duration[s]"])
def test_what_python_has_no_object_for_is_named(kind: str) -> None:
    integers = pa.int32() if kind == "date32" else pa.int64()
    column = pa.array([0, 2**31 - 1 if kind == "date32" else 2**62], type=integers).cast(kind)
    table = hb.Table({"t": column, "x": [1.0, 2.0]})
    assert np.isfinite(table.column("t")).all()
    with pytest.raises(TableError, match="column 't' holds dates or times that Python has no objects for"):
        table.raw("t")
