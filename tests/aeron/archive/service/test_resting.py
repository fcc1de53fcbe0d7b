"""An archive with nothing to do runs no cycles of Python, and misses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.client.blocking.archive import AeronArchive
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.transport.client.aeron import Aeron
from everlog.time_units import NS_PER_S
from tests.aeron.archive.service.live_world import RawClient, connected, launch, running_driver, until

CHANNEL, STREAM = "aeron:ipc?term-length=64k", 1001
SECONDS = 0.6


@pytest.fixture
def driver() -> Iterator[str]:
    with running_driver() as folder:
        yield folder


def cycles(archive: EmbeddedArchive, seconds: float = SECONDS) -> int:
    """How many cycles the conductor runs meanwhile."""
    conductor: Any = archive._conductor
    whole, count = type(conductor).do_work, 0

    def counted(now_ns: int, now_ms: int = 0) -> int:
        nonlocal count
        count += 1
        return int(whole(conductor, now_ns, now_ms))

    conductor.do_work = counted
    time.sleep(seconds)
    del conductor.do_work
    return count


def record(archive: AeronArchive, aeron: Aeron, stream_id: int) -> Any:
    archive.start_recording(CHANNEL, stream_id, SourceLocation.LOCAL)
    publication = aeron.add_exclusive_publication(CHANNEL, stream_id)
    until(lambda: publication.is_connected)
    return publication


def test_few_cycles_are_run_with_idle_clients_and_recordings_and_none_is_missed(driver: str, tmp_path: Path) -> None:
    settings = {"session_liveness_check_interval_ns": NS_PER_S}
    with launch(driver, tmp_path / "a", **settings) as running, Aeron.connect(driver) as aeron:
        assert cycles(running) < 60
        with connected(aeron) as archive:
            publications = [record(archive, aeron, STREAM + number) for number in range(3)]
            assert cycles(running) < 90, "sessions are looked at twenty times a second"
            found = archive.list_recordings(0, 10)
            assert len(list(found)) == 3
            for recording_id, publication in enumerate(publications):
                publication.send(b"message", timeout_s=5.0)
                position = publication.position
                until(lambda at=position, number=recording_id: archive.recording_position(number) == at)  # type: ignore[misc]
            publications[1].close()
            until(lambda: archive.stop_position(1) == 64)
            assert cycles(running) < 90


def test_a_client_that_no_longer_listens_is_noticed_by_a_resting_archive(driver: str, tmp_path: Path) -> None:
    settings = {"session_liveness_check_interval_ns": 3600 * NS_PER_S}
    with launch(driver, tmp_path / "a", **settings) as running, Aeron.connect(driver) as aeron:
        client = RawClient(aeron).connect()
        sessions = running._conductor._sessions
        until(lambda: sessions.quiet_until() > 0)
        assert len(sessions) == 1
        client.subscription.close()
        until(lambda: len(sessions) == 0)


def test_an_archive_does_not_rest_while_a_client_has_come_that_it_does_not_watch_yet(
    driver: str, tmp_path: Path
) -> None:
    with launch(driver, tmp_path / "a") as running:
        running._runner.close_agents = lambda: None  # type: ignore[method-assign]
        running._runner.close()
        conductor = running._conductor
        until(lambda: (conductor.do_work(time.monotonic_ns()), conductor.quiet_until())[1] > 0)
        with Aeron.connect(driver) as aeron:
            publication = aeron.add_exclusive_publication(CHANNEL, 10)
            client = conductor._context.aeron
            # The image comes while the conductor waits for its driver, in the midst of a cycle.
            until(lambda: client.wait_until(lambda: conductor._controls[-1].is_connected, 0.1))
            assert publication.is_connected
            assert conductor.quiet_until() == 0
            conductor.do_work(time.monotonic_ns())
            assert conductor.quiet_until() > 0
        conductor.close()
