"""One running archive for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.archive.served_archive import Served, served


@pytest.fixture(scope="package")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running
