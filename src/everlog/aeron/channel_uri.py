"""Aeron channel URIs: ``aeron:udp?endpoint=host:port|term-length=64k``, or one with ``aeron-spy:`` before it.
Source: Aeron, ChannelUri."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.aeron.java_exception import JavaException
from everlog.errors import UsageError

SPY_PREFIX = "aeron-spy:"
SCHEME = "aeron:"
IPC, UDP = "ipc", "udp"
MEDIA = (IPC, UDP)
MAX_URI_LENGTH = 4095


class InvalidChannel(UsageError):
    """A channel can't be used as it is; ``where`` names the parameter that is wrong, if it is one. ``java``: what
    Aeron's Java driver throws."""

    def __init__(
        self,
        where: str,
        *,
        found: str | None = None,
        expected: str | None = None,
        java: JavaException | None = None,
    ) -> None:
        super().__init__(where, found=found, expected=expected)
        self.java = java

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.where,), {"found": self.found, "expected": self.expected, "java": self.java}


@dataclass(frozen=True, slots=True)
class ChannelUri:
    """``media`` is ``ipc`` or ``udp``; ``params`` keep the order in which they were written."""

    media: str
    params: Mapping[str, str] = field(default_factory=dict)
    is_spy: bool = False

    @classmethod
    def parse(cls, text: str) -> ChannelUri:
        """Raises :class:`InvalidChannel` for what is no channel. A key that comes twice keeps its last value."""
        if len(text) > MAX_URI_LENGTH:
            raise InvalidChannel("channel", found=f"{len(text)} letters", expected=f"{MAX_URI_LENGTH} at most")
        rest = text.removeprefix(SPY_PREFIX)
        if not rest.startswith(SCHEME):
            raise InvalidChannel("channel", found=repr(text), expected="aeron:MEDIA?KEY=VALUE|...")
        media, mark, query = rest.removeprefix(SCHEME).partition("?")
        if media not in MEDIA:
            raise InvalidChannel("channel", found=f"media {media!r}", expected=" or ".join(MEDIA))
        params: dict[str, str] = {}
        for part in query.split("|") if mark else ():
            key, equals, value = part.partition("=")
            if not key or not equals:
                raise InvalidChannel("channel", found=f"{part!r}", expected="KEY=VALUE")
            params[key] = value
        return cls(media, params, rest is not text and text.startswith(SPY_PREFIX))

    def __str__(self) -> str:
        query = "|".join(f"{key}={value}" for key, value in self.params.items())
        return (SPY_PREFIX if self.is_spy else "") + SCHEME + self.media + (f"?{query}" if query else "")

    def get(self, key: str, default: str | None = None) -> str | None:
        """A parameter's text."""
        return self.params.get(key, default)

    def with_params(self, changes: Mapping[str, str | None]) -> ChannelUri:
        """One with other parameters; ``None`` takes one out."""
        params = {key: value for key, value in {**self.params, **changes}.items() if value is not None}
        return ChannelUri(self.media, params, self.is_spy)

    @property
    def is_udp(self) -> bool:
        """Whether it is a channel of the network."""
        return self.media == UDP

    @property
    def is_ipc(self) -> bool:
        """Whether it is a channel inside one machine."""
        return self.media == IPC

    @property
    def channel_tag(self) -> str | None:
        """The first of ``tags``: names the channel, that is, its endpoint."""
        return self._tag(0)

    @property
    def entity_tag(self) -> str | None:
        """The second of ``tags``: names the publication or subscription."""
        return self._tag(1)

    def _tag(self, index: int) -> str | None:
        text = self.params.get("tags")
        tags = [] if text is None else text.split(",")
        return tags[index] if index < len(tags) else None
