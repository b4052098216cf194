import mpmath
import numpy as np
import pytest
from scipy.special import log_expit

from hybridbn.errors import NetworkError
from hybridbn.potentials import softmax
from hybridbn.potentials.softmax import Softmax
from hybridbn.variables import Continuous, Discrete

X, Z = Continuous("x"), Continuous("z")
C, D = Discrete("c", ("a", "b", "e")), Discrete("d", (0, 1))
TWO = Discrete("c", ("no", "yes"))


def test_values_against_50_digits():
    rng = np.random.default_rng(0)
    intercept, slopes = rng.normal(size=(2, 3)) * 3, rng.normal(size=(2, 3, 2)) * 10
    potential = Softmax(C, (X, D, Z), intercept=intercept, coefficients=slopes)
    with mpmath.workdps(50):
        for _ in range(50):
            x, z, d, c = rng.normal() * 3, rng.normal() * 3, int(rng.integers(2)), int(rng.integers(3))
            logits = [
                mpmath.mpf(intercept[d, k]) + mpmath.mpf(slopes[d, k, 0]) * x + mpmath.mpf(slopes[d, k, 1]) * z
                for k in range(3)
            ]
            exact = mpmath.exp(logits[c]) / sum(map(mpmath.exp, logits))
            assert abs(potential(x=x, z=z, d=d, c=C.states[c]) / exact - 1) < 1e-12


def test_two_states_are_logistic_regression_however_far():
    potential = Softmax(TWO, (X,), intercept=[0, -2], coefficients=[[0], [3]])
    x = np.array([-1e12, -1e5, -3, 0.5, 40, 1e300])
    logs = potential.log_on({"x": x, "c": np.array([1])})[:, 0]
    np.testing.assert_allclose(logs, log_expit(3 * x - 2), rtol=1e-12, atol=1e-16)
    values, scale = potential.on({"x": np.array([[-1e5, 0.0]]), "c": np.array([[1, 1]])})
    np.testing.assert_array_equal(values, np.ones((1, 1, 2)))
    np.testing.assert_allclose(scale, [-300002, log_expit(-2)])


def test_scale_and_breaks_show_where_the_states_change():
    potential = Softmax(TWO, (X, Z), intercept=[0, -2], coefficients=[[0, 0], [4, 1]])
    assert potential.scale("x") == 0.25
    assert potential.scale("z") == 1.0
    np.testing.assert_allclose(potential.breaks("x", {"z": (6, 6)}), [-2, -1, 0])
    z = np.array([6.0, 2.0])
    np.testing.assert_allclose(potential.breaks("x", {"z": (z, z)})[1:3], [[-1, 0], [-1, 0]])
    assert potential.breaks("x").size == 0
    flat = Softmax(TWO, (X,), intercept=[0, 1], coefficients=[[2], [2]])
    assert flat.scale("x") == np.inf
    assert flat.breaks("x").size == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Softmax(X, intercept=[], coefficients=[]), "'x' is continuous; the child of a Softmax is discrete"),  # type: ignore[arg-type]
        (
            lambda: Softmax(TWO, (X,), intercept=[0], coefficients=[[0], [1]]),
            r"shape \(2,\), that is 2 states of 'c', not \(1,\)",
        ),
        (lambda: Softmax(TWO, (X,), intercept=[0, np.nan], coefficients=[[0], [1]]), "intercept has nan at c='yes'"),
        (lambda: Softmax(TWO, (X,), intercept=[0, 0], coefficients=[[0.0], [np.inf]]), "inf at c='yes', of 'x'"),
        (lambda: Softmax(TWO, (D,), intercept=[0, 0], coefficients=[[0], [1]]), "'c': the intercept must have shape"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_rows_in_blocks_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, z = Continuous("x"), Continuous("z")
    child = Discrete("c", states=tuple(range(7)))
    potential = Softmax(child, parents=(x, z), intercept=rng.normal(size=7), coefficients=rng.normal(size=(7, 2)))
    observed = {"x": rng.normal(size=(5, 40)), "z": rng.normal(size=3), "c": rng.integers(0, 7, (1, 40))}
    for axes in (observed, {**observed, "c": np.arange(7)}):
        whole = potential.log_on(axes)
        monkeypatch.setattr(softmax, "_MOST_LOGITS", 7 * 5 * 3 * 6)
        assert np.array_equal(potential.log_on(axes), whole)
        monkeypatch.undo()
