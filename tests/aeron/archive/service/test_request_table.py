"""The table of requests on our archive: each is answered as Aeron's archive answers it, but where the table says why
not."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.settings.settings import ArchiveSettings, name_of
from everlog.aeron.transport.driver.media_driver import MediaDriver
from tests.aeron.archive.protocol.requests import table
from tests.aeron.archive.protocol.requests.known_refusals import REFUSALS, WITHOUT_A_ROW
from tests.aeron.archive.protocol.requests.run import Row
from tests.aeron.archive.protocol.requests.security import AskingAuthenticator, ReadersRead


def settings_of(properties: Mapping[str, str]) -> ArchiveSettings:
    """Those of the table that an archive of ours has."""
    fields = {name_of(field): field for field in dataclasses.fields(ArchiveSettings)}
    chosen = {
        fields[name].name: fields[name].metadata["parse"](text, name)
        for name, text in properties.items()
        if name in fields
    }
    return ArchiveSettings(**chosen)


def rows_of(script: str, folder: Path) -> list[Row]:
    channel, chosen = table.free_control_channel(), table.SCRIPTS[script]
    chosen.prepare(folder / "archive")
    with (
        MediaDriver.launch(
            dir=str(folder / "driver"),
            publication_term_buffer_length=64 << 10,
            ipc_term_buffer_length=64 << 10,
            spies_simulate_connection=True,
            publication_linger_timeout_ns=100_000_000,
        ) as driver,
        EmbeddedArchive(
            folder / "archive",
            settings_of(chosen.archive_properties(channel)),
            driver_folder=driver.dir,
            authenticator=AskingAuthenticator() if chosen.is_secured else None,
            authorisation=ReadersRead() if chosen.is_secured else None,
        ),
    ):
        return table.run_table(script, folder / "driver", channel, folder / "archive")


@pytest.mark.parametrize("script", table.SCRIPTS)
def test_our_archive_answers_as_the_real_one(script: str, tmp_path: Path) -> None:
    assert table.differences(script, rows_of(script, tmp_path), ours=True) == []


def test_each_refusal_of_the_original_has_a_row_or_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {
        event[2]
        for rows in table.read_table().values()
        for row in rows
        for event in row["events"]
        if event[0] == "ERROR"
    }
    without = {pattern for pattern in REFUSALS if not any(re.search(pattern, text) for text in texts)}
    with capsys.disabled():
        for pattern in sorted(without):
            print(f"\nno row for the refusal '{pattern}': {WITHOUT_A_ROW.get(pattern)}", end="")
    assert without == set(WITHOUT_A_ROW)
