"""One running archive for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.archive.served_archive import Served, served


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running
