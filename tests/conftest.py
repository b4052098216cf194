"""What all tests share."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator

import pytest
from effort import examples
from hypothesis import settings

settings.register_profile("steady", max_examples=examples(100), derandomize=True, deadline=None)
settings.load_profile("steady")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Look for no garbage while tests are collected, and not among them afterwards: that took a third of the time."""
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()


def pytest_unconfigure() -> None:
    """Let what was kept out be freed in the end."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse ids that hold the address of an object: they differ between the processes that share a run."""
    unsteady = [item.nodeid for item in items if re.search(r"at ?0x[0-9a-f]{6,}", item.nodeid)]
    if unsteady:
        raise pytest.UsageError(f"ids of tests hold addresses; give `ids=` or `pytest.param(..., id=...)`: {unsteady}")


@pytest.fixture
def frozen() -> None:
    """Keep the collector from looking again and again at what other tests have left."""
    gc.freeze()


@pytest.fixture
def arrays_of_other_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scikit-learn check arrays of other libraries, too."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
