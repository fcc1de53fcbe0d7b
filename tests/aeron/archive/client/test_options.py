"""Options: Aeron's defaults, checked once, without secrets in their text."""

from __future__ import annotations

from typing import Any

import pytest

from everlog.aeron.archive.client import ArchiveClientOptions, Credentials, ReplayParams
from everlog.aeron.archive.client.options import with_keywords
from everlog.errors import UsageError

CHANNELS: dict[str, Any] = {"control_request_channel": "aeron:ipc", "control_response_channel": "aeron:ipc"}


def test_defaults_are_those_of_aeron() -> None:
    options = ArchiveClientOptions(**CHANNELS)
    assert (options.control_request_stream_id, options.control_response_stream_id) == (10, 20)
    assert options.recording_events_stream_id == 30
    assert options.message_timeout_ns == 10_000_000_000
    assert options.message_retry_attempts == 3
    assert options.control_term_buffer_length == 65536


@pytest.mark.parametrize(
    "changed",
    [
        {"control_request_channel": ""},
        {"control_response_channel": ""},
        {"control_request_channel": "udp://host"},
        {"message_timeout_ms": 0},
        {"message_retry_attempts": 0},
        {"control_request_stream_id": 1 << 31},
        {"poll_interval_s": 0.0},
        {"client_name": "x" * 101},
        {"client_info": "ä"},
    ],
)
def test_wrong_values_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ArchiveClientOptions(**CHANNELS | changed)


def test_keywords_override_options_and_unknown_ones_are_refused() -> None:
    options = ArchiveClientOptions(**CHANNELS, client_name="first")
    assert with_keywords(options, {"client_name": "second"}).client_name == "second"
    with pytest.raises(UsageError, match="reconect"):
        with_keywords(options, {"reconect": True})


def test_control_channels_get_what_they_leave_open() -> None:
    options = ArchiveClientOptions(**CHANNELS)
    assert str(options.with_defaults("aeron:ipc")) == "aeron:ipc?term-length=65536|mtu=1408|sparse=true"
    assert str(options.with_defaults("aeron:ipc?mtu=4096|term-length=1m|sparse=false")) == (
        "aeron:ipc?mtu=4096|term-length=1m|sparse=false"
    )


def test_credentials_are_not_in_the_text_of_options() -> None:
    assert "secret" not in repr(ArchiveClientOptions(**CHANNELS, credentials_supplier=Credentials(b"secret")))


@pytest.mark.parametrize("wrong", [{"position": -1}, {"length": -2}, {"length": 5, "follow": True}])
def test_a_replay_has_a_length_or_follows(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ReplayParams(**wrong)
