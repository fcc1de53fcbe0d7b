"""The same mistake is the same exception, and one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everlog.aeron import archive
from everlog.aeron.archive import Archive
from everlog.errors import Closed, UsageError, WrongType
from tests.aeron.archive.recorded import CHANNEL, STREAM


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with archive.create(tmp_path) as made:
        yield made


@pytest.mark.parametrize("payload", ["text", None, 5])
def test_what_is_not_bytes_is_no_message(store: Archive, payload: Any) -> None:
    sentence = rf"^message must be bytes, not {type(payload).__name__}$"
    with store.start_recording(CHANNEL, STREAM) as recorder:
        for call in (recorder.append, recorder.offer, lambda wrong: recorder.append_many([b"good", wrong])):
            with pytest.raises(WrongType, match=sentence) as refused:
                call(payload)
            assert isinstance(refused.value, TypeError)
        recorder.append(b"good")
        good = [record.payload for record in store.replay(0)]
    assert set(good) == {b"good"}


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda store: store.start_recording(5, STREAM), WrongType, "channel must be text, such as aeron:ipc, not 5"),
        (lambda store: store.start_recording(CHANNEL, "5"), WrongType, "stream_id must be an int32, not '5'"),
        (
            lambda store: store.start_recording(CHANNEL, 1 << 31),
            UsageError,
            "stream_id must be an int32, not 2147483648",
        ),
        (
            lambda store: store.start_recording(CHANNEL, STREAM, session_id="5"),
            WrongType,
            "session_id must be a whole number, not '5'",
        ),
        (
            lambda store: store.start_recording(CHANNEL, STREAM, correlation_id="5"),
            WrongType,
            "correlation_id must be an integer, not '5'",
        ),
        (
            lambda store: store.start_recording(CHANNEL, STREAM, correlation_id=1 << 63),
            UsageError,
            "correlation_id must be a signed 64-bit integer, not 9223372036854775808",
        ),
        (
            lambda store: store.start_recording(CHANNEL, STREAM, sesion_id=5),
            UsageError,
            "unknown option 'sesion_id'; known: initial_term_id, .*",
        ),
        (
            lambda store: store.start_recording(CHANNEL, STREAM).append(b"good", "5"),
            WrongType,
            "reserved value must be an int64, not '5'",
        ),
        (
            lambda store: store.start_recording(CHANNEL, STREAM).append(b"good", 1 << 63),
            UsageError,
            "reserved value must be an int64, not 9223372036854775808",
        ),
    ],
)
def test_a_wrong_argument_is_one_sentence(store: Archive, use: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}$") as refused:
        use(store)
    assert isinstance(refused.value, TypeError) == (error is WrongType)


def test_a_misspelt_option_is_refused(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"checksums": "crc32"}
    for call in (archive.create, archive.open_archive):
        with pytest.raises(UsageError, match=r"unknown option 'checksums'; known: .*checksum"):
            call(tmp_path, **wrong)


def test_a_closed_archive_says_so(store: Archive) -> None:
    recorder = store.start_recording(CHANNEL, STREAM)
    store.close()
    for call in (lambda: store.recording(0), lambda: store.replay(0), lambda: store.purge_recording(0), store.events):
        with pytest.raises(Closed, match=r"^archive is closed$"):
            call()
    with pytest.raises(Closed, match=r"^recorder of recording 0 is closed$"):
        recorder.append(b"late")
