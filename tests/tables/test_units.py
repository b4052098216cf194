"""Dates, points in time, times of day and durations: text patterns, numbers of days, and both ways through tables."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind, known

import hybridbn as hb
from hybridbn.tables.formats.arff import pattern_from_java, pattern_to_java
from hybridbn.unit_texts import PatternFinder
from hybridbn.units import DAY, Unit, coarsest_step, unit_of_pattern

DATES: tuple[str, ...] = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%-d.%-m.%Y",
    "%m/%d/%Y",
    "%-m/%-d/%Y",
    "%d-%m-%Y",
    "%d %b %Y",
    "%-d-%b-%y",
)
DATES += ("%B %-d, %Y", "%d/%m/%y", "%d. %B %Y")
CLOCKS = ("%H:%M", "%H:%M:%S", "%-H:%M", "%I:%M %p", "%-I:%M:%S %p", "%H:%M:%S.%3f", "%H:%M:%S.%6f")
SPANS = ("%D days", "%D days %H:%M:%S", "%D days %H:%M:%S.%6f", "%-T:%M", "%T:%M:%S", "P%DDT%-HH%-MM%-SS")
PATTERNS = [*DATES, *CLOCKS, *(f"{date}{joint}{clock}" for date in DATES for clock in CLOCKS[:5] for joint in " T")]
PATTERNS += [f"%Y-%m-%dT%H:%M:%S{zone}" for zone in ("%z", "%:z", "%Z")] + list(SPANS)
MOMENTS = st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2067, 12, 31))


def find(texts: list[str]) -> PatternFinder:
    finder = PatternFinder()
    finder.add(texts)
    return finder


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_of_a_pattern_are_recognized_and_written_again(pattern: str) -> None:
    unit = unit_of_pattern(pattern, "+02:00" if "z" in pattern else "UTC" if "%Z" in pattern else None)
    rng = np.random.default_rng(len(pattern))
    days = {"duration": rng.uniform(0, 400, 60), "time": rng.uniform(0, 1, 60)}.get(unit.kind, rng.uniform(0, 3e4, 60))
    texts = [unit.text(day) for day in days.tolist()]
    finder = find(texts)
    assert finder.pattern is not None
    assert not finder.ambiguous
    found = unit_of_pattern(finder.pattern, finder.zone)
    assert found.kind == unit.kind
    assert [found.text(found.number(text)) for text in texts] == texts
    assert np.abs(np.array([found.number(text) for text in texts]) - days).max() <= unit.step / DAY * 0.51


@given(st.lists(MOMENTS, min_size=1, max_size=8), st.sampled_from(["date", "datetime", "time"]))
@settings(max_examples=30, deadline=None)
def test_python_values_come_back_to_the_microsecond(moments: list[datetime.datetime], kind: Any) -> None:
    unit = Unit(kind, DAY if kind == "date" else 1000)
    values = [getattr(moment, kind)() if kind != "datetime" else moment for moment in moments]
    numbers = np.array([unit.number(value) for value in values])
    assert unit.list_values(numbers) == values
    assert unit.round(numbers).tolist() == pytest.approx(numbers.tolist(), rel=0, abs=1e-11)


@pytest.mark.parametrize(
    ("texts", "pattern", "ambiguous"),
    [
        (["01/02/2024", "12/11/2023"], "%m/%d/%Y", True),
        (["01/02/2024", "13/11/2023"], "%d/%m/%Y", False),
        (["01.02.2024", "12.11.2023"], "%d.%m.%Y", False),
        (["01-02-2024", "12-11-2023"], "%d-%m-%Y", True),
        (["2024-01-02"], "%Y-%m-%d", False),
        (["12:30", "25:10"], "%T:%M", False),
        (["May 2, 2024", "March 3, 2024"], "%B %-d, %Y", False),
        (["2024-01-02", "unknown"], None, False),
        (["2024-02-30"], None, False),
        (["2024-01-02", "2024-01-02 12:00"], None, False),
        (["1.2.10", "1.10.11"], None, False),
        (["20240102"], None, False),
        (["A-12", "B-13"], None, False),
        (["24:00"], "%T:%M", False),
        ([""], None, False),
    ],
)
def test_all_cells_decide_the_pattern(texts: list[str], pattern: str | None, ambiguous: bool) -> None:
    for order in (texts, texts[::-1]):
        finder = PatternFinder()
        for text in order:  # in blocks of one
            finder.add([text])
        assert (finder.pattern, finder.ambiguous) == (pattern, ambiguous)


def test_an_open_order_of_day_and_month_is_told() -> None:
    with pytest.warns(UserWarning, match=r"column 'd' .*'01/02/2024'.* read as %m/%d/%Y, so this one is 2024-01-02"):
        table = hb.Table({"d": ["01/02/2024", "03/04/2024"]})
    assert table["d"].tolist() == [19724.0, 19786.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = hb.Continuous("d", unit=Unit("date", pattern="%d/%m/%Y"))
        assert hb.Table({"d": ["01/02/2024"]}, variables=[known])["d"].tolist() == [19754.0]


def test_patterns_and_formats_of_java() -> None:
    for form in ("yyyy-MM-dd", "dd.MM.yyyy HH:mm", "yyyy-MM-dd'T'HH:mm:ss.SSS", "d MMM yy, hh:mm a"):
        assert pattern_to_java(pattern_from_java(form)) == form


def test_steps_are_the_coarsest_that_values_allow() -> None:
    unit = Unit("datetime", 1)
    for step, length in ((DAY, 1.0), (DAY // 24, 1 / 24), (DAY // 1440, 1 / 1440), (DAY // 86400, 1 / 86400)):
        assert coarsest_step(20000 + np.arange(50, dtype=np.float64) * length, unit) == step
    assert coarsest_step(np.array([19000.5 + 1e-9]), unit) < DAY // 86400


# -- frames ----------------------------------------------------------------------------------------------------------


def make_frame(n: int = 90) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    start = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    end = start + pd.to_timedelta(rng.integers(1, 20, n), unit="D")
    return pd.DataFrame({"start": start, "end": pd.Series(end).mask(rng.random(n) < 0.25), "x": rng.normal(size=n)})


def as_objects(frame: pd.DataFrame, make: Any) -> list[Any]:
    return [None if pd.isna(value) else make(value) for value in frame["end"]]


FRAMES: dict[str, Any] = {
    **{
        unit: (lambda f, unit=unit: f.assign(end=f["end"].astype(f"datetime64[{unit}]")))
        for unit in ("s", "ms", "us", "ns")
    },
    "zone": lambda f: f.assign(end=f["end"].dt.tz_localize("Europe/Berlin")),
    "fixed zone": lambda f: f.assign(end=f["end"].dt.tz_localize("+05:30")),
    "timedelta": lambda f: f.assign(end=f["end"] - f["start"]),
    "arrow timestamp": lambda f: f.assign(end=f["end"].astype("timestamp[us, tz=UTC][pyarrow]")),
    "arrow date": lambda f: f.assign(end=f["end"].astype("date32[pyarrow]")),
    "dates": lambda f: f.assign(end=as_objects(f, lambda v: v.date())),
    "times": lambda f: f.assign(end=as_objects(f, lambda v: datetime.time(v.day % 24, v.month))),
    "datetimes": lambda f: f.assign(end=pd.Series(as_objects(f, lambda v: v.to_pydatetime()), dtype=object)),
    "deltas": lambda f: f.assign(end=pd.Series(as_objects(f, lambda v: datetime.timedelta(v.day)), dtype=object)),
    "texts": lambda f: f.assign(end=f["end"].dt.strftime("%d.%m.%Y %H:%M")),
    "polars": lambda f: pl.from_pandas(f),
    "polars date": lambda f: pl.from_pandas(f).with_columns(pl.col("end").cast(pl.Date)),
    "polars time": lambda f: pl.from_pandas(f).with_columns(pl.time(pl.col("end").dt.day() % 24).alias("end")),
    "polars duration": lambda f: pl.from_pandas(f).with_columns(end=pl.col("end") - pl.col("start")),
    "polars zone": lambda f: pl.from_pandas(f).with_columns(pl.col("end").dt.replace_time_zone("Asia/Tokyo")),
    **{
        name: (lambda f, kind=kind: (t := pa.Table.from_pandas(f)).set_column(1, "end", t["end"].cast(kind)))
        for name, kind in {
            "pyarrow date32": pa.date32(),
            "pyarrow date64": pa.date64(),
            "pyarrow seconds": pa.timestamp("s"),
            "pyarrow zone": pa.timestamp("ns", "America/New_York"),
        }.items()
    },
    "pyarrow duration": lambda f: pa.table({"end": pa.array(f["end"] - f["start"]), "x": f["x"]}),
    "numpy": lambda f: {"end": f["end"].to_numpy("M8[ns]") + np.timedelta64(1, "ns"), "x": f["x"].to_numpy()},
    "records": lambda f: f.assign(end=pd.Series(as_objects(f, lambda v: v.date()), dtype=object)).to_dict("records"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_imputed_frames_keep_types_and_observed_cells(name: str) -> None:
    frame = FRAMES[name](make_frame())
    table = hb.Table(frame)
    assert table.variable("end").unit is not None  # type: ignore[union-attr]
    filled = hb.impute(frame, rounds=0, random_state=0)
    assert type(filled) is type(frame)
    before, after = table.raw("end"), hb.Table(filled).raw("end")
    holes = table.cells("end").missing
    assert holes.any()
    assert before[~holes].tolist() == after[~holes].tolist()
    assert all(type(value) is type(before[~holes][0]) for value in after[holes])
    if isinstance(frame, pd.DataFrame):
        assert (filled.dtypes == frame.dtypes).all()
    if isinstance(frame, pl.DataFrame | pa.Table):
        assert filled.schema == frame.schema
    # a table of days has only days imputed, in the local time of their zone
    if name != "numpy":
        assert all(getattr(value, "second", 0) == 0 and getattr(value, "microsecond", 0) == 0 for value in after)
    if "zone" in name and name != "pyarrow zone":
        assert all(value.hour == 0 for value in after)


def test_discrete_dates_are_states() -> None:
    day = datetime.date(2024, 1, 31)
    assert hb.Table({"d": [day, None]}, discrete="d").variable("d").states == (day,)  # type: ignore[union-attr]
    texts = hb.Table({"d": ["31.01.2024", None]}, discrete="d")
    assert texts.variable("d").states == ("31.01.2024",)  # type: ignore[union-attr]
    frame = make_frame().assign(
        end=lambda f: f["end"].dt.month.map(lambda m: pd.Timestamp(2023, 1 + int(m or 1) % 3, 1), na_action="ignore")
    )
    filled = hb.impute(frame, discrete="end", random_state=0)
    assert filled["end"].dtype == frame["end"].dtype
    assert filled["end"].isin(frame["end"].dropna()).all()


# -- evidence and files ----------------------------------------------------------------------------------------------


def test_dates_are_evidence_in_many_forms(tmp_path: Path) -> None:
    frame = make_frame().dropna()
    network = hb.fit([("start", "end")], frame, potentials="gaussian")
    network.save(tmp_path / "m.hbn")
    loaded = as_kind(hb.Network, hb.load(tmp_path / "m.hbn"))
    assert loaded.variable("end") == network.variable("end")
    forms = ["2023-05-01", datetime.date(2023, 5, 1), pd.Timestamp("2023-05-01"), np.datetime64("2023-05-01"), 19478.0]
    forms.append("2023-05-01 00:00:00")
    means = [loaded.posterior("end", {"start": form}).mean() for form in forms]
    assert len(set(means)) == 1
    assert np.datetime64("2023-05-02") < means[0] < np.datetime64("2023-05-20")
    batch = loaded.posterior("end", pd.DataFrame({"start": ["01 May 2023", None]}))
    assert batch.mean()[0] == means[0]
    assert batch.mean().dtype.kind == "M"
    near = loaded.posterior("end", {"start": hb.Interval("2023-05-01", datetime.date(2023, 5, 3))})
    assert means[0] < near.mean() < means[0] + 2
    assert loaded.sample(3, random_state=0)["end"].dtype.kind == "M"
    with pytest.raises(hb.TableError, match="'start': 'soon' is not a point in time"):
        loaded.posterior("end", {"start": "soon"})
    with pytest.raises(hb.TableError, match=r"'start'.*is not a datetime"):
        loaded.posterior("end", {"start": datetime.timedelta(3)})
    with pytest.raises(hb.TableError, match="column 'start' holds a duration, but 'start' is a datetime"):
        loaded.posterior("end", pd.DataFrame({"start": pd.to_timedelta([1], unit="D")}))


def test_dates_are_evidence_on_discretized_dates() -> None:
    frame = make_frame().dropna().assign(late=lambda f: np.where(f["start"] > pd.Timestamp("2023-06-01"), "y", "n"))
    network = hb.structures.naive_bayes(frame[["start", "late"]], "late", {"start": "multinomial"})
    (cut,) = known(as_discrete(network.variable("start")).cuts)
    assert 19480 < cut < 19520
    for day, state in ((datetime.date(2023, 3, 1), "n"), (pd.Timestamp("2023-09-01"), "y")):
        assert network.posterior("late", {"start": day}).mode() == state
        assert network.posterior("late", pd.DataFrame({"start": [day.strftime("%Y-%m-%d")]})).mode().tolist() == [state]


def test_a_model_of_dates_imputes_rows_in_another_pattern(tmp_path: Path) -> None:
    frame = make_frame()
    made = hb.impute(frame, details=True, random_state=0)
    assert made.network is not None
    made.network.save(tmp_path / "m.hbn")
    other = frame.assign(end=frame["end"].dt.strftime("%d/%m/%Y"))
    filled = hb.impute(other, network=as_kind(hb.Network, hb.load(tmp_path / "m.hbn")), random_state=0)["end"]
    holes = frame["end"].isna()
    assert filled[~holes].tolist() == other["end"][~holes].tolist()
    drawn = pd.to_datetime(filled[holes], format="%d/%m/%Y") - frame["start"][holes]
    assert drawn.dt.days.between(-20, 40).all()
    assert filled.notna().all()


def test_bounds_may_be_dates() -> None:
    frame = make_frame().assign(end=lambda f: f["end"].dt.strftime("%d/%m/%Y"))
    filled = hb.impute(frame, bounds={"end": ("01/05/2023", datetime.date(2023, 6, 30))}, rounds=0, random_state=0)
    drawn = pd.to_datetime(filled["end"][frame["end"].isna()], format="%d/%m/%Y")
    assert drawn.between("2023-05-01", "2023-06-30").all()


KINDS = {
    "day": lambda t: t.strftime("%Y-%m-%d"),
    "us": lambda t: t.strftime("%m/%d/%Y"),
    "moment": lambda t: t.strftime("%d.%m.%Y %H:%M"),
    "clock": lambda t: t.strftime("%H:%M:%S"),
    "span": lambda t: f"{t.day + 30}:{t.minute:02d}",
}


@pytest.mark.parametrize("suffix", ["csv", "tsv", "arff", "jsonl", "parquet", "feather"])
def test_files_keep_patterns(suffix: str, tmp_path: Path) -> None:
    stamps = pd.Timestamp("2023-01-05 03:04:05") + pd.to_timedelta(np.arange(60) * 100_003, unit="s")
    frame = pd.DataFrame({name: [make(t) for t in stamps] for name, make in KINDS.items()}).astype(object)
    frame.iloc[::7, :] = None
    table = hb.Table(frame.assign(x=np.arange(60.0)))
    assert not any(table.is_discrete(name) for name in table.names)
    path = tmp_path / f"t.{suffix}"
    table.write(path)
    read = hb.read_table(path)
    assert read.equals(table)
    assert [read.raw(name).tolist() for name in KINDS] == [table.raw(name).tolist() for name in KINDS]


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_columnar_files_keep_types(suffix: str, tmp_path: Path) -> None:
    stamps = pd.Series(pd.Timestamp("2023-01-05 03:04:05.123456789") + pd.to_timedelta(np.arange(20), unit="h"))
    made = {"ns": stamps, "zone": stamps.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"), "span": stamps - stamps[0]}
    frame = pd.DataFrame(made | {"day": stamps.dt.date, "time": stamps.dt.time})
    hb.Table(frame).write(tmp_path / f"t.{suffix}")
    arrow = hb.read_table(tmp_path / f"t.{suffix}").to_arrow()
    assert arrow.equals(pa.Table.from_pandas(frame).cast(arrow.schema).replace_schema_metadata(arrow.schema.metadata))


@pytest.mark.parametrize("unit", ["D", "h", "s", "us", "ns"])
def test_arrays_are_written_as_dates(unit: str, tmp_path: Path) -> None:
    days = np.array(["2024-01-31", "NaT", "2024-02-01"], dtype=f"M8[{unit}]")
    table = hb.Table({"d": days, "x": [1, 2, 3]})
    table.write(tmp_path / "t.csv")
    assert hb.read_table(tmp_path / "t.csv").raw("d")[0][:10] == "2024-01-31"
    assert hb.read_table(tmp_path / "t.csv").equals(table)


def test_text_of_dates_with_one_other_cell_stays_text() -> None:
    table = hb.Table({"d": ["2024-01-31", "2024-02-01", "soon"]})
    assert table.is_discrete("d")


@pytest.mark.parametrize("wrong", [{"zone": 5}, {"pattern": 5}, {"zone": "UTC", "pattern": 5}, {"pattern": "none"}])
def test_zones_and_patterns_are_texts(wrong) -> None:
    with pytest.raises(ValueError, match=r"zone and pattern are texts, not 5|pattern holds directives"):
        Unit("datetime", 1, **wrong)
