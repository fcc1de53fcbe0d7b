"""The asyncio client: requests in flight together, cancelled tasks, losses, background polls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from everlog.aeron.archive.client import (
    AsyncAeronArchive,
    ClientState,
    RecordingSignal,
    RecordingSignalEvent,
    SessionLost,
)
from everlog.aeron.archive.protocol.requests import SessionRequest, StopReplay
from everlog.aeron.messages import Message
from everlog.errors import Closed
from tests.aeron.archive.client.scripted_archive import ScriptedArchive, ok

SIGNAL = RecordingSignalEvent(1, 50, 3, 4, 64, RecordingSignal.STOP)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.001)


def test_answers_in_reverse_order_reach_their_tasks(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    waiting: list[SessionRequest] = []

    def script(archive: ScriptedArchive, message: Message) -> None:
        if isinstance(message, SessionRequest):
            waiting.append(message)
        if len(waiting) == 100:
            for each in reversed(waiting):
                ok(archive, each)

    archive.script = script

    async def use() -> list[int]:
        async with await AsyncAeronArchive.connect(**place) as client:
            return await asyncio.gather(*(client.start_position(number) for number in range(100)))

    assert asyncio.run(use()) == list(range(100))


def test_a_cancelled_task_leaves_the_others_alone(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    archive.script = lambda archive, message: None if isinstance(message, StopReplay) else ok(archive, message)

    async def use() -> int:
        async with await AsyncAeronArchive.connect(**place) as client:
            task = asyncio.create_task(client.stop_replay(1))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return await client.start_position(5)

    assert asyncio.run(use()) == 5


def test_tasks_that_find_the_session_lost_open_one_new_session(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    async def use() -> tuple[list[int], int, int]:
        async with await AsyncAeronArchive.connect(**place, reconnect=True) as client:
            await asyncio.to_thread(archive.do, archive.drop_sessions)
            while client.state is ClientState.CONNECTED:
                await client.poll_for_error_response()
            found = await asyncio.gather(*(client.start_position(number) for number in range(10)))
            return found, client.control_session_id, len(client.lost_sessions)

    assert asyncio.run(use()) == (list(range(10)), 2, 1)


def test_closing_fails_the_requests_in_flight(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    archive.script = lambda archive, message: None

    async def use() -> list[Any]:
        client = await AsyncAeronArchive.connect(**place)
        tasks = [asyncio.create_task(client.start_position(number)) for number in range(3)]
        await asyncio.sleep(0.02)
        await client.close()
        await client.close()
        assert client.state is ClientState.CLOSED
        with pytest.raises(Closed):
            await client.start_position(1)
        return await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each) for each in asyncio.run(use())] == [SessionLost] * 3


def test_signals_come_by_iterator_and_by_a_background_poll(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    seen: list[RecordingSignalEvent] = []

    async def use() -> RecordingSignalEvent | None:
        async with await AsyncAeronArchive.connect(
            **place, poll_interval_s=0.002, on_recording_signal=seen.append
        ) as client:
            await asyncio.to_thread(archive.do, lambda: archive.send(SIGNAL))
            await until(lambda: len(seen) == 1)
            with client.recording_signals() as signals:
                await asyncio.to_thread(archive.do, lambda: archive.send(SIGNAL))
                async for signal in signals:
                    return signal
        return None

    assert asyncio.run(use()) == SIGNAL


def test_other_tasks_run_while_one_waits(archive: ScriptedArchive, place: dict[str, Any]) -> None:
    have_run = threading.Event()
    archive.script = lambda archive, message: (have_run.wait(5), ok(archive, message))[1]

    async def use() -> int:
        turns = 0
        async with await AsyncAeronArchive.connect(**place) as client:
            task = asyncio.create_task(client.start_position(5))
            while not task.done():
                turns += 1
                if turns == 10:
                    have_run.set()
                await asyncio.sleep(0.005)
        return turns

    assert asyncio.run(use()) >= 10
