"""Aeron channel URIs: ``aeron:udp?endpoint=host:port|term-length=64k``, or one with ``aeron-spy:`` before it.
Source: Aeron, ChannelUri."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.errors import UsageError

SPY_PREFIX = "aeron-spy:"
SCHEME = "aeron:"
MEDIA = ("ipc", "udp")


@dataclass(frozen=True, slots=True)
class ChannelUri:
    """``media`` is ``ipc`` or ``udp``; ``params`` keep the order in which they were written."""

    media: str
    params: Mapping[str, str] = field(default_factory=dict)
    is_spy: bool = False

    @classmethod
    def parse(cls, text: str) -> ChannelUri:
        """Raises :class:`UsageError` for what is no channel. A key that comes twice keeps its last value."""
        rest = text.removeprefix(SPY_PREFIX)
        if not rest.startswith(SCHEME):
            raise UsageError("channel", found=repr(text), expected="aeron:MEDIA?KEY=VALUE|...")
        media, mark, query = rest.removeprefix(SCHEME).partition("?")
        if media not in MEDIA:
            raise UsageError("channel", found=f"media {media!r}", expected=" or ".join(MEDIA))
        params: dict[str, str] = {}
        for part in query.split("|") if mark and query else ():
            key, equals, value = part.partition("=")
            if not key or not equals:
                raise UsageError("channel", found=f"{part!r}", expected="KEY=VALUE")
            params[key] = value
        return cls(media, params, rest is not text and text.startswith(SPY_PREFIX))

    def __str__(self) -> str:
        query = "|".join(f"{key}={value}" for key, value in self.params.items())
        return (SPY_PREFIX if self.is_spy else "") + SCHEME + self.media + (f"?{query}" if query else "")

    def get(self, key: str, default: str | None = None) -> str | None:
        """A parameter's text."""
        return self.params.get(key, default)
