"""What a client asked to record: which stream that is, and the parameters of an image's recording.

Source: ArchiveConductor (makeKey, startRecording, startRecordingSession, validateImageForExtendRecording).
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.archive.folder.recordings import Recording
from everlog.aeron.archive.protocol.requests import SourceLocation
from everlog.aeron.archive.recording.refusals import ArchiveError, ErrorCode
from everlog.aeron.archive.service.channels import parse_channel
from everlog.aeron.archive.service.requester import Requester
from everlog.aeron.archive.writing.stream_parameters import StreamParameters, stripped
from everlog.aeron.channel_uri import SPY_PREFIX
from everlog.aeron.transport.client.image import Image

_IDENTIFYING = ("endpoint", "interface", "control", "session-id", "tags")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingRequest:
    """What a client asked for. ``recording_id`` is that of the recording to extend; ``None``: each image becomes a new
    recording. With ``auto_stop`` the first recording that ends takes the subscription and its other recordings
    along."""

    requester: Requester
    correlation_id: int
    key: str
    channel: str
    stream_id: int
    auto_stop: bool
    recording_id: int | None = None


def stream_key(stream_id: int, channel: str) -> str:
    """The identity of a recorded stream: channels that differ in other parameters only are one. Raises
    :class:`InvalidChannel`."""
    uri = parse_channel(channel)
    params = "|".join(f"{name}={uri.params[name]}" for name in _IDENTIFYING if name in uri.params)
    return f"{stream_id}:{uri.media}" + (f"?{params}" if params else "")


def subscription_channel(channel: str, location: SourceLocation) -> str:
    """The channel to subscribe to: a local publisher that sends over UDP is spied on. Raises
    :class:`InvalidChannel`."""
    uri = parse_channel(channel)
    prefix = SPY_PREFIX if location is SourceLocation.LOCAL and uri.is_udp else ""
    return prefix + stripped(uri)


def parameters_of_image(image: Image, channel: str) -> StreamParameters:
    """The parameters of an image's stream. ``channel`` is the one that the client named; it says which images come, and
    nothing about the stream."""
    return StreamParameters(
        channel=channel,
        stripped_channel=stripped(parse_channel(channel)),
        source_identity=image.source_identity,
        stream_id=image.stream_id,
        session_id=image.session_id,
        initial_term_id=image.initial_term_id,
        term_length=image.term_buffer_length,
        mtu_length=image.mtu_length,
        join_position=image.join_position,
    )


def check_image_extends(recording: Recording, image: Image) -> None:
    """Raises :class:`ArchiveError` unless the image continues the recording where it stops, in the same terms."""
    stop = -1 if recording.stop_position is None else recording.stop_position
    pairs = (
        ("image.joinPosition", image.join_position, "rec.stopPosition", stop),
        ("image.initialTermId", image.initial_term_id, "rec.initialTermId", recording.initial_term_id),
        ("image.termBufferLength", image.term_buffer_length, "rec.termBufferLength", recording.term_buffer_length),
        ("image.mtuLength", image.mtu_length, "rec.mtuLength", recording.mtu_length),
    )
    for name, found, wanted, expected in pairs:
        if found != expected:
            message = f"cannot extend recording {recording.recording_id} {name}={found} != {wanted}={expected}"
            error = ArchiveError("image", found=f"{name}={found}", expected=str(expected), message=message)
            raise error.coded(ErrorCode.INVALID_EXTENSION)
