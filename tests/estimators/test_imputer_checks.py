"""scikit-learn's own checks of the imputer."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("sklearn", reason="the imputer needs scikit-learn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from hybridbn.estimators import Imputer

pytestmark = pytest.mark.usefixtures("arrays_of_other_libraries")


@pytest.mark.slow
@parametrize_with_checks([Imputer(), Imputer(structure="chow_liu")])
def test_the_imputer_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
