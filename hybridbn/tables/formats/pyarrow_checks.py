"""pyarrow where it is installed, what it raises about damaged files, and the check of all that it reads."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import Any

from hybridbn.errors import FormatError, HybridBNError

__all__ = ["NEEDS", "import_pyarrow", "report_damage", "validate"]

NEEDS = ("pyarrow", "Parquet and Feather need pyarrow: pip install 'hybridbn[io]'")


def import_pyarrow() -> Any:
    """Return pyarrow, or say how to get it."""
    try:
        import pyarrow
    except ModuleNotFoundError:
        raise FormatError(NEEDS[1]) from None
    return pyarrow


@contextlib.contextmanager
def report_damage(title: str) -> Iterator[None]:
    """Turn what pyarrow raises about a damaged file into `FormatError`."""
    pyarrow = import_pyarrow()
    try:
        yield
    except HybridBNError:
        raise
    except pyarrow.ArrowMemoryError as error:
        raise FormatError(
            f"reading the {title} file takes more memory than there is, as of one that is damaged: {error}"
        ) from error
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, OverflowError) as error:
        # positions in a damaged file may lie before its beginning
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise FormatError(f"not a whole {title} file: {error}") from error


def validate(data: Any) -> Any:
    """Return a table or batch that was read; raise pyarrow's error where its lengths, codes or texts are damaged.

    Without this, what is computed from it may read beyond its memory.
    """
    data.validate(full=True)
    return data
