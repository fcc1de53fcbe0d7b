"""Readers of images: compiled, or their twins (:mod:`everlog.aeron.transport.client.image_twin`), which say what they
do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.transport.client.actions import Action as Action
from everlog.aeron.transport.client.fragment_assembler import ControlledFragmentAssembler as ControlledFragmentAssembler
from everlog.aeron.transport.client.fragment_assembler import FragmentAssembler as FragmentAssembler
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.client.header_twin import Header as Header
    from everlog.aeron.transport.client.image_twin import ImageReader as ImageReader
    from everlog.aeron.transport.client.message_columns_twin import MessageColumns as MessageColumns
else:
    _CLIENT = "everlog.aeron.transport.client"
    Header = load(f"{_CLIENT}._header", f"{_CLIENT}.header_twin").Header
    ImageReader = load(f"{_CLIENT}._image", f"{_CLIENT}.image_twin").ImageReader
    MessageColumns = load(f"{_CLIENT}._message_columns", f"{_CLIENT}.message_columns_twin").MessageColumns
