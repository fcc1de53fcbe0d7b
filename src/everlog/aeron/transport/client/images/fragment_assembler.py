"""Assembles messages from fragments. Source: FragmentAssembler, ControlledFragmentAssembler, BufferBuilder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from everlog.aeron.frames.constants import FLAG_BEGIN, FLAG_END, MAX_MESSAGE_BYTES, UNFRAGMENTED
from everlog.aeron.transport.client.images.actions import Action, too_long

if TYPE_CHECKING:
    from everlog.aeron.transport.client.images.header_twin import Header

FragmentHandler = Callable[[bytes, "Header"], object]


class _Unfinished:
    """A message whose last fragment has not arrived."""

    __slots__ = ("first", "length", "next_term_offset", "parts")

    def __init__(self, payload: bytes, header: Header) -> None:
        self.first = header
        self.parts = [payload]
        self.length = len(payload)
        self.next_term_offset = header.next_term_offset

    def add(self, payload: bytes, header: Header) -> None:
        """Add a fragment. Raises :class:`CorruptData` if the message gets too long."""
        if self.length + len(payload) > MAX_MESSAGE_BYTES:
            raise too_long(MAX_MESSAGE_BYTES)
        self.parts.append(payload)
        self.length += len(payload)
        self.next_term_offset = header.next_term_offset


class FragmentAssembler:
    """Wraps a handler of a poll so that it gets whole messages: ``handler(payload, header)``. The header is the first
    fragment's, with the message's length, the combined flags, and the position after the last fragment.

    One assembler serves all images of a subscription; it separates fragments by session. It drops fragments that do
    not continue the current message: after joining a stream in the middle, or after loss on an unreliable channel.
    """

    def __init__(self, handler: FragmentHandler) -> None:
        self.handler: Final = handler
        self._unfinished: dict[int, _Unfinished] = {}

    def __call__(self, payload: bytes, header: Header) -> object:
        """Handle one fragment."""
        if header.flags & UNFRAGMENTED == UNFRAGMENTED:
            return self.handler(payload, header)
        return self.add(payload, header)

    def add(self, payload: bytes, header: Header) -> object:
        """Handle a fragment of a longer message."""
        session_id = header.session_id
        if header.flags & FLAG_BEGIN:
            self._unfinished[session_id] = _Unfinished(payload, header)
            return None
        message = self._unfinished.get(session_id)
        if message is None:
            return None
        # Compare the term, too: a new image may continue at the same offset of a later term.
        if header.term_offset != message.next_term_offset or header.term_id != message.first.term_id:
            self._unfinished.pop(session_id, None)
            return None
        if not header.flags & FLAG_END:
            message.add(payload, header)
            return None
        return self._finish(message, payload, header)

    def _finish(self, message: _Unfinished, payload: bytes, header: Header) -> object:
        self._unfinished.pop(header.session_id, None)  # another thread may have freed it
        message.add(payload, header)
        whole = message.first.assembled(header, message.length)
        return self.handler(b"".join(message.parts), whole)

    def free_session_buffer(self, session_id: int) -> bool:
        """Drop a session's unfinished message. Call it when an image becomes unavailable; thread-safe. Returns whether
        the session had one."""
        return self._unfinished.pop(session_id, None) is not None

    def clear(self) -> None:
        """Drop all unfinished messages."""
        self._unfinished.clear()


class ControlledFragmentAssembler(FragmentAssembler):
    """The assembler for controlled polls. The handler's :class:`Action` applies to the message's last fragment, which
    ``ABORT`` delivers again; earlier fragments ``CONTINUE``."""

    def _finish(self, message: _Unfinished, payload: bytes, header: Header) -> object:
        whole = message.first.assembled(header, message.length + len(payload))
        if message.length + len(payload) > MAX_MESSAGE_BYTES:
            raise too_long(MAX_MESSAGE_BYTES)
        try:
            action = self.handler(b"".join((*message.parts, payload)), whole)
        except BaseException:
            self._unfinished.pop(header.session_id, None)
            raise
        if action is not Action.ABORT:
            self._unfinished.pop(header.session_id, None)
        return action
