"""Requests to a live archive that no honest client sends: valid ones with values that are often mishandled, and such
requests with damaged bytes. A seed gives the same requests."""

from __future__ import annotations

import random
from dataclasses import fields
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from everlog.aeron.archive.protocol.codec import PROTOCOL_VERSION, encode
from everlog.aeron.archive.protocol.requests import (
    REQUESTS,
    AuthConnect,
    CloseSession,
    Connect,
    SourceLocation,
)
from everlog.aeron.messages import Data, Message, Number
from everlog.testing.fuzz.mutations import MUTATIONS

CHANNELS = (
    "aeron:ipc",
    "aeron:ipc?term-length=64k",
    "aeron:ipc?term-length=64k|session-id=7",
    "aeron:ipc?init-term-id=5|term-id=9|term-offset=64|term-length=64k",
    "aeron:ipc?alias=../../x",
    "aeron:ipc?control-mode=response",
    "aeron:ipc?" + "x=y|" * 1000 + "a=b",
    "aeron-spy:aeron:ipc",
    "",
    "aeron:",
    "tcp://127.0.0.1",
    "\0" * 100,
)
UDP_CHANNELS = (
    "aeron:udp?endpoint=127.0.0.1:24931",
    "aeron:udp?endpoint=127.0.0.1:0",
    "aeron:udp?control=127.0.0.1:24932|control-mode=dynamic",
    "aeron:udp?control-mode=manual",
    "aeron-spy:aeron:udp?endpoint=127.0.0.1:24931",
)
"""Requests with these are not damaged: other addresses are not to be asked for, or written to."""
LAST_RECORDINGS = 6
NO_RECORDINGS = (-1, -2, 1 << 40)
POSITIONS = (0, 32, 64, 65_536, 131_072, 262_144, -1, -2, -3, 31, 1 << 40)
STREAM_IDS = (1, 2, 3, 10, 20, 30, -1)
COUNTS = (0, 1, 2, 10, 1000, -1)
INT32, INT64 = 31, 63
PART_DAMAGED, PART_OF_STRANGERS = 0.3, 0.05


class HostileRequests:
    """Makes requests for the session ``session_id`` and about recordings up to ``last_recording_id``, which its user
    keeps up to date."""

    def __init__(self, seed: int) -> None:
        self.session_id = 0
        self.last_recording_id = 0
        self._rng = random.Random(seed)
        self._correlation_id = -1_000

    def next(self) -> bytes:
        """Return the next request."""
        rng = self._rng
        kind = rng.choice(REQUESTS)
        while kind is CloseSession and rng.random() < 0.9:
            kind = rng.choice(REQUESTS)
        is_damaged = rng.random() < PART_DAMAGED
        data = encode(self._made(kind, is_damaged))
        if is_damaged:
            for _ in range(rng.choice((1, 1, 2, 4))):
                data = rng.choice(MUTATIONS)(data, rng) or b"\0"
        return data[:8000]

    def _made(self, kind: type[Message], is_damaged: bool) -> Message:
        hints = get_type_hints(kind, include_extras=True)
        values: dict[str, Any] = {}
        for field in fields(kind):  # type: ignore[arg-type]
            hint = hints[field.name]
            assert get_origin(hint) is Annotated
            declared = get_args(hint)[1]
            values[field.name] = self._value(field.name, declared, is_damaged)
        if kind in (AuthConnect, Connect) and self._rng.random() < 0.5:
            values["version"] = PROTOCOL_VERSION
        return kind(**values)

    def _value(self, name: str, declared: Number | Data, is_damaged: bool) -> Any:
        rng = self._rng
        if isinstance(declared, Data):
            if declared.encoding is None or not name.endswith("channel"):
                text = rng.choice(("", "a", "x" * 300))
            else:
                text = rng.choice(CHANNELS if is_damaged or rng.random() < 0.8 else UDP_CHANNELS)
            return text if declared.encoding is not None else text.encode()
        if declared.kind is SourceLocation:
            return rng.choice(list(SourceLocation))
        if declared.kind is bool:
            return rng.random() < 0.5
        if name == "control_session_id":
            return self.session_id if rng.random() >= PART_OF_STRANGERS else rng.choice((0, -1, self.session_id - 1))
        if name == "correlation_id":
            self._correlation_id -= 1
            return self._correlation_id
        return self._number(name, INT64 if declared.code == "q" else INT32)

    def _number(self, name: str, bits: int) -> int:
        rng = self._rng
        if rng.random() < 0.1:
            return rng.choice(((1 << bits) - 1, -(1 << bits), rng.getrandbits(bits), -rng.getrandbits(bits)))
        if "recording_id" in name:
            last = self.last_recording_id
            return rng.choice(NO_RECORDINGS) if rng.random() < 0.1 else rng.randrange(last - LAST_RECORDINGS, last + 2)
        for part, pool in (
            ("position", POSITIONS),
            ("length", POSITIONS),
            ("stream_id", STREAM_IDS),
            ("token", (-1, -1, 0)),
        ):
            if part in name:
                found = rng.choice(pool)
                return found if found < 1 << bits else 0
        return rng.choice(COUNTS)
