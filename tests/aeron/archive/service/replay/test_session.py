"""One replay, step by step, with a publication and a driver's client made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.format.segments import SegmentMap
from everlog.aeron.archive.service.replay.beginning import Beginning
from everlog.aeron.archive.service.replay.refusals import Range
from everlog.aeron.archive.service.replay.session import ReplayOrder, ReplaySession, State
from everlog.aeron.transport.client.appending.appenders import ADMIN_ACTION, BACK_PRESSURED, CLOSED, NOT_CONNECTED
from everlog.aeron.transport.client.errors import RegistrationRefused
from everlog.core.files.storage import LocalStorage
from tests.aeron.archive.service.recording.recording_world import Asker
from tests.aeron.frames.framed_messages import INITIAL_TERM, MTU, STREAM, TERM, frame, padding

OWN_SESSION, OWN_STREAM, ID = -5, 9, 3 << 32 | 5


class Published:
    """A publication; ``results`` are what its next appends return instead of taking the bytes."""

    channel, stream_id, session_id = "aeron:ipc?alias=own", OWN_STREAM, OWN_SESSION

    def __init__(self) -> None:
        self.is_connected = True
        self.available_window = 1 << 20
        self.results: list[int] = []
        self.taken: list[bytes | int] = []
        self.ends: list[str] = []

    def append_block(self, block: memoryview) -> int:
        return self._take(bytes(block))

    def append_padding(self, length: int) -> int:
        return self._take(length)

    def _take(self, what: bytes | int) -> int:
        if self.results:
            return self.results.pop(0)
        self.taken.append(what)
        return 1

    def close(self) -> None:
        self.ends.append("close")

    def revoke(self) -> None:
        self.ends.append("revoke")


class Bound:
    """A limit that a test moves."""

    def __init__(self, position: int) -> None:
        self.position, self.is_final = position, False

    def read(self) -> tuple[int, bool]:
        return self.position, self.is_final


class Replayed:
    """A session over a folder with one segment of two terms."""

    def __init__(self, tmp_path: Any, data: bytes, *, limit: Bound | None = None, **other: Any) -> None:
        (tmp_path / "0-0.rec").write_bytes(data.ljust(2 * TERM, b"\0"))
        stop = len(data) if limit is None else limit.position
        self.published, self.asker, self.errors = Published(), Asker(), list[BaseException]()
        order = ReplayOrder(
            replay_session_id=ID,
            correlation_id=1,
            segments=SegmentMap(0, 0, TERM, 2 * TERM),
            initial_term_id=INITIAL_TERM,
            stream_id=STREAM,
            mtu_length=MTU,
            range=Range(other.get("position", 0), other.get("end", stop if limit is None else 1 << 40), stop),
            limit=limit,
            deadline_ns=100,
            block_length=other.get("block_length", TERM),
            checksum="none",
        )
        publication: Any = self.published
        storage = LocalStorage(tmp_path)
        self.session = ReplaySession(order, publication, self.asker, storage, self.errors.append)

    def run(self, cycles: int = 1) -> Replayed:
        for _ in range(cycles):
            self.session.do_work(0)
        return self


def own(position: int, payload: bytes) -> bytes:
    return frame(position, payload, session=OWN_SESSION, stream=OWN_STREAM)


FRAMES = frame(0, b"one") + frame(64, b"two")
OWN = own(0, b"one") + own(64, b"two")


def test_ok_is_sent_before_a_subscriber_is_there(tmp_path: Any) -> None:
    replayed = Replayed(tmp_path, FRAMES)
    replayed.published.is_connected = False
    replayed.run(3)
    assert replayed.asker.sent == [("ok", 1, ID)]
    assert replayed.session.state is State.INIT
    replayed.published.is_connected = True
    replayed.run()
    assert replayed.published.taken == [OWN]
    replayed.run()
    assert replayed.session.is_done
    replayed.session.release()
    replayed.session.release()
    assert replayed.published.ends == ["close"]


@pytest.mark.parametrize("result", [BACK_PRESSURED, ADMIN_ACTION])
def test_a_block_that_is_not_taken_is_offered_again(tmp_path: Any, result: int) -> None:
    replayed = Replayed(tmp_path, FRAMES)
    replayed.published.results = [result] * 3
    replayed.run(3)
    assert (replayed.published.taken, replayed.session.position) == ([], 0)
    assert replayed.run().published.taken == [OWN]


@pytest.mark.parametrize("result", [CLOSED, NOT_CONNECTED, -5])
def test_a_publication_that_takes_no_more_is_revoked(tmp_path: Any, result: int) -> None:
    replayed = Replayed(tmp_path, FRAMES)
    replayed.published.results = [result]
    replayed.run()
    assert replayed.session.is_done
    replayed.session.release()
    assert replayed.published.ends == ["revoke"]
    assert replayed.asker.sent == [("ok", 1, ID)]


def test_nothing_is_read_without_a_window(tmp_path: Any) -> None:
    replayed = Replayed(tmp_path, FRAMES)
    replayed.published.available_window = 0
    assert replayed.run(3).published.taken == []
    replayed.published.available_window = 1
    assert replayed.run().published.taken == [OWN]


def test_padding_is_appended_by_its_length_and_tried_again(tmp_path: Any) -> None:
    data = FRAMES + padding(128)
    data = data.ljust(TERM, b"\xff") + frame(TERM, b"next")  # what is behind the header is never read
    replayed = Replayed(tmp_path, data)
    replayed.run()
    assert replayed.published.taken == [OWN, TERM - 128 - 32]
    replayed.run(2)
    assert replayed.published.taken == [OWN, TERM - 160, own(TERM, b"next")]
    assert replayed.session.is_done
    again = Replayed(tmp_path, data, position=128)
    again.published.results = [BACK_PRESSURED]
    again.run()
    assert again.published.taken == []
    again.run(2)
    assert again.published.taken == [TERM - 160, own(TERM, b"next")]


def test_padding_longer_than_a_block(tmp_path: Any) -> None:
    bound = Bound(1024)  # inside the padding
    replayed = Replayed(tmp_path, FRAMES + padding(128), limit=bound, block_length=256)
    assert replayed.run(3).published.taken == [OWN]
    assert not replayed.session.is_done
    bound.position = TERM
    assert replayed.run(1).published.taken == [OWN, TERM - 160]


def test_a_limit_inside_a_frame_lets_it_wait_and_ends_there_when_it_is_final(tmp_path: Any) -> None:
    bound = Bound(64 + 40)
    replayed = Replayed(tmp_path, FRAMES, limit=bound)
    assert replayed.run(3).published.taken == [own(0, b"one")]
    assert not replayed.session.is_done
    bound.is_final = True
    replayed.run()
    assert replayed.session.is_done
    replayed.session.release()
    assert replayed.published.ends == ["close"]


def test_a_limit_that_was_final_stays_so(tmp_path: Any) -> None:
    bound = Bound(64)
    bound.is_final = True
    replayed = Replayed(tmp_path, FRAMES, limit=bound)
    replayed.published.available_window = 0
    replayed.run()
    bound.position, bound.is_final = 128, False
    replayed.published.available_window = 1
    assert replayed.run(3).published.taken == [own(0, b"one")]
    assert replayed.session.is_done


@pytest.mark.parametrize("damage", [bytes(64), frame(128, b"x", kind=3), frame(128, bytes(MTU))])
def test_what_is_before_damage_is_replayed(tmp_path: Any, damage: bytes) -> None:
    replayed = Replayed(tmp_path, FRAMES + damage).run()
    assert (replayed.published.taken, replayed.asker.sent) == ([OWN], [("ok", 1, ID)])
    replayed.run(2)
    ((kind, correlation_id, code, text),) = replayed.asker.sent[1:]
    assert (kind, correlation_id, code) == ("error", 1, 0)
    what = "unexpected end of recording" if damage == bytes(64) else "damaged frame"
    place = "128 (segmentFilePosition=0, segmentOffset=0, termOffset=128, frameOffset=0)"
    assert text == f"{what} at position={place}, recordingId=0, replaySessionId={ID}, segmentFile=0-0.rec"
    replayed.session.release()
    assert replayed.published.ends == ["revoke"]


def test_a_file_that_is_cut_is_replayed_up_to_there(tmp_path: Any) -> None:
    replayed = Replayed(tmp_path, FRAMES + frame(128, b"three"))
    (tmp_path / "0-0.rec").write_bytes(FRAMES + frame(128, b"three")[:40])
    replayed.run(2)
    assert replayed.published.taken == [OWN]
    assert replayed.asker.sent[1][3].startswith("unexpected end of recording at position=128 ")


def test_an_error_of_the_storage_is_told(tmp_path: Any) -> None:
    replayed = Replayed(tmp_path, FRAMES)
    replayed.published.is_connected = False
    replayed.run()
    replayed.session._file.close()  # type: ignore[union-attr]
    replayed.published.is_connected = True
    replayed.run()
    assert [sent[:3] for sent in replayed.asker.sent] == [("ok", 1, ID), ("error", 1, 0)]
    assert replayed.session.is_done
    assert len(replayed.errors) == 1


# The publication


class Driver:
    """Answers with what a test gives it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    def async_add_exclusive_publication(self, channel: str, stream_id: int) -> Any:
        self.asked.append((channel, stream_id))
        return self

    done = True

    def result(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def refusal_of(error_code: int) -> RegistrationRefused:
    return RegistrationRefused.of("add-publication", error_code, "text")


def beginning(asker: Asker) -> Beginning:
    recording: Any = type("R", (), {"recording_id": 0, "start_position": 0, "term_buffer_length": TERM})()
    recording.segment_file_length = 2 * TERM
    return Beginning(
        requester=asker,
        correlation_id=1,
        recording=recording,
        range=Range(0, 64, 64),
        limit=None,
        block_length=TERM,
        channel="aeron:ipc",
        stream_id=OWN_STREAM,
    )


def test_a_driver_short_of_resources_is_asked_again() -> None:
    asker, published = Asker(), Published()
    driver: Any = Driver(refusal_of(10), refusal_of(10), published)
    begun = beginning(asker)
    assert begun.poll(driver) is None
    assert begun.poll(driver) is None
    found: Any = begun.poll(driver)
    assert found is published
    assert driver.asked == [("aeron:ipc", OWN_STREAM)] * 3
    assert asker.sent == []


def test_any_other_refusal_is_told() -> None:
    asker = Asker()
    driver: Any = Driver(refusal_of(1))
    begun = beginning(asker)
    assert begun.poll(driver) is None
    assert begun.is_done
    ((kind, correlation_id, code, text),) = asker.sent
    assert (kind, correlation_id, code) == ("error", 1, 0)
    assert text == "failed to create replay publication: ERROR - text, errorCodeValue=1"
