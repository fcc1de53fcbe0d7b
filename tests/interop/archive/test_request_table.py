"""The table of requests on Aeron's archive: what it answers is what is recorded. ``EVERLOG_RECORD=1`` records anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.aeron.archive.protocol.requests import table
from tests.aeron.archive.protocol.requests.run import Row
from tests.interop.archive.java_archive_server import JavaArchiveServer


def rows_of(script: str, jar: Path, folder: Path) -> list[Row]:
    channel = table.free_control_channel()
    table.SCRIPTS[script].prepare(folder)
    with JavaArchiveServer(jar, folder, channel, table.SCRIPTS[script]) as server:
        return table.run_table(script, server.driver_folder, channel, folder)


@pytest.mark.parametrize("script", table.SCRIPTS)
def test_the_real_archive_answers_as_recorded(script: str, aeron_jar: Path, tmp_path: Path) -> None:
    rows = rows_of(script, aeron_jar, tmp_path / "archive")
    if os.environ.get("EVERLOG_RECORD"):
        table.write_table({script: rows})
    assert table.differences(script, rows, ours=False) == []
