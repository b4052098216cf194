"""scikit-learn's own checks of the estimators."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="the estimators need scikit-learn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from hybridbn.estimators import HybridClassifier, HybridRegressor
from hybridbn.structures import kdb, selective_naive_bayes, tan

pytestmark = pytest.mark.usefixtures("arrays_of_other_libraries")
BOTH = (HybridClassifier, HybridRegressor)


def parametrize(estimators: list[Any], **options: Any) -> pytest.MarkDecorator:
    """Give each check an id that names functions without their addresses, which differ between processes."""
    mark = parametrize_with_checks(estimators, **options)

    def name(parameter: Any) -> str:
        return re.sub(r"<function(\w+?)at0x[0-9a-f]+>", r"\1", mark.kwargs["ids"](parameter))

    return pytest.mark.parametrize(*mark.args, ids=name)


@parametrize(
    [
        *(kind("naive_bayes") for kind in BOTH),
        HybridClassifier(tan, potentials="gaussian"),
    ],
)
def test_estimators_pass_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize(
    [
        HybridClassifier(),
        HybridRegressor(),
        HybridRegressor(tan, potentials="gaussian"),
        *(kind("naive_bayes", potentials="gaussian") for kind in BOTH),
        *(HybridClassifier("naive_bayes", potentials=family) for family in ("multinomial", "kernel")),
        *(kind(build, potentials="gaussian") for kind in BOTH for build in (selective_naive_bayes, partial(kdb, k=1))),
    ]
)
def test_other_families_and_structures_pass_them_too(estimator: Any, check: Any) -> None:
    check(estimator)
