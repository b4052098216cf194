"""Where networks, tables and references with known answers lie: `tests/data`, or a folder laid out like it."""

from __future__ import annotations

import os
from pathlib import Path

KNOWN = Path(os.environ.get("HYBRIDBN_SHARED", Path(__file__).parent / "data"))
ANSWERS = KNOWN / "cases"
ORACLE = KNOWN / "oracle"
TABLES = KNOWN / "data"
