"""Seeded requests that no honest client sends, against a live archive: no fault of its own, no harm to others."""

from __future__ import annotations

import logging
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.aeron.archive.client import AeronArchive, ReplayParams
from everlog.aeron.archive.protocol import requests as asked
from everlog.aeron.archive.service import embedded
from everlog.aeron.archive.service.queries.queries import Queries
from everlog.aeron.archive.store import ArchiveStore
from everlog.aeron.transport.client import Aeron
from everlog.core.files.writable import LocalWritableStorage
from everlog.testing.fuzz.requests import HostileRequests
from everlog.testing.series import Series
from tests.aeron.archive.service.live_world import (
    CORRELATIONS,
    IPC,
    SECONDS,
    STREAMS,
    RawClient,
    connected,
    launch,
    running_driver,
    until,
)

CASES, BATCH = 10_000, 100
SEED = int(os.environ.get("EVERLOG_FUZZ_SEED", "1"))
FILES = re.compile(r"archive\.catalog|archive-mark\.dat|[0-9]+-[0-9]+\.rec(\.del)?")


class Faults(logging.Handler):
    """The errors that the archive logs with a traceback: they are none of a client."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(logging.Formatter().format(record))


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    monkeypatch.setattr(embedded, "ERRORS_IN_A_PERIOD", 1 << 30)
    handler = Faults()
    logger = logging.getLogger("everlog.aeron.archive")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


class Attacker:
    """Sends hostile requests; connects again when it was cut off."""

    def __init__(self, aeron: Aeron, seed: int) -> None:
        self._aeron = aeron
        self.requests = HostileRequests(seed)
        self._client: RawClient | None = None
        self.sessions = 0

    def send(self, count: int) -> None:
        """Send some requests, and wait until the archive has read them."""
        for _ in range(count):
            client, data = self._connected(), self.requests.next()
            until(lambda client=client, data=data: self._has_sent(client, data))  # type: ignore[misc]
            client.received.clear()
        client, correlation_id = self._connected(), next(CORRELATIONS)
        client.send(asked.ArchiveId(client.session_id, correlation_id))
        deadline = time.monotonic() + SECONDS
        while not any(getattr(m, "correlation_id", 0) == correlation_id for m in client.received):
            client.poll()
            if is_gone(client) or time.monotonic() > deadline:
                self.close()
                return

    def _has_sent(self, client: RawClient, data: bytes) -> bool:
        """Offer a request; true also if nobody takes it any more."""
        client.poll()
        return client.publication.offer(data) > 0 or is_gone(client)

    def _connected(self) -> RawClient:
        client = self._client
        if client is None or is_gone(client):
            self.close()
            self.sessions += 1
            client = self._client = RawClient(self._aeron).connect()
            self.requests.session_id = client.session_id
        return client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def is_gone(client: RawClient) -> bool:
    """Whether the archive has ended the client's session, or rejected its requests."""
    return client.is_cut_off() or not client.publication.is_connected


def check_others(aeron: Aeron, archive: AeronArchive, rng: random.Random) -> int:
    """A client that knows nothing of it records, replays and asks. It also ends what the others record. Returns the
    id of its recording."""
    for found in list(archive.list_recording_subscriptions()):
        archive.try_stop_recording_by_subscription(found.subscription_id)
    stream_id = next(STREAMS)
    published = [rng.randbytes(rng.randrange(3000)) for _ in range(20)]
    with archive.recording_signals() as signals:
        subscription_id = archive.start_recording(IPC, stream_id)
        with aeron.add_exclusive_publication(IPC, stream_id) as publication:
            publication.send_many(published, timeout_s=SECONDS)
            while True:
                signal = signals.take(SECONDS)
                assert signal is not None
                if signal.subscription_id == subscription_id:
                    break
            end = publication.position
            until(lambda: archive.recording_position(signal.recording_id) == end)
        params = ReplayParams(length=end)
        with archive.replay_messages(signal.recording_id, IPC, next(STREAMS), params) as replay:
            assert [payload for payload, _ in replay] == published
    archive.try_stop_recording_by_subscription(subscription_id)
    assert archive.list_recording(signal.recording_id) is not None
    return signal.recording_id


def run(folder: Path, seed: int, cases: int, faults: Faults) -> Attacker:
    rng = random.Random(seed)
    with (
        running_driver() as driver,
        Aeron.connect(driver) as aeron,
        launch(driver, folder / "archive", max_concurrent_recordings=10_000) as running,
    ):
        attacker = Attacker(aeron, seed)
        with connected(aeron) as archive:
            for number in range(-(-cases // BATCH)):
                attacker.send(BATCH)
                attacker.requests.last_recording_id = check_others(aeron, archive, rng)
                assert faults.found == [], f"seed {seed}, batch {number}"
                assert running.is_running
        attacker.close()
    assert os.listdir(folder) == ["archive"]
    assert [name for name in os.listdir(folder / "archive") if not FILES.fullmatch(name)] == []
    return attacker


def test_hostile_requests_do_no_harm(tmp_path: Path, series: Series, faults: Faults) -> None:
    attacker = run(tmp_path, SEED, series.rounds(CASES), faults)
    assert attacker.sessions > 1
    with ArchiveStore.open(LocalWritableStorage(tmp_path / "archive"), {}) as store:
        assert [str(fault) for fault in store.verify().faults if fault.severity.value == "fault"] == []


def test_the_requests_of_a_seed_are_always_the_same_and_of_all_kinds() -> None:
    first, second = HostileRequests(5), HostileRequests(5)
    requests = [first.next() for _ in range(2000)]
    assert requests == [second.next() for _ in range(2000)]
    templates = {int.from_bytes(request[2:4], "little") for request in requests if request[4:6] == b"\x65\0"}
    assert {kind.template_id for kind in asked.REQUESTS} <= templates


@pytest.mark.long
def test_a_fault_that_is_planted_is_found(tmp_path: Path, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Queries.stop_position

    def careless(self: Queries, recording_id: int) -> int:
        return [real(self, 0)][recording_id + 1]

    monkeypatch.setattr(Queries, "stop_position", careless)
    with pytest.raises(AssertionError, match="IndexError"):
        run(tmp_path, SEED, 2000, faults)
