"""A client with its threads, by the system's clock, beside a driver of which each word is the test's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.aeron import Aeron
from everlog.aeron.transport.client.errors import Closed, DriverTimeout, RegistrationRefused
from everlog.aeron.transport.client.options import ClientOptions, default_folder
from everlog.aeron.transport.protocol.commands import AddPublication, ClientClose, OnError
from everlog.errors import UnsupportedVersion, UsageError
from tests.aeron.transport.client.scripted_driver import LiveDriver, ScriptedDriver


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveDriver]:
    driver = LiveDriver(tmp_path)
    with driver:
        yield driver


def test_a_client_connects_to_a_folder_and_is_served(live: LiveDriver, tmp_path: Path) -> None:
    with Aeron.connect(tmp_path) as aeron:
        publication = aeron.add_publication("aeron:ipc", 10)
        assert publication.offer(b"hello") == 64
        assert aeron.folder == tmp_path
    assert publication.offer(b"hello") == -4
    assert live.await_close() == ClientClose(aeron.client_id, -1)


def test_no_driver_is_an_error_that_says_how_to_start_one(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(DriverTimeout, match="everlog run driver"):
        Aeron.connect(tmp_path / "none", driver_timeout_ms=60)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(("heartbeat", "found"), [(0, "still starting"), (-1, "shut down"), (1_000, "last heartbeat")])
def test_a_driver_that_does_not_live_is_not_taken(tmp_path: Path, heartbeat: int, found: str) -> None:
    driver = ScriptedDriver(folder=tmp_path)
    driver.signal_ready()
    driver.ring.consumer_heartbeat = heartbeat
    with pytest.raises(DriverTimeout, match=found):
        Aeron.connect(tmp_path, driver_timeout_ms=60)


def test_a_driver_that_starts_is_waited_for(tmp_path: Path) -> None:
    driver = LiveDriver(tmp_path)  # its version is 0 until it is entered
    starting = threading.Timer(0.1, driver.__enter__)
    starting.start()
    with Aeron.connect(tmp_path, driver_timeout_ms=5_000) as aeron:
        assert not aeron.is_closed
    starting.join()
    driver.kill()


def test_files_of_another_version_are_refused_at_once(tmp_path: Path) -> None:
    driver = ScriptedDriver(folder=tmp_path)
    driver.signal_ready()
    driver.beat()
    with (tmp_path / "cnc.dat").open("r+b") as file:
        file.write((3 << 16).to_bytes(4, "little"))
    with pytest.raises(UnsupportedVersion):
        Aeron.connect(tmp_path)


def test_the_folder_is_that_of_the_environment_else_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AERON_DIR", "/somewhere/else")
    assert default_folder() == Path("/somewhere/else")
    monkeypatch.delenv("AERON_DIR")
    monkeypatch.setenv("LOGNAME", "tester")
    if sys.platform == "linux":
        assert default_folder() == Path("/dev/shm/aeron-tester")


@pytest.mark.parametrize(
    "wrong",
    [
        {"driver_timeout_ms": 0},
        {"keep_alive_interval_ns": -1},
        {"idle_sleep_ns": 1_000_000_001},
        {"client_name": "x" * 101},
        {"client_name": "é"},
    ],
)
def test_options_that_can_not_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ClientOptions(**wrong)  # type: ignore[arg-type]


def test_keep_alives_that_the_driver_would_not_wait_for_are_refused(tmp_path: Path) -> None:
    with LiveDriver(tmp_path, client_liveness_timeout_ns=500_000_000), pytest.raises(UsageError, match="liveness"):
        Aeron.connect(tmp_path)


def test_the_clients_own_thread_beats_and_reads_events(live: LiveDriver, tmp_path: Path) -> None:
    seen: list[str] = []
    with Aeron.connect(tmp_path, idle_sleep_ns=1_000_000, keep_alive_interval_ns=10_000_000) as aeron:
        aeron.add_subscription("aeron:ipc", 10, lambda image: seen.append(threading.current_thread().name))
        heartbeat = live.scripted.grant_heartbeat(aeron.client_id)
        live.scripted.add_log(str(tmp_path / "image"), 10)
        live.scripted.show_image(1, 50, str(tmp_path / "image"))
        assert aeron.wait_until(lambda: seen != [] and heartbeat.get() > 0)
        assert {thread.name for thread in threading.enumerate()} >= {
            f"aeron-client-{aeron.client_id}",
            f"aeron-heartbeat-{aeron.client_id}",
        }
        assert aeron.wait_until(lambda: heartbeat.get() > time.time_ns() // 1_000_000 - 5)
    assert seen in ([f"aeron-client-{aeron.client_id}"], ["MainThread"])
    deadline = time.monotonic() + 5
    while any("aeron-" in thread.name for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not any("aeron-" in thread.name for thread in threading.enumerate())


def test_a_killed_driver_is_noticed_by_those_who_only_look(live: LiveDriver, tmp_path: Path) -> None:
    errors: list[BaseException] = []
    settings = {"driver_timeout_ms": 200, "keep_alive_interval_ns": 20_000_000, "on_error": errors.append}
    with Aeron.connect(tmp_path, **settings) as aeron:
        publication = aeron.add_publication("aeron:ipc", 10)
        live.kill()
        deadline = time.monotonic() + 5
        while publication.offer(b"x") != -4 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert isinstance(aeron.failure, DriverTimeout)
        assert errors == [aeron.failure]


def test_many_threads_add_and_close_at_once(live: LiveDriver, tmp_path: Path) -> None:
    problems: list[BaseException] = []

    def add(aeron: Aeron) -> None:
        try:
            for _ in range(5):
                with aeron.add_subscription("aeron:ipc", 10), aeron.add_publication("aeron:ipc", 10) as publication:
                    assert publication.offer(b"x") == 64
        except BaseException as error:
            problems.append(error)

    with Aeron.connect(tmp_path, idle_sleep_ns=1_000_000) as aeron:
        threads = [threading.Thread(target=add, args=(aeron,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert problems == []
    live.await_close()
    ids = [command.correlation_id for command in live.scripted.said[:-1]]
    assert len(set(ids)) == len(ids) == 4 * 5 * 4


def test_a_handler_may_close_the_client(live: LiveDriver, tmp_path: Path) -> None:
    aeron = Aeron.connect(tmp_path, idle_sleep_ns=1_000_000)
    aeron.add_subscription("aeron:ipc", 10, lambda image: aeron.close())
    live.scripted.add_log(str(tmp_path / "image"), 10)
    live.scripted.show_image(1, 50, str(tmp_path / "image"))
    deadline = time.monotonic() + 5
    while not aeron.is_closed and time.monotonic() < deadline:
        time.sleep(0.001)
    assert aeron.is_closed
    assert aeron.failure is None


def test_registrations_are_awaited_in_asyncio(live: LiveDriver, tmp_path: Path) -> None:
    async def main(aeron: Aeron) -> None:
        publication, subscription = await asyncio.gather(
            aeron.async_add_publication("aeron:ipc", 10), aeron.async_add_subscription("aeron:ipc", 10)
        )
        assert publication.stream_id == subscription.stream_id == 10
        refusal = OnError(0, 11, "no")
        live.scripted.answers[AddPublication] = lambda command: live.scripted.tell(
            OnError(command.correlation_id, refusal.error_code, refusal.message)
        )
        with pytest.raises(RegistrationRefused, match="GENERIC_ERROR: no"):
            await aeron.async_add_publication("aeron:ipc", 10)
        del live.scripted.answers[AddPublication]
        waiting = aeron.async_add_publication("aeron:ipc", 11)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waiting._awaited(), 0.05)
        assert waiting.is_cancelled

    with Aeron.connect(tmp_path) as aeron:
        asyncio.run(main(aeron))


def test_in_a_forked_process_the_client_has_ended_and_in_the_first_it_goes_on(live: LiveDriver, tmp_path: Path) -> None:
    with Aeron.connect(tmp_path) as aeron:
        publication = aeron.add_publication("aeron:ipc", 10)
        child = os.fork()
        if child == 0:
            # Asserts here would run pytest's own ending in the child.
            try:
                aeron.add_publication("aeron:ipc", 10)
            except Closed as error:
                told = "connect again in each process" in str(error)
            aeron.close()
            os._exit(0 if told and publication.offer(b"x") == -4 and aeron.is_closed else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert publication.offer(b"x") == 64
        assert not any(isinstance(command, ClientClose) for command in live.scripted.said)


def test_a_program_that_ends_without_closing_tells_the_driver(live: LiveDriver, tmp_path: Path) -> None:
    program = (
        f"from everlog.aeron import Aeron; a = Aeron.connect({str(tmp_path)!r}); a.add_publication('aeron:ipc', 10)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    time.sleep(0.05)
    assert isinstance(live.scripted.said[-1], ClientClose)
