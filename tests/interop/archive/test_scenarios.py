"""The cases of Aeron's system tests of its archive, as scenarios on Aeron's archive and on ours: both say the same.
``EVERLOG_RECORD=1`` records the table again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.transport.driver.media_driver import MediaDriver
from tests.aeron.archive.protocol.requests.security import AskingAuthenticator, ReadersRead
from tests.aeron.archive.protocol.requests.table import free_control_channel
from tests.aeron.archive.service.test_request_table import settings_of
from tests.interop.archive.java_archive_server import JavaArchiveServer
from tests.interop.archive.scenario_table import (
    DIFFERENCES,
    GROUPS,
    JAVA,
    OURS,
    Group,
    Outcomes,
    Scenarios,
    read_table,
    write_table,
)

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("archive-scenarios")]

Launch = Callable[[Group, Path, Path, str, str], AbstractContextManager[Path]]


def free_events_channel() -> str:
    """UDP, for any number of subscribers."""
    port = free_control_channel().rpartition(":")[2]
    return f"aeron:udp?control-mode=dynamic|control=localhost:{port}"


@contextmanager
def java(group: Group, jar: Path, folder: Path, control: str, events: str) -> Iterator[Path]:
    """Aeron's archive; its driver's folder."""
    with JavaArchiveServer(jar, folder, control, group.script(events)) as server:
        yield server.driver_folder


@contextmanager
def ours(group: Group, jar: Path, folder: Path, control: str, events: str) -> Iterator[Path]:
    """Ours, on our driver."""
    script = group.script(events)
    with (
        MediaDriver.launch(
            dir=str(folder.with_name("driver")),
            publication_term_buffer_length=64 << 10,
            ipc_term_buffer_length=64 << 10,
            spies_simulate_connection=True,
            publication_linger_timeout_ns=100_000_000,
        ) as driver,
        EmbeddedArchive(
            folder,
            settings_of(script.archive_properties(control)),
            driver_folder=driver.dir,
            authenticator=AskingAuthenticator() if script.is_secured else None,
            authorisation=ReadersRead() if script.is_secured else None,
        ),
    ):
        yield Path(driver.dir)


def seen(launch: Launch, jar: Path, folder: Path) -> Outcomes:
    """All groups, each on an archive of its own."""
    found: Outcomes = {}
    for name, group in GROUPS.items():
        control, events = free_control_channel(), free_events_channel()
        place = folder / name / "archive"
        place.parent.mkdir()
        with (
            launch(group, jar, place, control, events) as driver_folder,
            Scenarios(jar, driver_folder, place, control, events) as scenarios,
        ):
            found |= scenarios.run(name)
    return found


@pytest.fixture(scope="module")
def outcomes(aeron_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcomes]:
    launches: dict[str, Launch] = {JAVA: java, OURS: ours}
    found = {name: seen(launch, aeron_jar, tmp_path_factory.mktemp(name)) for name, launch in launches.items()}
    if os.environ.get("EVERLOG_RECORD"):
        write_table(found)
    return found


@pytest.mark.parametrize("name", [JAVA, OURS])
def test_every_scenario_is_in_the_table(outcomes: dict[str, Outcomes], name: str) -> None:
    assert list(outcomes[name]) == list(read_table())


@pytest.mark.parametrize(("upstream", "scenario"), read_table())
def test_both_archives_say_the_same(outcomes: dict[str, Outcomes], upstream: str, scenario: str) -> None:
    key = upstream, scenario
    golden = read_table()[key]
    assert {name: outcomes[name][key] for name in outcomes} == golden
    assert (golden[JAVA] == golden[OURS]) == (key not in DIFFERENCES)
