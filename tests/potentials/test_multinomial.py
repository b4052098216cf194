import numpy as np
import pytest

from hybridbn.errors import NetworkError, TableError
from hybridbn.potentials.base import all_states
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete

C = Discrete("c", ("a", "b"))
D = Discrete("d", (0, 1, 2))
X = Continuous("x")


def test_dimensions_are_the_parents_in_their_order_then_the_child():
    table = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, 4))
    potential = Multinomial(C, (D, Discrete("e", tuple("wxyz"))), table=table)
    assert potential.scope == ("d", "e", "c")
    assert potential(d=2, e="x", c="b") == table[2, 1, 1]
    np.testing.assert_array_equal(potential(d=[0, 1], e="w", c="a"), table[:2, 0, 0])


def test_the_whole_table_is_handed_out_without_copying():
    potential = Multinomial(C, (D,), table=np.full((3, 2), 0.5))
    values, scale = potential.on({"d": all_states(3), "c": all_states(2)})
    assert np.shares_memory(values, potential.table)
    assert not values.flags.writeable
    np.testing.assert_array_equal(values, potential.table)
    assert scale == 0
    values, _ = potential.on({"d": np.array([2, 0]), "c": np.arange(2)})
    np.testing.assert_array_equal(values, potential.table[[2, 0]])


@pytest.mark.parametrize("same", ["d", "e", "c"])
def test_a_state_that_all_rows_share_may_stand_once(same):
    table = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, 4))
    potential = Multinomial(C, (D, Discrete("e", tuple("wxyz"))), table=table)
    axes = {"d": np.array([[2, 0, 1]]), "e": np.array([[3, 3, 0]]), "c": np.array([[1, 0, 1]])}
    axes[same] = axes[same][:, :1]
    values, _ = potential.on(axes)
    np.testing.assert_array_equal(values, table[axes["d"][0], axes["e"][0], axes["c"][0]][None, None, None])


def test_the_users_array_is_neither_kept_nor_changed():
    table = np.array([[1.0, 3.0], [2.0, 2.0], [0.0, 5.0]])
    before = table.copy()
    potential = Multinomial(C, (D,), table=table, normalize=True)
    np.testing.assert_array_equal(table, before)
    table[:] = 9
    np.testing.assert_array_equal(potential.table, [[0.25, 0.75], [0.5, 0.5], [0, 1]])
    with pytest.raises(ValueError, match="read-only"):
        potential.table[0] = 1
    with pytest.raises(AttributeError):
        potential.table = table  # type: ignore[misc]


def test_rows_within_tolerance_are_kept_as_they_are():
    given = [0.3333333, 0.6666669]
    np.testing.assert_array_equal(Multinomial(C, table=given).table, given)
    assert Multinomial(C, table=given, normalize=True).table.sum() == 1


