"""Which tests run in one process where pytest has several: those of a file, or of Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOGETHER = ("spark", "interop")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fixtures of a module or a session are made once for each process; Spark's session, and what is downloaded and
    compiled of the real systems, once in all."""
    for item in items:
        path = item.path.relative_to(HERE) if item.path.is_relative_to(HERE) else item.path
        group = path.parts[0] if path.parts[0] in TOGETHER else str(path)
        item.add_marker(pytest.mark.xdist_group(group))
