"""An archive without a thread and without a clock of its own, so that the seed alone decides what happens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from everlog.aeron.archive import archive
from everlog.aeron.archive.service.replay import tokens
from everlog.aeron.archive.writing import ownership


class _StillHeartbeat:
    """Never beats: in simulated time no owner is silent."""

    def __init__(self, *_: object) -> None:
        pass

    @classmethod
    @contextmanager
    def during(cls, _: object) -> Iterator[None]:
        yield

    def stop(self) -> None:
        pass


class _SeededSecrets:
    """Replaces :mod:`secrets`: tokens come from the seed."""

    @staticmethod
    def token_bytes(count: int) -> bytes:
        return random.randbytes(count)


@contextmanager
def quiet(seed: int) -> Iterator[None]:
    """Open archives within this context: they have no heartbeat, and ids that are random come from the seed."""
    state: Any = random.getstate()
    with ExitStack() as patched:
        patched.enter_context(patch.object(archive, "Heartbeat", _StillHeartbeat))
        patched.enter_context(patch.object(ownership, "SILENT_S", float("inf")))
        patched.enter_context(patch.object(tokens, "secrets", _SeededSecrets))
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)
