"""Finds the clients that have sent requests."""

from __future__ import annotations

from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.images.image_scan import ImageScan
from everlog.aeron.transport.client.subscription import Subscription


class ControlImages:
    """The images of one control subscription. Only those with requests are polled: clients may be many, and most of
    them silent."""

    def __init__(self, subscription: Subscription) -> None:
        self.scan: ImageScan[Image] = ImageScan(notices_ends=False)
        self._subscription = subscription
        self._known: tuple[Image, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether the scan has all images of the subscription. One may come while the client waits for its driver."""
        return self._subscription.images is self._known

    def due(self) -> list[Image]:
        """Return the images with something to read."""
        if not self.is_current:
            self._follow(self._subscription.images)
        return self.scan.due()

    def _follow(self, images: tuple[Image, ...]) -> None:
        before, now = ({image.correlation_id for image in group} for group in (self._known, images))
        for image in self._known:
            if image.correlation_id not in now:
                self.scan.discard(image)
        for image in images:
            if image.correlation_id not in before:
                self.scan.add(image, image)
        self._known = images
