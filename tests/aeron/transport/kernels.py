"""The compiled data path and its twin, so that tests run both."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

from everlog.aeron.transport.client.appending import exclusive_twin
from everlog.aeron.transport.client.images import image_twin, message_columns_twin
from everlog.kernel import memory_twin


@dataclass(frozen=True)
class Kernel:
    """Memory, and what works on it."""

    memory: type[Any]
    publication: Any
    image: Any
    message_columns: Any


def compiled() -> Kernel:
    """As it was built: without it these tests fail, so that a build that broke can't hide."""
    memory = importlib.import_module("everlog.kernel._memory")
    publication = importlib.import_module("everlog.aeron.transport.client.appending._publication")
    image = importlib.import_module("everlog.aeron.transport.client.images._image")
    message_columns = importlib.import_module("everlog.aeron.transport.client.images._message_columns")
    return Kernel(memory.Memory, publication, image, message_columns)


KERNELS = [
    pytest.param(Kernel(memory_twin.Memory, exclusive_twin, image_twin, message_columns_twin), id="twin"),
    pytest.param(compiled(), id="compiled"),
]
