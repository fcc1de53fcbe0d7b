"""A running archive in this process, for the verbs that go through its control channel."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from everlog.aeron.archive.client import AeronArchive
from everlog.aeron.archive.service.embedded import EmbeddedArchive
from everlog.aeron.archive.service.security.rules_file import load_rules
from everlog.aeron.transport.client import ExclusivePublication
from tests.aeron.archive.client.scripted_archive import in_process_driver
from tests.aeron.archive.service.served import CHANNEL, connect, settings, until

OPERATOR, VIEWER = "correct-horse-battery", "staple-of-another"
RULES = f"""
allow = ["ListRecordings", "MaxRecordedPosition"]

[principal.operator]
credentials = "{OPERATOR}"
allow = ["*"]

[principal.viewer]
credentials = "{VIEWER}"
"""
SECURED_STREAM = 11


@dataclass
class Served:
    """The archive in ``folder``, whose control channel is ``channel``; the one in ``secured`` wants credentials.
    ``client`` is one of the first."""

    folder: Path
    channel: str
    driver_folder: str
    secured: Path
    client: AeronArchive
    _streams: Iterator[int] = field(default_factory=lambda: itertools.count(1_001))

    def stream(self) -> int:
        """The id of a stream that no other test has."""
        return next(self._streams)

    def target(self, kind: str) -> list[str]:
        """The archive as the command line names it: by its ``folder``, or its ``channel``."""
        return [str(self.folder)] if kind == "folder" else [self.channel]

    def options(self, kind: str) -> list[str]:
        """The options that this target needs."""
        return [] if kind == "folder" else ["--aeron-dir", self.driver_folder]

    def recording_of(self, stream_id: int) -> int:
        """The id of a stream's newest recording, once it is there."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = [each.recording_id for each in self.client.list_recordings_for_uri("ipc", stream_id)]
            return bool(found)

        until(is_there)
        return found[-1]

    def begin(self, stream_id: int, payloads: list[bytes], channel: str = CHANNEL) -> tuple[int, ExclusivePublication]:
        """Record a stream and publish to it, and go on. A message's reserved value is its number."""
        publication = self.client.add_recorded_exclusive_publication(channel, stream_id)
        recording_id = self.recording_of(stream_id)
        self.publish(recording_id, publication, payloads)
        return recording_id, publication

    def publish(self, recording_id: int, publication: ExclusivePublication, payloads: list[bytes]) -> None:
        """Publish, and wait until it is recorded."""
        until(lambda: publication.is_connected)
        position = publication.position
        for number, payload in enumerate(payloads, 1):
            position = publication.send(payload, reserved_value=number)
        until(lambda: self.client.recording_position(recording_id) == position)

    def end(self, recording_id: int, publication: ExclusivePublication) -> int:
        """Stop a recording; returns its stop position."""
        self.client.stop_recording_of(publication)
        until(lambda: self.client.stop_position(recording_id) is not None)
        publication.close()
        return self.client.stop_position(recording_id) or 0

    def recorded(self, payloads: list[bytes], channel: str = CHANNEL) -> int:
        """A stopped recording with these messages, of a stream of its own."""
        recording_id, publication = self.begin(self.stream(), payloads, channel)
        self.end(recording_id, publication)
        return recording_id


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Both archives, in folders below ``folder``."""
    rules = folder / "rules.toml"
    rules.write_text(RULES)
    rules.chmod(0o600)
    security = load_rules(str(rules))
    with ExitStack() as opened:
        driver = opened.enter_context(in_process_driver())
        chosen = settings(control_channel="aeron:udp?endpoint=127.0.0.1:0", max_concurrent_recordings=50)
        archive = opened.enter_context(EmbeddedArchive(folder / "archive", chosen, driver_folder=driver.dir))
        opened.enter_context(
            EmbeddedArchive(
                folder / "secured",
                settings(local_control_stream_id=SECURED_STREAM),
                driver_folder=driver.dir,
                authenticator=security.authenticator,
                authorisation=security.authorisation,
            )
        )
        client = opened.enter_context(connect(driver.dir, poll_interval_s=0.2))
        yield Served(folder / "archive", archive.control_channels[0], driver.dir, folder / "secured", client)
