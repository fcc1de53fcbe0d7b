"""Which of many images need a poll: the compiled scan and its twin find the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from everlog.aeron.transport.client.images import _scan, scan_twin
from everlog.kernel import _memory, _watch, memory_twin, watch_twin
from tests.aeron.transport.client.private_log import TERM, PrivateLog, frame

END_OF_STREAM_AT = 128
"""The metadata's end of stream position, which a log without an end has as the largest number."""
SECOND = 1_000_000_000
KINDS = pytest.mark.parametrize(
    "kind",
    [
        (_memory.Memory, _watch.Watch, _scan.ImageScan),
        (memory_twin.Memory, watch_twin.Watch, scan_twin.ImageScan),
    ],
    ids=["compiled", "twin"],
)


class Scanned:
    """An image with a log of its own."""

    def __init__(self, memory: type[Any], at: int = 0) -> None:
        self.log: PrivateLog | None = PrivateLog.make(memory)
        self.log.read_position = at
        self.position_at = (self.log.counters, 8)
        self.scan: Any = None

    def publish(self, at: int, content: bytes) -> None:
        assert self.log is not None
        self.log.terms[at // TERM % 3].write(at % TERM, content)


@KINDS
def test_an_image_is_due_once_a_frame_is_published_at_its_position(kind: Any) -> None:
    memory, _, scans = kind
    scan = scans(notices_ends=True)
    images = [Scanned(memory, at) for at in (0, 64, 4 * TERM + 96)]
    for number, image in enumerate(images):
        scan.add(image, number)
    assert (len(scan), scan.due(), scan.is_quiet()) == (3, [], True)
    images[1].publish(64, frame(64, b"x"))
    images[2].publish(4 * TERM + 96, frame(96, b"x"))
    assert (scan.due(), scan.is_quiet()) == ([1, 2], False)
    images[1].log.read_position = 128  # type: ignore[union-attr]
    assert scan.due() == [2]
    scan.discard(images[2])
    scan.discard(images[2])
    assert (len(scan), scan.due(), scan.is_quiet()) == (2, [], True)


@KINDS
def test_a_frame_that_is_being_written_is_not_due(kind: Any) -> None:
    memory, _, scans = kind
    image, scan = Scanned(memory), scans(notices_ends=True)
    scan.add(image, "it")
    image.log.terms[0].put_i32(0, -64)  # type: ignore[union-attr]
    assert scan.due() == []


@KINDS
@pytest.mark.parametrize("notices_ends", [True, False])
def test_an_end_of_stream_is_due_when_all_is_read_for_a_scan_that_notices_ends(kind: Any, notices_ends: bool) -> None:
    memory, _, scans = kind
    image, scan = Scanned(memory, 32), scans(notices_ends=notices_ends)
    scan.add(image, "it")
    image.log.metadata.put_i64(END_OF_STREAM_AT, 64)  # type: ignore[union-attr]
    assert scan.due() == []
    image.log.read_position = 64  # type: ignore[union-attr]
    assert scan.due() == (["it"] if notices_ends else [])


@KINDS
def test_an_image_that_is_closed_or_has_no_log_or_a_wrong_position_is_due(kind: Any) -> None:
    memory, _, scans = kind
    images, scan = [Scanned(memory) for _ in range(4)], scans(notices_ends=True)
    images[0].log = None
    for number, image in enumerate(images):
        scan.add(image, number)
    assert scan.due() == [0]
    images[1].scan.mark(images[1])
    images[2].log.read_position = -32  # type: ignore[union-attr]
    images[3].log.read_position = 8  # type: ignore[union-attr]
    assert scan.due() == [0, 1, 2, 3]


@KINDS
def test_a_position_outside_of_its_memory_is_refused(kind: Any) -> None:
    memory, _, scans = kind
    image, scan = Scanned(memory), scans(notices_ends=True)
    image.position_at = (image.log.counters, 16)  # type: ignore[union-attr]
    with pytest.raises(IndexError):
        scan.add(image, "it")
    assert (len(scan), scan.due()) == (0, [])


@KINDS
def test_a_watch_ends_a_rest_when_an_image_is_due(kind: Any) -> None:
    memory, watch, scans = kind
    image, scan = Scanned(memory), scans(notices_ends=True)
    watched = watch([], [scan])
    scan.add(image, "it")
    assert watched.back_off(2, 2, 1000, 1000, 0) is False
    image.publish(0, frame(0, b"x"))
    assert watched.back_off(2, 2, 1000, 1000, 1 << 62) is True
    assert watched.park(SECOND, 1 << 62) == 0
    image.log.read_position = 64  # type: ignore[union-attr]
    assert watched.back_off(2, 2, 1000, 1000, 0) is False


@KINDS
def test_images_that_come_and_go_are_found_as_a_list_of_them_says(kind: Any) -> None:
    memory, watch, scans = kind
    generator, scan = random.Random(5), scans(notices_ends=False)
    watched, known = watch([], [scan]), list[tuple[int, Scanned]]()
    for number in range(300):
        if generator.random() < 0.6 or not known:
            known.append((number, Scanned(memory, 32 * generator.randrange(8))))
            scan.add(known[-1][1], number)
        elif generator.random() < 0.5:
            scan.discard(known.pop(generator.randrange(len(known)))[1])
        else:
            image = generator.choice(known)[1]
            image.publish(32 * generator.randrange(8), frame(0, b""))
        due = [tag for tag, image in known if image.log.terms[0].get_i32(image.log.read_position) > 0]  # type: ignore[union-attr]
        assert scan.due() == due
        assert watched.back_off(3, 0, 1000, 1000, 0) is bool(due)