def test_weights_are_normalized_at_any_magnitude():
    for weights in ([1e308, 1e308], [5e-324, 5e-324], [3, 3]):
        np.testing.assert_array_equal(Multinomial(C, table=weights, normalize=True).table, [0.5, 0.5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Multinomial(C, (D,), table=[[1.0, 0.0], [0.6, 0.6], [0.0, 1.0]]),
            r"'c': .* at d=1 sum to 1\.2, not to 1.*normalize",
        ),
        (lambda: Multinomial(C, table=[1e308, 1e308]), "sum to inf, not to 1"),
        (
            lambda: Multinomial(C, (D,), table=[[1.0, 0.0], [1.5, -0.5], [0.0, 1.0]]),
            r"'c': .* at d=1, c='b' is -0\.5; .*negative",
        ),
        (
            lambda: Multinomial(C, (D,), table=[[1.0, 0.0], [1.0, np.nan], [0.0, 1.0]]),
            "'c': the table has nan at d=1, c='b'.*finite",
        ),
        (lambda: Multinomial(C, table=[np.inf, 0]), "'c': the table has inf at c='a'"),
        (
            lambda: Multinomial(C, (D,), table=np.eye(2)),
            r"shape \(3, 2\), that is 3 states of 'd', 2 states of 'c', not \(2, 2\)",
        ),
        (lambda: Multinomial(C, (D,), table=[[1, 0], [0, 1], [1, 1, 1]]), "numbers in a regular array"),
        (lambda: Multinomial(C, table=["0.5", "0.5"]), "numbers in a regular array"),
        (lambda: Multinomial(C, table=[0.5 + 1j, 0.5]), "numbers in a regular array"),
        (lambda: Multinomial(C, table=[None, 1.0]), "'c': the table has nan at c='a'|numbers in a regular array"),  # type: ignore[arg-type]
        (lambda: Multinomial(C, (D,), table=np.zeros((3, 2)), normalize=True), "weights at d=0 are all zero"),
        (lambda: Multinomial(C, (X,), table=[1, 0]), "'c': its parent 'x' is continuous; .*use Softmax, Kernel or MTE"),  # type: ignore[arg-type]
        (lambda: Multinomial(X, table=[1, 0]), "'x' is continuous; the child of a Multinomial is discrete"),  # type: ignore[arg-type]
        (lambda: Multinomial(C, (C,), table=np.eye(2)), "'c' occurs more than once"),
        (lambda: Multinomial(C, D, table=np.eye(2)), r"parents=\(d,\)"),  # type: ignore[arg-type]
        (lambda: Multinomial("c", table=[1]), "a child is a Discrete or Continuous variable, not 'c'"),  # type: ignore[arg-type]
        (lambda: Multinomial(C, ("d",), table=[1]), "expected a Discrete or Continuous variable, not 'd'"),  # type: ignore[arg-type]
    ],
)
def test_bad_tables_are_refused_with_the_place_and_the_remedy(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_a_table_for_too_many_parents_is_refused_before_anything_is_allocated():
    parents = [Discrete(f"p{i}", tuple(range(1000))) for i in range(6)]
    with pytest.raises(NetworkError, match=r"2,000,000,000,000,000,000 cells, .* GiB\), not \(1,\)"):
        Multinomial(C, parents, table=np.ones(1))


def test_unknown_states_and_missing_values_are_refused():
    potential = Multinomial(C, table=[0.5, 0.5])
    with pytest.raises(TableError, match="has no state 'z'"):
        potential(c="z")
    with pytest.raises(TableError, match="missing"):
        potential(c=None)
    with pytest.raises(TableError, match="give a value for each of 'c'"):
        potential(d=1)


def test_states_of_probability_zero_are_never_drawn():
    table = np.zeros((3, 100))
    table[0, 40] = table[1, 99] = table[2, 0] = 1
    many = Discrete("m", tuple(range(100)))
    potential = Multinomial(many, (D,), table=table)
    for uniform in (0.0, 5e-324, 0.5, np.nextafter(1, 0), 1.0):
        np.testing.assert_array_equal(potential.ppf(np.full(3, uniform), {"d": np.arange(3)}), [40, 99, 0])


def test_sampling_a_root_takes_a_size():
    drawn = Multinomial(C, table=[0.0, 1.0]).sample({}, np.random.default_rng(0), 5)
    np.testing.assert_array_equal(drawn, np.ones(5))
    assert len(Multinomial(C, table=[0.0, 1.0]).sample({}, np.random.default_rng(0))) == 1


def test_hundreds_of_states_by_binary_search():
    rng = np.random.default_rng(3)
    for states in (1, 2, 3, 7, 8, 9, 257):
        probabilities = rng.dirichlet(np.ones(states))
        uniforms = rng.uniform(size=500)
        found = Multinomial(Discrete("m", tuple(range(states))), table=probabilities).ppf(uniforms, {})
        np.testing.assert_array_equal(
            found, np.minimum(np.searchsorted(np.cumsum(probabilities), uniforms), states - 1)
        )


def test_tables_are_smoothed_where_they_have_zeros():
    table = np.array([[0.0, 1.0], [0.5, 0.5], [0.25, 0.75]])
    smooth = Multinomial(C, (D,), table=table).smooth(0.1)
    np.testing.assert_allclose(smooth.table, 0.9 * table + 0.05)
    assert (smooth.child, smooth.parents) == (C, (D,))
    positive = Multinomial(C, (D,), table=table[[1, 1, 2]])
    assert positive.smooth(0.1) is positive
