"""Tables: types of columns, codes against variables, and the ways in and out of frames."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Variable


def mixed() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "x": [1.5, np.nan, -0.0],
            "i": [3, 1, 2],
            "n": pd.array([1, None, 2], dtype="Int64"),
            "c": pd.Categorical(["b", "a", None], categories=["b", "a", "z"], ordered=True),
            "b": pd.array([True, None, False], dtype="boolean"),
            "t": [True, False, True],
            "s": ["u", None, "w"],
            "o": pd.Series(["u", None, "w"], dtype=object).to_numpy(),
        },
        index=[7, 5, 9],
    )


class TestTypes:
    def test_text_category_and_bool_are_discrete_and_numbers_continuous(self) -> None:
        table = Table(mixed())
        assert [name for name in table.names if table.is_discrete(name)] == ["c", "b", "t", "s", "o"]
        assert table.variable("c") == Discrete("c", states=("b", "a", "z"))
        assert table.variable("b").states == (False, True)  # type: ignore[union-attr]
        assert table.variable("x") == Continuous("x")
        np.testing.assert_array_equal(table["x"], [1.5, np.nan, 0.0])
        assert np.signbit(table["x"][2])
        assert table["c"].tolist() == [0, 1, -1]
        assert table["b"].tolist() == [1, -1, 0]
        assert table.missing == {"x": 1, "i": 0, "n": 1, "c": 1, "b": 1, "t": 0, "s": 1, "o": 1}

    def test_few_distinct_numbers_stay_continuous_until_declared(self) -> None:
        frame = {"k": [0, 1, 0, 1]}
        assert not Table(frame).is_discrete("k")
        assert Table(frame, discrete="k").variable("k") == Discrete("k", states=(0, 1))
        assert not Table(Table(frame, discrete="k"), continuous="k").is_discrete("k")

    @pytest.mark.parametrize(
        "values",
        [
            [0.0, 1.0, np.nan, 2.0],
            pd.array([0, 1, None, 2], dtype="Int64"),
            pd.Series([0, 1, None, 2], dtype=object),
            pd.Categorical([0.0, 1.0, np.nan, 2.0]),
            [Decimal(0), Decimal(1), None, Decimal(2)],
            pl.Series([0, 1, None, 2]),
            pa.array([0, 1, None, 2], pa.int8()),
            pa.array([0.0, 1.0, None, 2.0]),
            np.ma.MaskedArray([0, 1, 9, 2], mask=[False, False, True, False]),
        ],
    )
    def test_coded_integers_have_integer_states(self, values: Any) -> None:
        table = Table({"k": values}, discrete=["k"])
        assert table.variable("k").states == (0, 1, 2)  # type: ignore[union-attr]
        assert {type(state) for state in table.variable("k").states} == {int}  # type: ignore[union-attr]
        assert table["k"].tolist() == [0, 1, -1, 2]

    def test_fractions_declared_discrete_stay_floats(self) -> None:
        assert Table({"k": [0.5, 1.0, 0.5]}, discrete=["k"]).variable("k").states == (0.5, 1.0)  # type: ignore[union-attr]

    @pytest.mark.parametrize(
        "values",
        [
            pd.array([1, 2, None], dtype="Int64"),
            pd.array([1, 2, None], dtype="Float64"),
            pd.array([1, 2, None], dtype="float32"),
            pd.arrays.SparseArray([1.0, 2.0, np.nan]),
            pd.array([1, 2, None], dtype=pd.ArrowDtype(pa.int32())),
            [Decimal("1"), Decimal("2"), Decimal("NaN")],
            [1, 2.0, None],
            pl.Series([1, 2, None], dtype=pl.UInt8),
            pl.Series([Decimal(1), Decimal(2), None]),
            pa.chunked_array([[1.0], [2.0, None]]),
            pa.array([Decimal(1), Decimal(2), None]),
        ],
    )
    def test_numbers_of_any_type_are_floats(self, values: Any) -> None:
        np.testing.assert_array_equal(Table({"x": values})["x"], [1.0, 2.0, np.nan])

    @pytest.mark.parametrize(
        "values",
        [
            pd.array(["b", "a", None], dtype="string"),
            pd.Series(["b", "a", None]).array,
            pd.array(["b", "a", None], dtype=pd.ArrowDtype(pa.string())),
            np.array(["b", "a", None], dtype=object),
            pl.Series(["b", "a", None]),
            pl.Series(["b", "a", None], dtype=pl.Categorical),
            pa.array(["b", "a", None]),
            pa.array(["b", "a", None], pa.large_string()),
            pa.array(["b", "a", None], pa.string_view()),
            pa.chunked_array([["b"], ["a", None]]),
            pa.chunked_array([pa.array(["b"]).dictionary_encode(), pa.array(["a", None]).dictionary_encode()]).cast(
                pa.string()
            ),
        ],
    )
    def test_text_of_any_type_has_sorted_states(self, values: Any) -> None:
        table = Table({"c": values})
        assert table.variable("c") == Discrete("c", states=("a", "b"))
        assert table["c"].tolist() == [1, 0, -1]

    @pytest.mark.parametrize(
        "values",
        [
            pd.Categorical(["b", None, "b"], categories=["z", "b"]),
            pl.Series(["b", None, "b"], dtype=pl.Enum(["z", "b"])),
            pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array(["z", "b"])),
        ],
    )
    def test_declared_levels_keep_their_order_and_unused_ones(self, values: Any) -> None:
        table = Table({"c": values})
        assert table.variable("c") == Discrete("c", states=("z", "b"))
        assert table["c"].tolist() == [1, -1, 1]

    def test_dictionaries_of_several_chunks_are_merged(self) -> None:
        chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", None, "a"]).dictionary_encode()]
        table = Table(pa.table({"c": pa.chunked_array(chunks)}))
        assert table.to_dict()["c"].tolist() == ["b", "a", "c", None, "a"]

    def test_marker_words_are_ordinary_states_in_frames(self) -> None:
        assert Table({"c": ["NA", "nan", "", "None"]}).variable("c").states == ("", "NA", "None", "nan")  # type: ignore[union-attr]

    def test_huge_cardinality_is_accepted_and_reported_on_request(self) -> None:
        table = Table({"c": [f"s{i}" for i in range(50_000)]})
        assert len(table.variable("c")) == 50_000  # type: ignore[arg-type]
        with pytest.raises(TableError, match="'c' has 50000 states in 50000 rows and looks like an identifier"):
            table.require_few_states(1000)

    def test_repr_shows_the_decision(self) -> None:
        lines = repr(Table(mixed(), discrete=["n"])).splitlines()
        assert lines[0] == "Table: 3 rows, 8 columns"
        assert lines[1].split() == ["x", "continuous", "1", "missing"]
        assert lines[3].split() == ["n", "discrete", "2", "states", "1", "missing", "1,", "2"]

    def test_intervals_of_a_cut_are_states(self) -> None:
        table = Table({"c": pd.cut([1.0, 2.0, np.nan], [0, 1.5, 3])})
        assert [str(state) for state in table.variable("c").states] == ["(0.0, 1.5]", "(1.5, 3.0]"]  # type: ignore[union-attr]


class TestVariables:
    def test_columns_are_read_against_given_variables(self) -> None:
        variables: list[Variable] = [Discrete("c", ("b", "a")), Continuous("x"), Discrete("absent", states=(1, 2))]
        table = Table({"x": [1, None], "c": ["a", "b"], "other": [1j, 2j]}, variables=variables)
        assert table.names == ("c", "x")
        assert table["c"].tolist() == [1, 0]
        np.testing.assert_array_equal(table["x"], [1, np.nan])

    def test_only_columns_asked_for_are_read(self) -> None:
        table = Table({"x": ["text"], "c": ["a"]}, variables=[Continuous("x"), Discrete("c", states=("a",))])
        assert table["c"].tolist() == [0]
        assert "not read" in repr(table)
        with pytest.raises(TableError, match="'x', row 0: 'text' is not a number"):
            table.column("x")
        assert table.raw("x").tolist() == ["text"]

    def test_an_unknown_state_names_column_row_value_and_states(self) -> None:
        variable = Discrete("c", states=("a", "b"))
        with pytest.raises(
            TableError, match=r"column 'c', row 2: 'z' is not a state; the known states are 'a', 'b' \(2 cells"
        ):
            Table({"c": ["a", None, "z", "z"]}, variables=[variable]).column("c")
        assert Table({"c": ["a", "z"]}, variables=[variable], unknown="missing")["c"].tolist() == [0, -1]
        assert Table({"c": ["a", "z"]}).coded(variable, unknown="missing").tolist() == [0, -1]
        with pytest.raises(TableError, match="known states"):
            Table({"c": ["a", "z"]}).coded(variable)

    def test_an_unused_level_need_not_be_known(self) -> None:
        table = Table({"c": pd.Categorical(["a"], categories=["a", "z"])})
        assert table.coded(Discrete("c", states=("b", "a"))).tolist() == [1]

    def test_types_of_states_must_match(self) -> None:
        number, text, truth = (Discrete("c", states=states) for states in ((0, 1), ("0", "1"), (False, True)))
        assert Table({"c": [1.0, 0.0]}).coded(number).tolist() == [1, 0]
        for data, variable in (([0, 1], text), (["0", "1"], number), ([True, False], number), ([0, 1], truth)):
            with pytest.raises(TableError, match="the states are of type"):
                Table({"c": data}).coded(variable)

    def test_discretized_numbers_take_numbers_and_states(self) -> None:
        variable = Discrete("d", states=("low", "high"), cuts=(1.5,))
        assert Table({"d": [0.0, 1.5, None]}).coded(variable).tolist() == [0, 1, -1]
        assert Table({"d": ["high", "low"]}, variables=[variable])["d"].tolist() == [1, 0]

    def test_states_of_several_types_and_domains(self) -> None:
        variable = Discrete("c", states=("a", 1))
        assert Table({"c": [1, "a", None]}, variables=[variable])["c"].tolist() == [1, 0, -1]
        with pytest.raises(TableError, match=r"'x', row 1: 2.0 lies outside the domain \[0.0, 1.0\]"):
            Table({"x": [0.0, 2.0]}).coded(Continuous("x", domain=(0, 1)))

    def test_exact_integers_beyond_doubles(self) -> None:
        variable = Discrete("k", states=(2**53, 2**53 + 1))
        assert Table({"k": np.array([2**53 + 1, 2**53])}, variables=[variable])["k"].tolist() == [1, 0]

    def test_all_missing_and_empty_evidence(self) -> None:
        variables: list[Variable] = [Continuous("x"), Discrete("c", states=("a",))]
        table = Table(pd.DataFrame({"x": [None], "c": [None]}, dtype=object), variables=variables)
        assert np.isnan(table["x"]).all()
        assert table["c"].tolist() == [-1]
        assert len(Table(pd.DataFrame({"c": []}), variables=variables)) == 0


class TestSelections:
    def test_rows_and_columns(self) -> None:
        table = Table(mixed(), weights=[1, 2, 3])
        assert table[["s", "x"]].names == ("s", "x")
        assert table.drop("x").names == table.names[1:]
        part = table[1:]
        assert part.variables == table.variables
        assert part.weights.tolist() == [2, 3]
        pd.testing.assert_frame_equal(part.to_pandas(), mixed().iloc[1:])
        pd.testing.assert_frame_equal(part[[1, 0]].to_pandas(), mixed().iloc[[2, 1]])
        assert len(table[np.array([True, False, True])]) == 2
        assert len(table[[]]) == 0

    def test_arrays_are_read_only_and_the_input_can_change_afterwards(self) -> None:
        source = np.array([1.0, 2.0])
        frame = pd.DataFrame({"x": [1.0, 2.0]})
        for data in ({"x": source}, frame, Table({"x": source})):
            table = Table(data)
            with pytest.raises(ValueError, match="read-only"):
                table["x"][0] = 9
        tables = Table({"x": source}), Table(frame)
        source[0] = 9
        frame.loc[0, "x"] = 9
        for table in tables:
            assert table["x"].tolist() == [1.0, 2.0]
            assert table.to_dict()["x"].tolist() == [1.0, 2.0]

    def test_replaced_columns_keep_variable_and_dtype(self) -> None:
        table = Table(mixed(), discrete=["n"])
        frame = (
            table.with_column("n", [1, 2, 2])
            .with_column("c", ["a", "a", "b"])
            .with_column("b", [True, True, False])
            .with_array("s", np.array([0, 1, 1]))
            .with_array("x", np.array([1.0, 2.0, 3.0]))
            .to_pandas()
        )
        assert frame.dtypes.equals(mixed().dtypes)
        assert frame.to_dict("list")["n"] == [1, 2, 2]
        assert list(frame["s"]) == ["u", "w", "w"]
        assert list(frame.index) == [7, 5, 9]
        assert list(table.with_column("new", ["p", "q", "p"]).to_pandas()["new"]) == ["p", "q", "p"]

    def test_fractions_are_never_cut_off_for_a_dtype(self) -> None:
        table = Table({"i": np.array([1, 2])}).with_array("i", np.array([0.5, 2.0]))
        assert table.to_pandas()["i"].tolist() == [0.5, 2.0]
        frame = Table(pl.DataFrame({"i": [1, 2]})).with_array("i", np.array([0.5, 2.0])).to_polars()
        assert frame["i"].to_list() == [0.5, 2.0]

    def test_copies_and_pickles(self) -> None:
        table = Table(mixed(), weights=[1, 2, 3])
        table.keep(mixed, threading.Lock)  # what is kept of rows may be anything, and stays with them
        for other in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
            assert other.equals(table)
            assert other.keep(mixed, lambda: "made again") == "made again"
        assert not table.equals(table.with_weights(None))


class TestWaysOut:
    @pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
    def test_a_frame_goes_out_as_it_came_in(self, kind: str) -> None:
        frame = mixed()
        if kind == "pandas":
            pd.testing.assert_frame_equal(Table(frame).to_native(), frame)
        elif kind == "polars":
            table = pl.DataFrame(
                {"x": [1.5, None], "c": pl.Series(["a", None], dtype=pl.Enum(["b", "a"])), "i": [2, None]}
            )
            assert Table(table).to_native().equals(table, null_equal=True)
            assert Table(table).to_native().schema == table.schema
        else:
            arrow = pa.Table.from_pandas(frame)
            assert Table(arrow).to_native().equals(arrow, check_metadata=True)

    def test_records_mappings_and_structured_arrays(self) -> None:
        records = [{"x": 1.5, "c": "a"}, {"x": None, "c": "b"}]
        assert Table(records).to_native()[0] == records[0]
        array = np.array([(1, 2.5, "a"), (2, 3.5, "b")], dtype=[("i", "i4"), ("x", "f8"), ("c", "U1")])
        back = Table(array).to_native()
        assert back.dtype == array.dtype
        assert (back == array).all()
        given = {"x": np.array([1.0]), "c": ["a"]}
        assert {name: list(values) for name, values in Table(given).to_native().items()} == {"x": [1.0], "c": ["a"]}

    def test_large_integers_survive_between_frames(self) -> None:
        frame = pd.DataFrame({"i": pd.array([2**53 + 1, None], dtype="Int64")})
        assert Table(frame).to_polars()["i"].to_list() == [2**53 + 1, None]
        assert Table(frame).to_arrow()["i"].to_pylist() == [2**53 + 1, None]

    def test_column_index_name_and_float32(self) -> None:
        frame = pd.DataFrame({"x": np.array([1, 2], dtype="float32")}).rename_axis(columns="q").rename_axis(index="r")
        pd.testing.assert_frame_equal(Table(frame).to_native(), frame)

    @given(
        st.lists(
            st.tuples(
                st.none() | st.floats(allow_nan=False, allow_infinity=False),
                st.none() | st.integers(-(2**63), 2**63 - 1),
                st.none() | st.sampled_from(["a", "b", "", "NA", "1", "\u00e9"]),
                st.none() | st.booleans(),
                st.none() | st.integers(-3, 3),
            ),
            min_size=1,
            max_size=12,
        )
    )
    @settings(max_examples=examples(40), deadline=None)
    def test_every_kind_of_frame_holds_every_table(self, rows: list[tuple[Any, ...]]) -> None:
        x, i, c, b, k = (list(column) for column in zip(*rows, strict=True))
        frame = pd.DataFrame(
            {
                "x": pd.array(x, dtype="Float64"),
                "i": pd.array(i, dtype="Int64"),
                "c": pd.Categorical(c, categories=["b", "a", "", "NA", "1", "\u00e9", "unused"]),
                "b": pd.array(b, dtype="boolean"),
                "k": pd.array(k, dtype="Int64"),
            }
        )
        if all(value is None for value in k):
            frame["k"] = pd.array([1] * len(k), dtype="Int64")
        before = frame.copy(deep=True)
        table = Table(frame, discrete=["k"])
        pd.testing.assert_frame_equal(table.to_native(), frame)
        for other in (table.to_polars(), table.to_arrow(), Table(table.to_arrow()).to_pandas()):
            again = Table(other, discrete=["k"])
            assert again.equals(table)
            assert again.raw("i").tolist() == table.raw("i").tolist()
        pd.testing.assert_frame_equal(frame, before)


class TestWeights:
    def test_weights(self) -> None:
        table = Table({"x": [1.0, 2.0]})
        assert table.weights.tolist() == [1.0, 1.0]
        assert not table.weighted
        weighted = table.with_weights(pd.Series([0, 2], index=[5, 4]))
        assert weighted.weights.tolist() == [0.0, 2.0]
        assert weighted.weighted
        with pytest.raises(ValueError, match="read-only"):
            weighted.weights[0] = 3
        assert Table(weighted).weights.tolist() == [0.0, 2.0]


def test_no_frame_library_is_imported_for_plain_data() -> None:
    code = (
        "import sys, hybridbn.tables; print([m for m in ('polars', 'pyarrow', 'pandas', 'sklearn') if m in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@settings(max_examples=examples(60), deadline=None)
@given(
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 300), min_size=1, max_size=30),
    kind=st.sampled_from(["i1", "u1", "i8", "u8"]),
)
def test_integers_as_states_are_the_distinct_ones_in_order(numbers: list[int], kind: str) -> None:
    values = np.array(numbers, dtype=np.int64).astype(kind)
    table = Table({"d": values}, discrete=["d"])
    assert as_discrete(table.variable("d")).states == tuple(sorted(set(values.tolist())))
    assert list(table.raw("d")) == values.tolist()
    assert all(type(state) is int for state in as_discrete(table.variable("d")).states)


def test_other_cells_leave_the_variable_as_it_was_declared():
    x, c = hb.Continuous("x", (0, 5)), hb.Discrete("c", ("b", "a", "never"))
    table = hb.Table({"x": [1.0, None], "c": ["a", None]}, variables=[x, c])
    rows = np.array([False, True])
    filled = table.fill({"x": (rows, np.array([2.0])), "c": (rows, np.array(["b"]))})
    others = table.with_array("x", np.array([3.0, 4.0])).with_array("c", np.array([0, 1]))
    for each in (filled, others, filled.take([1]), others.with_weights([1, 2])):
        assert (each.variable("x"), each.variable("c")) == (x, c)
    assert filled.to_dict()["c"].tolist() == ["a", "b"]
    with pytest.raises(hb.TableError, match="'x'"):
        table.with_array("x", np.array([3.0, 6.0]))
    with pytest.raises(hb.TableError, match="'x'"):
        table.fill({"x": (rows, np.array([-1.0]))})


def test_tables_are_equal_if_all_that_they_hold_is():
    def make(**changed):
        given = {"x": [1.0, None, 3.0], "c": ["a", "b", None], "weights": [1, 2, 1], "states": ("a", "b"), **changed}
        columns = {name: given[name] for name in ("x", "c")}
        kept = [hb.Discrete("c", given["states"])] if given["states"] else [hb.Continuous("c")]
        return hb.Table(columns, variables=[hb.Continuous("x"), *kept], weights=given["weights"])

    table = make()
    assert table.equals(make())
    assert table.equals(hb.Table(make().to_pandas(), variables=table.variables, weights=[1, 2, 1]))
    for changed in (
        *({"x": [1.0, None, 4.0]}, {"x": [1.0, 2.0, 3.0]}, {"c": ["a", "a", None]}, {"c": ["a", "b", "b"]}),
        *({"weights": [1, 2, 2]}, {"states": ("b", "a")}, {"states": ("a", "b", "e")}),
        {"c": [1, 0, None], "states": (0, 1)},
    ):
        assert not table.equals(make(**changed))
        assert not make(**changed).equals(table)
    assert not make(c=[0, 1, None], states=(0, 1)).equals(make(c=[False, True, None], states=(False, True)))
    assert not table.equals(table[:2])
    assert not table.equals(table.select(["c", "x"]))
    assert not table.equals(table.drop("x"))


def test_columns_are_read_as_other_variables():
    table = hb.Table({"x": [1.0, 2.0], "c": ["a", "b"], "d": ["p", "q"]}, weights=[1, 2])
    read = table.with_variables([hb.Discrete("c", ("b", "a")), hb.Continuous("x", (0, 9)), hb.Discrete("gone", (0, 1))])
    assert read.names == ("c", "x")
    assert read.column("c").tolist() == [1, 0]
    assert read.weights.tolist() == [1, 2]
    with pytest.raises(hb.TableError, match=r"'c'.*'a'"):
        table.with_variables([hb.Discrete("c", ("b", "e"))]).column("c")
    missing = table.with_variables([hb.Discrete("c", ("b", "e"))], unknown="missing")
    assert (missing.names, missing.column("c").tolist()) == (("c",), [-1, 0])


@pytest.mark.parametrize("ordered", [True, False])
def test_categories_are_ordered_in_other_libraries_if_they_were(ordered):
    column = pd.Categorical(["b", "a", None], ["b", "a", "z"], ordered=ordered)
    arrow = Table({"c": column}).to_arrow()["c"]
    assert arrow.type.ordered == ordered
    assert arrow.to_pylist() == ["b", "a", None]
    back = Table(pa.table({"c": arrow})).to_pandas()["c"]
    assert back.dtype.ordered == ordered
    assert back.dtype.categories.tolist() == ["b", "a", "z"]
    assert Table({"c": column}).to_polars()["c"].to_list() == ["b", "a", None]


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        pd.Series,
        lambda values: pd.Series(values, dtype="boolean"),
        lambda values: pd.Series(pd.Categorical(values, categories=[False, True])),
        pl.Series,
        pa.array,
    ],
)
def test_truth_values_have_both_states_whichever_occur(make, value):
    assert as_discrete(Table({"b": make([value, value])}).variable("b")).states == (False, True)


@pytest.mark.parametrize("missing", [0, 5, 12])
def test_identifiers_are_found_beside_missing_cells(missing):
    table = Table(
        {"id": [f"p{row * 7919}" for row in range(20)] + [None] * missing, "x": np.arange(20.0 + missing) % 3}
    )
    assert table.reason_alone("id") == "a different value in each row"


def test_filled_columns_keep_their_variable_and_get_new_states():
    table = Table({"c": ["u", None, "v"], "x": [1.0, None, 3.0]}, variables=[Discrete("c", ("v", "u"))])
    filled = table.fill({"c": (np.array([False, True, False]), np.array(["u"], dtype=object))})
    assert filled.variable("c") is table.variable("c")
    assert list(filled.raw("c")) == ["u", "u", "v"]
    wider = table.fill({"c": (np.array([False, True, False]), np.array(["w"], dtype=object))})
    assert as_discrete(wider.variable("c")).states == ("v", "u", "w")
