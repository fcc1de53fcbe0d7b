"""Image readers: compiled, or their Python twins in :mod:`everlog.aeron.transport.client.images.image_twin`, which
document them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.transport.client.images.actions import Action as Action
from everlog.aeron.transport.client.images.fragment_assembler import (
    ControlledFragmentAssembler as ControlledFragmentAssembler,
)
from everlog.aeron.transport.client.images.fragment_assembler import FragmentAssembler as FragmentAssembler
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.client.images.header_twin import Header as Header
    from everlog.aeron.transport.client.images.image_twin import ImageReader as ImageReader
    from everlog.aeron.transport.client.images.message_columns_twin import MessageColumns as MessageColumns
else:
    _IMAGES = "everlog.aeron.transport.client.images"
    Header = load(f"{_IMAGES}._header", f"{_IMAGES}.header_twin").Header
    ImageReader = load(f"{_IMAGES}._image", f"{_IMAGES}.image_twin").ImageReader
    MessageColumns = load(f"{_IMAGES}._message_columns", f"{_IMAGES}.message_columns_twin").MessageColumns
