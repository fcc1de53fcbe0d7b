"""Only one archive of a driver has an id, also if two start at the same instant."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everlog.aeron.archive.service import embedded as embedded_module
from everlog.aeron.archive.service.counters import ARCHIVE_ERRORS_TYPE_ID, CONTROL_SESSIONS_TYPE_ID, archive_key
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.identity import RIVAL_TIMEOUT_S, claim_id, require_unused_id
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.counters_reader import CountersReader
from everlog.aeron.transport.memory.counters_memory import Counters
from everlog.errors import StoreUnavailable
from everlog.kernel.memory import Memory
from tests.aeron.archive.client.scripted_archive import in_process_driver
from tests.aeron.archive.service.served import settings

ID = 7


class Driver:
    """Counters of a driver; ``events`` happen one after the other while a client waits."""

    def __init__(self) -> None:
        self._memory = Counters(Memory.allocate(64 * 512), Memory.allocate(64 * 128))
        self.counters = CountersReader(self._memory.metadata, self._memory.values)
        self.folder = Path("/driver")
        self.events: list[Callable[[], object]] = []
        self.waited_s = 0.0

    def add(self, registration_id: int, type_id: int = ARCHIVE_ERRORS_TYPE_ID, archive_id: int = ID) -> Any:
        counter = self._memory.allocate(type_id, archive_key(archive_id), "label", registration_id=registration_id)

        class Added:
            counter_id = counter.id

        added: Any = Added()
        added.registration_id = registration_id
        return added

    def free(self, counter: Any) -> None:
        self._memory.free(counter.counter_id)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, sleep_s: float) -> bool:
        while not condition():
            if self.waited_s >= timeout_s:
                return False
            self.waited_s += sleep_s
            if self.events:
                self.events.pop(0)()
        return True

    def claim(self, errors: Any) -> None:
        aeron: Any = self
        claim_id(aeron, ID, errors)


def test_an_id_that_an_archive_has_is_refused_at_once() -> None:
    driver: Any = Driver()
    driver.add(1, archive_id=ID + 1)
    require_unused_id(driver, ID)
    driver.add(2)
    with pytest.raises(StoreUnavailable, match="an archive with id 7 on this driver is running"):
        require_unused_id(driver, ID)


def test_an_archive_without_a_rival_has_its_id() -> None:
    driver = Driver()
    driver.add(1, archive_id=ID + 1)
    driver.claim(driver.add(2))
    assert driver.waited_s == 0


def test_of_two_that_see_each_other_the_lower_registration_id_wins() -> None:
    driver = Driver()
    higher, lower = driver.add(9), driver.add(8)
    with pytest.raises(StoreUnavailable, match="has started at the same time"):
        driver.claim(higher)
    driver.events = [lambda: driver.free(higher)]
    driver.claim(lower)


def test_an_archive_that_serves_keeps_its_id_whatever_the_registration_ids() -> None:
    """The other one had looked before the counter of this one was added."""
    driver = Driver()
    driver.add(9)
    own = driver.add(8)
    driver.events = [lambda: None, lambda: driver.add(10, CONTROL_SESSIONS_TYPE_ID)]
    with pytest.raises(StoreUnavailable, match="has started at the same time"):
        driver.claim(own)


def test_an_archive_that_starts_and_never_decides_keeps_its_id() -> None:
    driver = Driver()
    driver.add(9)
    with pytest.raises(StoreUnavailable, match="is starting"):
        driver.claim(driver.add(8))
    assert driver.waited_s == pytest.approx(RIVAL_TIMEOUT_S, abs=0.1)


def test_of_two_archives_that_start_at_the_same_instant_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2)

    def require_and_wait(aeron: Aeron, archive_id: int) -> None:
        require_unused_id(aeron, archive_id)
        both.wait(10)

    monkeypatch.setattr(embedded_module, "require_unused_id", require_and_wait)
    running: list[EmbeddedArchive] = []
    refused: list[StoreUnavailable] = []

    def start(name: str, driver_folder: str) -> None:
        try:
            running.append(EmbeddedArchive(tmp_path / name, settings(archive_id=ID), driver_folder=driver_folder))
        except StoreUnavailable as error:
            refused.append(error)

    with in_process_driver() as driver:
        threads = [threading.Thread(target=start, args=(name, driver.dir)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for each in running:
            each.close()
    assert (len(running), len(refused)) == (1, 1)
    assert "an archive with id 7 on this driver" in str(refused[0])
