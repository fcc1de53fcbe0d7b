"""The toy family is known to these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _toys(toy_family: None) -> None:
    pass
