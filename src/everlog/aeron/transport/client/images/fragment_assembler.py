"""Puts messages together that came as several fragments. Source: FragmentAssembler, ControlledFragmentAssembler,
BufferBuilder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from everlog.aeron.frames.constants import FLAG_BEGIN, FLAG_END, MAX_MESSAGE_BYTES, UNFRAGMENTED
from everlog.aeron.transport.client.images.actions import Action, too_long

if TYPE_CHECKING:
    from everlog.aeron.transport.client.images.header_twin import Header

FragmentHandler = Callable[[bytes, "Header"], object]


class _Unfinished:
    """A message whose last fragment has not come."""

    __slots__ = ("first", "length", "next_term_offset", "parts")

    def __init__(self, payload: bytes, header: Header) -> None:
        self.first = header
        self.parts = [payload]
        self.length = len(payload)
        self.next_term_offset = header.next_term_offset

    def add(self, payload: bytes, header: Header) -> None:
        """One more fragment. Raises :class:`CorruptData` when it is too much of a message."""
        if self.length + len(payload) > MAX_MESSAGE_BYTES:
            raise too_long(MAX_MESSAGE_BYTES)
        self.parts.append(payload)
        self.length += len(payload)
        self.next_term_offset = header.next_term_offset


class FragmentAssembler:
    """Give it to a poll instead of ``handler``, which then gets whole messages: ``handler(payload, header)``. The
    header is the first fragment's, with the whole length, the flags of all, and the position behind the last.

    One serves all images of a subscription: fragments are told apart by their session. What does not continue the
    message that was begun (an image that was joined in the middle, loss on an unreliable channel) is dropped.
    """

    def __init__(self, handler: FragmentHandler) -> None:
        self.handler: Final = handler
        self._unfinished: dict[int, _Unfinished] = {}

    def __call__(self, payload: bytes, header: Header) -> object:
        """One fragment."""
        if header.flags & UNFRAGMENTED == UNFRAGMENTED:
            return self.handler(payload, header)
        return self.add(payload, header)

    def add(self, payload: bytes, header: Header) -> object:
        """A fragment of a longer message."""
        session_id = header.session_id
        if header.flags & FLAG_BEGIN:
            self._unfinished[session_id] = _Unfinished(payload, header)
            return None
        message = self._unfinished.get(session_id)
        if message is None:
            return None
        # The term too: an image that came anew may go on at the same offset of a later one.
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
        """Forget what a session began: for a handler of unavailable images, in any thread. Whether there was
        something."""
        return self._unfinished.pop(session_id, None) is not None

    def clear(self) -> None:
        """Forget all that was begun."""
        self._unfinished.clear()


class ControlledFragmentAssembler(FragmentAssembler):
    """The same for controlled polls: the handler's :class:`Action` is that of the last fragment, which comes again on
    ``ABORT``; fragments before it are ``CONTINUE``."""

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
