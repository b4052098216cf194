"""Amounts in text: money, shares, masses and other measures are numbers that are written back in their own text."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from narrowing import as_continuous, as_discrete, as_kind, known

import hybridbn as hb
from hybridbn.formatting import choose_ticks, format_value
from hybridbn.unit_texts import PatternFinder, make_amount, read_unit

KINDS = {
    "$#,##0.00": "currency",
    "$-#,##0.00": "currency",
    "US$ 0": "currency",
    "USD #,##0.00": "currency",
    "CHF #'##0.00": "currency",
    "#.##0,00 €": "currency",
    "$#,##0.00;($#,##0.00)": "currency",
    "US$ #,##0;US$ (#,##0)": "currency",
    "#.##0,00 €;(#.##0,00 €)": "currency",
    "₹#,##,##0.00": "currency",
    "Rs. #,##,##0;(Rs. #,##,##0)": "currency",
    "#,##,##0.00": "number",
    "#,##0.00": "number",
    "#,##0.00;(#,##0.00)": "number",
    "0.0;(0.0)": "number",
    "#,##0.0 t;(#,##0.0) t": "mass",
    "# ##0,00 €": "currency",
    "#\u202f##0,0#\u00a0EUR": "currency",
    "0,0 %": "percent",
    "0.0#%": "percent",
    "0.0 kg": "mass",
    "0 mg": "mass",
    "#,##0 km": "length",
    "0.## m²": "area",
    "0 °C": "temperature",
    "0.0 mmol/l": "amount",
    "0,00 €/kg": "amount",
    "0 Stück": "amount",
}
ALL = sorted(KINDS)


@pytest.mark.parametrize("pattern", ALL)
def test_texts_of_a_pattern_are_recognized_and_written_again(pattern: str) -> None:
    unit = make_amount(pattern)
    rng = np.random.default_rng(len(pattern))
    numbers = [*unit.round(rng.normal(0, 4000, 80)).tolist(), 0.0, -1.0, 0.5, 1234567.0]
    texts = [unit.text(number) for number in numbers]
    finder = PatternFinder()
    assert all(finder.add(texts[start : start + 20]) for start in range(0, len(texts), 20))
    assert (finder.pattern, finder.ambiguous) == (pattern, False)
    found = known(finder.unit)
    assert found.kind == KINDS[pattern]
    assert [found.text(found.number(text)) for text in texts] == texts
    assert [found.parse(text) for text in texts] == found.round(numbers).tolist()
    assert read_unit(found.to_dict()) == found
    assert not re.search(r"\d", found.name.replace("²", ""))


@pytest.mark.parametrize(
    "texts",
    [
        ["A12", "A13"],
        ["12A", "14A"],
        ["5'11\"", "6'0\""],
        ["007 kg", "010 kg"],
        ["Group 1", "Group 2"],
        ["12 Main Street", "7 Main Street"],
        ["1st", "2nd"],
        ["25-34 kg", "35-44 kg"],
        ["<5 mg", "6 mg"],
        ["5 %", "n/a"],
        ["5 %", "6"],
        ["120/80 mmHg", "115/75 mmHg"],
        ["1,5 kg", "2.5 kg"],
        ["12,34,56 kg", "1 kg"],
        ["--5 kg", "5 kg"],
        ["$5 USD", "$6 USD"],
        ["1.5", "2.5"],
        ["1,234", "2,345"],
        ["(a)", "(b)"],
        ["(1)", "(2)"],
        ["(5 kg", "6 kg"],
        ["-(5)", "(6)"],
        ["1,2,3", "2"],
    ],
)
def test_other_texts_stay_states(texts: list[str]) -> None:
    finder = PatternFinder()
    assert not (finder.add(texts) and finder.pattern)
    assert not PatternFinder().add(texts[::-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = hb.Table({"c": texts * 2})
    assert as_discrete(table.variable("c")).states == tuple(sorted(texts))


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["5 kg", "300 g"], "column 'c' holds amounts of mass in 'g' and 'kg', so its cells are states"),
        (["$5", "7 €"], "of currency in .*'[$]' and '€'"),
        (["1,5 kg", "2.5 kg"], "of mass in 'kg' with different signs before decimals"),
    ],
)
def test_mixed_units_are_told_and_stay_states(texts: list[str], words: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"c": texts * 3, "x": np.arange(6.0)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    for source in (frame, tmp_path / "t.csv"):
        with pytest.warns(UserWarning, match=words):
            table = hb.Table(source) if isinstance(source, pd.DataFrame) else hb.read_table(source)
        assert len(as_discrete(table.variable("c"))) == 2


@pytest.mark.parametrize(
    ("texts", "numbers", "told"),
    [
        (["1.234 kg", "2.345 kg"], [1.234, 2.345], True),
        (["1,234 kg", "2,345 kg"], [1234.0, 2345.0], True),
        (["1.234 kg", "12 kg"], [1234.0, 12.0], False),
        (["1.234 kg", "0.5 kg"], [1.234, 0.5], False),
        (["1.234 €", "2.345 €"], [1234.0, 2345.0], False),
        (["1,234,567 km", "1,234 km"], [1234567.0, 1234.0], False),
    ],
)
def test_decimals_and_thousands_are_told_apart(texts: list[str], numbers: list[float], told: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert hb.Table({"c": texts})["c"].tolist() == numbers
    assert [str(w.message).startswith("column 'c' holds amounts such as '1") for w in caught] == [True] * told


# -- doors ------------------------------------------------------------------------------------------------------------


def make_sales(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    weight = rng.gamma(4, 2, rows).round(1)
    price = (190 * weight + rng.gamma(3, 30, rows)).round(2)
    frame = pd.DataFrame(
        {
            "price": [make_amount("$#,##0.00").text(x) for x in price],
            "Gewinn": [make_amount("#.##0,00 €").text(x) for x in price * 0.9 - 700],
            "share": [f"{x:.1f}%" for x in rng.uniform(0, 30, rows)],
            "weight": [f"{x} kg" for x in weight],
            "code": [f"A{x}" for x in rng.integers(1, 4, rows)],
        }
    )
    masked = frame.mask(rng.random(frame.shape) < 0.1, None)
    for name, pattern in MORE.items():
        masked[name] = [make_amount(pattern).text(x) if row % 9 else None for row, x in enumerate(90 * price - 7e4)]
    return masked


MORE = {"profit": "$#,##0.00;($#,##0.00)", "rupees": "₹#,##,##0.00", "balance": "0.00;(0.00)"}
SALES = make_sales()
PATTERNS = {"price": "$#,##0.00", "Gewinn": "#.##0,00 €", "share": "0.0%", "weight": "0.0 kg", **MORE}


def write_and_read(suffix: str) -> Any:
    def pass_through(frame: pd.DataFrame, folder: Path) -> Any:
        hb.Table(frame).write(folder / f"t{suffix}")
        assert suffix != ".arff" or "date" not in (folder / "t.arff").read_text("utf-8").partition("@data")[0]
        return hb.read_table(folder / f"t{suffix}")

    return pass_through


DOORS: dict[str, Any] = {
    "pandas": lambda frame, folder: frame,
    "pandas strings": lambda frame, folder: frame.astype("string"),
    "polars": lambda frame, folder: pl.from_pandas(frame),
    "arrow": lambda frame, folder: pa.Table.from_pandas(frame, preserve_index=False),
    "dict": lambda frame, folder: frame.astype(object).where(frame.notna(), None).to_dict("list"),
    **{suffix: write_and_read(suffix) for suffix in (".csv", ".arff", ".parquet", ".jsonl")},
}


def to_pandas(filled: Any) -> pd.DataFrame:
    return filled.to_pandas() if hasattr(filled, "to_pandas") else pd.DataFrame(filled)


@pytest.mark.parametrize("door", DOORS)
def test_imputed_amounts_are_written_as_the_observed_ones(door: str, tmp_path: Path) -> None:
    given = DOORS[door](SALES, tmp_path)
    table = given if isinstance(given, hb.Table) else hb.Table(given)
    assert {name: known(as_continuous(table.variable(name)).unit).pattern for name in PATTERNS} == PATTERNS
    assert "currency, $#,##0.00; multiples of 0.01, " in repr(table)
    filled = to_pandas(hb.impute(given, rounds=0, random_state=0))
    for name, pattern in PATTERNS.items():
        unit, holes = make_amount(pattern), SALES[name].isna()
        assert filled[name][~holes].tolist() == SALES[name][~holes].tolist()
        for text in filled[name][holes]:
            assert unit.text(known(unit.parse(text))) == text


def test_scans_read_amounts_as_tables_do(tmp_path: Path) -> None:
    SALES.to_csv(tmp_path / "t.csv", index=False)
    SALES.to_parquet(tmp_path / "t.parquet")
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().register("sales", SALES).sql("select * from sales")
    table = hb.Table(SALES)
    network = hb.fit([("weight", "price")], table, potentials="gaussian")
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet", relation):
        scan = hb.scan(source)
        assert [scan.variable(name) for name in PATTERNS] == [table.variable(name) for name in PATTERNS]
        learned = hb.fit([("weight", "price")], scan, potentials="gaussian")
        assert learned.variable("price") == network.variable("price")
        means = learned.posterior("price", scan).mean()
        assert means == pytest.approx(network.posterior("price", table).mean(), rel=1e-9)


def test_models_know_amounts(tmp_path: Path) -> None:
    network = hb.fit([("weight", "price"), ("price", "Gewinn")], SALES.dropna(), potentials="gaussian")
    network.save(tmp_path / "m.hbn")
    loaded = as_kind(hb.Network, hb.load(tmp_path / "m.hbn"))
    assert loaded.variable("price").unit == network.variable("price").unit  # type: ignore[union-attr]
    means = {loaded.posterior("price", {"weight": value}).mean() for value in ("7.5 kg", "7,5 kg", "7.50kg", 7.5)}
    assert len(means) == 1
    low, high = network.posterior("price", {"weight": "7.5 kg"}).interval()
    assert low == round(low, 2) < next(iter(means)) < high == round(high, 2)
    assert network.posterior("price", {"Gewinn": hb.Interval("0,00 €", "1.000,00 €")}).mean() < 1600
    assert "mean $" in repr(network.posterior("price"))
    drawn = network.sample(50, random_state=0)
    for name in ("price", "Gewinn", "weight"):
        unit = known(as_continuous(network.variable(name)).unit)
        assert [unit.text(unit.number(text)) for text in drawn[name]] == drawn[name].tolist()
    for evidence, words in (({"weight": "7 lb"}, "'7 lb' is not a mass"), ({"weight": "a"}, "as in '0.0 kg'")):
        with pytest.raises(hb.TableError, match=words):
            network.posterior("price", evidence)
    with pytest.raises(hb.TableError, match="column 'weight' holds a currency, but 'weight' is a mass"):
        network.posterior("price", pd.DataFrame({"weight": ["$5"]}))
    filled = network.posterior("price", pd.DataFrame({"weight": ["7.5 kg", None]}))
    assert filled.mean()[0] == pytest.approx(next(iter(means)))


def test_states_that_look_like_amounts_keep_their_spelling() -> None:
    sizes = hb.Discrete("size", states=("1200 kg", "1.250 kg", "5kg"))
    network = hb.Network([hb.Multinomial(sizes, table=[0.2, 0.3, 0.5])])
    assert network.log_density(pd.DataFrame({"size": ["5kg", "1200 kg"]})).tolist() == np.log([0.5, 0.2]).tolist()
    table = hb.Table({"size": ["5kg", "1200 kg"]})
    assert network.log_density(table).tolist() == np.log([0.5, 0.2]).tolist()
    assert as_discrete(hb.Table({"size": ["5kg", "7kg"]}, discrete="size").variable("size")).states == ("5kg", "7kg")


def test_labels_of_pictures_tell_the_unit() -> None:
    dollars, percent = make_amount("$#,##0.00"), make_amount("0,0 %")
    assert format_value(1234.567, dollars) == "$1,234.57"
    assert [text for _, text in choose_ticks(0.0, 2000.0, 3, dollars)] == ["$0", "$1,000", "$2,000"]
    assert [text for _, text in choose_ticks(0.0, 20.0, 3, percent)] == ["0 %", "10 %", "20 %"]
