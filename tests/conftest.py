"""Which tests run in one process where pytest has several: those of a file, or of Spark; how long examples may take."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
TOGETHER = ("spark", "interop")

# A machine that is busy with other things makes no test fail; pytest-timeout ends what hangs.
settings.register_profile("everlog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("everlog")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fixtures of a module or a session are made once for each process; Spark's session, and what is downloaded and
    compiled of the real systems, once in all."""
    for item in items:
        path = item.path.relative_to(HERE) if item.path.is_relative_to(HERE) else item.path
        group = path.parts[0] if path.parts[0] in TOGETHER else str(path)
        item.add_marker(pytest.mark.xdist_group(group))
