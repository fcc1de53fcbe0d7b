"""Readers of images: compiled, or their twins (:mod:`.image_twin`), which say what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.aeron.transport.client.actions import Action as Action
from everlog.aeron.transport.client.fragment_assembler import ControlledFragmentAssembler as ControlledFragmentAssembler
from everlog.aeron.transport.client.fragment_assembler import FragmentAssembler as FragmentAssembler
from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.client.header_twin import Header as Header
    from everlog.aeron.transport.client.image_twin import ImageReader as ImageReader
    from everlog.aeron.transport.client.image_twin import MessageColumns as MessageColumns
else:
    _loaded = load("everlog.aeron.transport.client._image", "everlog.aeron.transport.client.image_twin")
    Header, ImageReader, MessageColumns = _loaded.Header, _loaded.ImageReader, _loaded.MessageColumns
