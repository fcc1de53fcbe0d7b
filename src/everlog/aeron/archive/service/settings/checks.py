"""Checks of a service's settings, alone and in combination, by their properties. Source: Archive.Context.conclude."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.frames.constants import (
    MAX_SEGMENT_LENGTH,
    MIN_TERM_LENGTH,
    is_power_of_two,
)
from everlog.errors import EverlogError, UsageError

MAX_CONCURRENT = 10_000
"""Most recordings, or replays, at a time."""
MAX_FILE_IO_LENGTH = 1 << 30
_LIMITS = {
    "aeron.archive.max.concurrent.recordings": (0, MAX_CONCURRENT),
    "aeron.archive.max.concurrent.replays": (0, MAX_CONCURRENT),
    "aeron.archive.file.sync.level": (0, 2),
    "aeron.archive.catalog.file.sync.level": (0, 2),
    "aeron.archive.low.storage.space.threshold": (0, (1 << 63) - 1),
    "aeron.archive.connect.timeout": (1_000_000, (1 << 63) - 1),
    "aeron.archive.session.liveness.check.interval": (1_000_000, (1 << 63) - 1),
}
_POWERS_OF_TWO = {
    "aeron.archive.segment.file.length": (MIN_TERM_LENGTH, MAX_SEGMENT_LENGTH),
    "aeron.archive.file.io.max.length": (MIN_TERM_LENGTH, MAX_FILE_IO_LENGTH),
    "aeron.archive.control.term.buffer.length": (MIN_TERM_LENGTH, 1 << 30),
}
_CHANNELS = {
    "aeron.archive.control.channel": "udp",
    "aeron.archive.local.control.channel": "ipc",
    "aeron.archive.recording.events.channel": None,
}


def check(values: Mapping[str, Any]) -> None:
    """Check settings by property. Raises :class:`UsageError`."""
    for name, (least, most) in _LIMITS.items():
        if not least <= values[name] <= most:
            _refuse(name, values[name], f"{least} to {most}")
    for name, (least, most) in _POWERS_OF_TWO.items():
        if not (least <= values[name] <= most and is_power_of_two(values[name])):
            _refuse(name, values[name], f"a power of two from {least} to {most}")
    file_level, catalog_level = values["aeron.archive.file.sync.level"], values["aeron.archive.catalog.file.sync.level"]
    if catalog_level < file_level:
        _refuse("aeron.archive.catalog.file.sync.level", catalog_level, f"at least file.sync.level, {file_level}")
    for name, media in _CHANNELS.items():
        if values[name] is not None:
            _check_channel(name, values[name], media)


def _check_channel(name: str, channel: str, media: str | None) -> None:
    try:
        uri = ChannelUri.parse(channel)
    except EverlogError as error:
        raise UsageError(name, found=repr(channel), expected="a channel", message=f"{name}: {error}") from None
    if uri.is_spy or media not in (None, uri.media):
        _refuse(name, channel, f"a channel aeron:{media or 'udp'}")


def _refuse(name: str, found: object, expected: str) -> NoReturn:
    raise UsageError(name, found=str(found), expected=expected)
