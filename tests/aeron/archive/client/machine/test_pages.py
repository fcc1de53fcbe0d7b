"""Lists in pages: what is asked for, and when they end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everlog.aeron.archive.client.machine.pages import DescriptorPages, SubscriptionPages
from everlog.aeron.archive.client.values import RecordingDescriptor, SubscriptionDescriptor
from everlog.errors import CorruptData, UsageError

ONE = RecordingDescriptor(0, 0, None, 0, None, 0, 0, 0, 0, 0, 0, "", "", "")


def page(*ids: int) -> list[RecordingDescriptor]:
    return [replace(ONE, recording_id=number) for number in ids]


def fields(pages: DescriptorPages | SubscriptionPages) -> tuple[object, ...] | None:
    call = pages.next_call()
    return None if call is None else call.fields


def test_pages_go_on_behind_the_last_id_until_one_is_not_full() -> None:
    pages = DescriptorPages(0, None, 3)
    assert fields(pages) == (0, 3)
    pages.take(page(0, 4, 9))
    assert fields(pages) == (10, 3)
    pages.take(page(12))
    assert fields(pages) is None


def test_a_count_ends_the_pages() -> None:
    pages = DescriptorPages(5, 4, 3, ("ipc", 10))
    assert fields(pages) == (5, 3, 10, "ipc")
    pages.take(page(5, 6, 7))
    assert fields(pages) == (8, 1, 10, "ipc")
    pages.take(page(8))
    assert fields(pages) is None
    assert fields(DescriptorPages(0, 0, 3)) is None


@pytest.mark.parametrize("ids", [(4,), (6, 6), (7, 5)])
def test_ids_that_do_not_ascend_are_refused_since_the_list_might_never_end(ids: tuple[int, ...]) -> None:
    pages = DescriptorPages(5, None, 2)
    pages.next_call()
    with pytest.raises(CorruptData):
        pages.take(page(*ids))


def test_subscriptions_are_asked_for_by_index() -> None:
    pages = SubscriptionPages("ipc", 10, 2)
    assert fields(pages) == (0, 2, True, 10, "ipc")
    pages.take([SubscriptionDescriptor(1, 10, ""), SubscriptionDescriptor(2, 10, "")])
    assert fields(pages) == (2, 2, True, 10, "ipc")
    pages.take([])
    assert fields(pages) is None


@pytest.mark.parametrize("size", [0, -1, 1001])
def test_a_page_has_a_limit(size: int) -> None:
    with pytest.raises(UsageError):
        DescriptorPages(0, None, size)
    with pytest.raises(UsageError):
        SubscriptionPages("", None, size)
