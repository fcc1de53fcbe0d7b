"""Fixtures of the tests in this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.aeron.frames.framed_messages import FRAMERS, INITIAL_TERM, MTU, SESSION, STREAM, TERM


@pytest.fixture(params=FRAMERS)
def framer_of(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a framer, of a stream of this module's unless told otherwise."""

    def make(**options: Any) -> Any:
        mine = {"initial_term_id": INITIAL_TERM, "term_length": TERM, "mtu_length": MTU}
        return request.param(**(mine | {"session_id": SESSION, "stream_id": STREAM} | options))

    return make
