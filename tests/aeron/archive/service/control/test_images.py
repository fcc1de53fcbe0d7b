"""The images of a control subscription: which have requests, and whether all of them are watched."""

from __future__ import annotations

from typing import Any

from everlog.aeron.archive.service.control.images import ControlImages


class Unmapped:
    """An image without a log, which is always due."""

    log = position_at = scan = None

    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id


class Subscribed:
    """A subscription."""

    images: tuple[Any, ...] = ()


def test_images_that_came_or_went_since_the_last_poll_are_noticed() -> None:
    subscription: Any = Subscribed()
    images, first, second = ControlImages(subscription), Unmapped(1), Unmapped(2)
    assert images.is_current
    subscription.images = (first,)
    assert not images.is_current
    assert images.scan.is_quiet(), "nothing wakes a thread that rests now"
    assert images.due() == [first]
    assert images.is_current
    subscription.images = (first, second)
    assert not images.is_current
    assert images.due() == [first, second]
    subscription.images = (second,)
    assert images.due() == [second]
    assert len(images.scan) == 1
