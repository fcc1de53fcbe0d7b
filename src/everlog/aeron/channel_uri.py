"""Aeron channel URIs: ``aeron:udp?endpoint=host:port|term-length=64k``, optionally prefixed by ``aeron-spy:``. Source:
Aeron, ChannelUri."""

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
    """A channel URI is invalid or can't be used. ``where`` names the invalid parameter, if it is one. ``java`` is the
    exception that Aeron's Java driver throws."""

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
    """A parsed channel. ``media`` is ``ipc`` or ``udp``; ``params`` keep their order in the text."""

    media: str
    params: Mapping[str, str] = field(default_factory=dict)
    is_spy: bool = False

    @classmethod
    def parse(cls, text: str) -> ChannelUri:
        """Parse a channel. The last value of a repeated key counts. Raises :class:`InvalidChannel`."""
        if len(text) > MAX_URI_LENGTH:
            raise InvalidChannel("channel", found=f"{len(text)}", expected=f"at most {MAX_URI_LENGTH} characters long")
        rest = text.removeprefix(SPY_PREFIX)
        if not rest.startswith(SCHEME):
            raise InvalidChannel("channel", found=repr(text), expected="aeron:MEDIA?KEY=VALUE|...")
        media, mark, query = rest.removeprefix(SCHEME).partition("?")
        if media not in MEDIA:
            raise InvalidChannel("channel media", found=repr(media), expected=" or ".join(MEDIA))
        params: dict[str, str] = {}
        for part in query.split("|") if mark else ():
            key, equals, value = part.partition("=")
            if not key or not equals:
                raise InvalidChannel("channel", found=f"parameter {part!r}", expected="parameters KEY=VALUE")
            params[key] = value
        return cls(media, params, rest is not text and text.startswith(SPY_PREFIX))

    def __str__(self) -> str:
        query = "|".join(f"{key}={value}" for key, value in self.params.items())
        return (SPY_PREFIX if self.is_spy else "") + SCHEME + self.media + (f"?{query}" if query else "")

    def get(self, key: str, default: str | None = None) -> str | None:
        """A parameter's text, or ``default`` if it is missing."""
        return self.params.get(key, default)

    def with_params(self, changes: Mapping[str, str | None]) -> ChannelUri:
        """A copy with changed parameters; the value ``None`` removes one."""
        params = {key: value for key, value in {**self.params, **changes}.items() if value is not None}
        return ChannelUri(self.media, params, self.is_spy)

    @property
    def is_udp(self) -> bool:
        """Whether the channel goes over the network."""
        return self.media == UDP

    @property
    def is_ipc(self) -> bool:
        """Whether the channel stays within one machine."""
        return self.media == IPC

    @property
    def channel_tag(self) -> str | None:
        """The first of ``tags``: it names the channel, that is, its endpoint."""
        return self._tag(0)

    @property
    def entity_tag(self) -> str | None:
        """The second of ``tags``: it names the publication or subscription."""
        return self._tag(1)

    def _tag(self, index: int) -> str | None:
        text = self.params.get("tags")
        tags = [] if text is None else text.split(",")
        return tags[index] if index < len(tags) else None
