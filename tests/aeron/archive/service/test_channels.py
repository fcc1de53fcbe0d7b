"""Channels in the original's spelling, and its texts for those that are none."""

from __future__ import annotations

import pytest

from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.aeron.archive.service.channels import built, duration_text, parse_channel, refusal_text, size_text
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.transport.client.errors import RegistrationRefused


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (1408, "1408"), (8192, "8k"), (64 << 10, "64k"), (1 << 20, "1m"), (3 << 20, "3m"), (1 << 30, "1g")],
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [(0, "0ns"), (1, "1ns"), (1_000, "1us"), (100_000_000, "100ms"), (5_000_000_000, "5s"), (1_500_000_000, "1500ms")],
)
def test_durations(duration_ns: int, text: str) -> None:
    assert duration_text(duration_ns) == text


@pytest.mark.parametrize(
    ("channel", "text"),
    [
        ("", "Aeron URIs must start with 'aeron:', found: "),
        ("ipc", "Aeron URIs must start with 'aeron:', found: ipc"),
        ("aeron-spy:ipc", "Aeron URIs must start with 'aeron:', found: aeron-spy:ipc"),
        ("aeron:tcp?endpoint=a:1", "unknown media: tcp"),
        ("aeron:", "unknown media: "),
        ("aeron:ipc?session-id=x", "'session-id' must be a valid integer"),
        ("aeron:ipc?session-id=4294967296", "'session-id' must be a valid integer"),
    ],
)
def test_what_is_no_channel_is_refused_in_the_originals_words(channel: str, text: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        parse_channel(channel)
    assert caught.value.message == text


def test_a_channel_that_is_too_long_is_refused() -> None:
    with pytest.raises(ArchiveError, match=r"URI length \(5006\) exceeds max supported length \(4095\)"):
        parse_channel("aeron:" + "x" * 5000)


def test_own_parameters_come_in_the_originals_order() -> None:
    uri = parse_channel("aeron:udp?alias=x|session-id=tag:3|endpoint=localhost:1|mtu=9|unknown=1")
    own = {"linger": "0ns", "term-length": "64k", "mtu": "1408", "eos": None, "sparse": "true"}
    assert built(uri, own) == (
        "aeron:udp?endpoint=localhost:1|mtu=1408|term-length=64k|session-id=tag:3|linger=0ns|alias=x|sparse=true"
    )
    assert built(ChannelUri.parse("aeron:ipc"), {}) == "aeron:ipc"


def test_a_drivers_refusal_has_the_text_of_a_registration_exception() -> None:
    error = RegistrationRefused.of("add-subscription aeron:udp", 1, "ERROR - no endpoint: aeron:udp")
    assert refusal_text(error) == "ERROR - no endpoint: aeron:udp, errorCodeValue=1"
