"""Calls the program's handlers: in the client's thread, one at a time. Their errors don't stop the client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from everlog.aeron.transport.client.options import ClientOptions, CounterHandler

FIRST = -1
"""Id of the handlers given in the options."""
_log = logging.getLogger("everlog.aeron")


class Handlers:
    """Keeps counter and close handlers by id, and calls handlers of all kinds."""

    def __init__(self, options: ClientOptions) -> None:
        self.is_calling = False
        """Whether a handler is running. It must not wait for the driver: only the client's thread reads the answers."""
        self.available_counter: dict[int, CounterHandler] = {}
        self.unavailable_counter: dict[int, CounterHandler] = {}
        self.close: dict[int, Callable[[], object]] = {}
        self._on_error = options.on_error
        if options.on_available_counter is not None:
            self.available_counter[FIRST] = options.on_available_counter
        if options.on_unavailable_counter is not None:
            self.unavailable_counter[FIRST] = options.on_unavailable_counter
        if options.on_close is not None:
            self.close[FIRST] = options.on_close

    def call(self, handler: Callable[..., object] | None, *arguments: Any) -> None:
        """Call a handler unless it is ``None``; its errors go to the error handler."""
        if handler is None:
            return
        was_calling, self.is_calling = self.is_calling, True
        try:
            handler(*arguments)
        except Exception as error:
            self.report(error)
        finally:
            self.is_calling = was_calling

    def call_all(self, handlers: dict[int, Callable[..., object]], *arguments: Any) -> None:
        """Call each handler; handlers may remove themselves."""
        for handler in list(handlers.values()):
            self.call(handler, *arguments)

    def report(self, error: BaseException) -> None:
        """Pass an error to the program's error handler, or log it."""
        if self._on_error is None:
            _log.error("%s", error, exc_info=error)
            return
        try:
            self._on_error(error)
        except Exception:
            _log.exception("the error handler failed while handling: %s", error)
