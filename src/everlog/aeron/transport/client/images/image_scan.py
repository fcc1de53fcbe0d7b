"""Finds, among many images, those that need a poll: compiled, or its twin
:mod:`everlog.aeron.transport.client.images.scan_twin`, which documents it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.kernel import load

if TYPE_CHECKING:
    from everlog.aeron.transport.client.images.scan_twin import ImageScan as ImageScan
else:
    _IMAGES = "everlog.aeron.transport.client.images"
    ImageScan = load(f"{_IMAGES}._scan", f"{_IMAGES}.scan_twin").ImageScan
