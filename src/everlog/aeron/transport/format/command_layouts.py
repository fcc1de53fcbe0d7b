"""Every struct of the control protocol between clients and a media driver: commands in the to-driver buffer, events in
the to-clients buffer. All are little-endian."""

from __future__ import annotations

from everlog.layout import Layout, data, fixed_bytes, i32, i64, u16


class RecordHeader(
    Layout, size=8, title="cnc.dat: record header", source="Agrona, RecordDescriptor of ring buffer and broadcast"
):
    """Precedes each command in the to-driver buffer and each event in the to-clients buffer. Records begin at multiples
    of 8 bytes."""

    length: int = i32(0, "including this header; to-driver: 0 or negative while a client writes it")
    type_id: int = i32(4, "of a command or event; -1: padding up to the buffer's end")


# Commands. Texts (ASCII) or bytes follow a struct, each after its length (int32), which is at a multiple of 4 bytes
# from the struct's start.


class CorrelatedCommand(Layout, size=16, title="Command: keepalive, close", source="CorrelatedMessageFlyweight"):
    """At the start of all commands. Types 0x06 keepalive and 0x0B close consist only of it."""

    client_id: int = i64(0)
    correlation_id: int = i64(8, "a number of the to-driver buffer's counter; the response repeats it")


class PublicationCommand(
    Layout,
    size=20,
    title="Command: add publication",
    source="PublicationMessageFlyweight",
    var_data=("channel",),
):
    """Types 0x01 add publication, 0x03 add exclusive publication."""

    client_id: int = i64(0)
    correlation_id: int = i64(8, "the publication's registration id")
    stream_id: int = i32(16)


class SubscriptionCommand(
    Layout,
    size=28,
    title="Command: add subscription",
    source="SubscriptionMessageFlyweight",
    var_data=("channel",),
):
    """Type 0x04."""

    client_id: int = i64(0)
    correlation_id: int = i64(8, "the subscription's registration id")
    registration_correlation_id: int = i64(16, "-1")
    stream_id: int = i32(24)


class RemoveCommand(
    Layout, size=24, title="Command: remove subscription, remove counter", source="RemoveMessageFlyweight"
):
    """Types 0x05 remove subscription, 0x0A remove counter, and, from old clients, 0x02 remove publication."""

    client_id: int = i64(0)
    correlation_id: int = i64(8)
    registration_id: int = i64(16, "of the resource to remove")


class RemovePublicationCommand(
    Layout, size=32, title="Command: remove publication", source="RemovePublicationFlyweight"
):
    """Type 0x02."""

    client_id: int = i64(0)
    correlation_id: int = i64(8)
    registration_id: int = i64(16)
    flags: int = i64(24, "1: revoke the publication; old clients omit the field")


class DestinationCommand(
    Layout,
    size=24,
    title="Command: add or remove a destination",
    source="DestinationMessageFlyweight",
    var_data=("channel",),
):
    """Types 0x07 and 0x08 of a publication, 0x0C and 0x0D of a subscription."""

    client_id: int = i64(0)
    correlation_id: int = i64(8, "the destination's registration id")
    registration_correlation_id: int = i64(16, "of the publication or subscription")


class DestinationByIdCommand(
    Layout, size=32, title="Command: remove a destination by id", source="DestinationByIdMessageFlyweight"
):
    """Type 0x11."""

    client_id: int = i64(0)
    correlation_id: int = i64(8)
    resource_registration_id: int = i64(16, "of the publication or subscription")
    destination_registration_id: int = i64(24)


class CounterCommand(
    Layout,
    size=20,
    title="Command: add counter",
    source="CounterMessageFlyweight",
    var_data=(data("key"), "label"),
):
    """Type 0x09."""

    client_id: int = i64(0)
    correlation_id: int = i64(8, "the counter's registration id")
    counter_type_id: int = i32(16)


class StaticCounterCommand(
    Layout,
    size=28,
    title="Command: add static counter",
    source="StaticCounterMessageFlyweight",
    var_data=(data("key"), "label"),
):
    """Type 0x0F: a counter that outlives its client."""

    client_id: int = i64(0)
    correlation_id: int = i64(8)
    registration_id: int = i64(16, "chosen by the client; with the type it identifies the counter")
    counter_type_id: int = i32(24)


class TerminateCommand(
    Layout,
    size=16,
    title="Command: terminate driver",
    source="TerminateDriverFlyweight",
    var_data=(data("token"),),
):
    """Type 0x0E."""

    client_id: int = i64(0)
    correlation_id: int = i64(8)


class RejectImageCommand(
    Layout, size=32, title="Command: reject image", source="RejectImageFlyweight", var_data=("reason",)
):
    """Type 0x10."""

    client_id: int = i64(0)
    correlation_id: int = i64(8)
    image_correlation_id: int = i64(16)
    position: int = i64(24, "the client's position in the image")


class SessionIdCommand(
    Layout, size=20, title="Command: next session id", source="GetNextAvailableSessionIdMessageFlyweight"
):
    """Type 0x12."""

    client_id: int = i64(0)
    correlation_id: int = i64(8)
    stream_id: int = i32(16)


# Events


class ErrorEvent(Layout, size=12, title="Event: error", source="ErrorResponseFlyweight", var_data=("message",)):
    """Type 0xF01: a command was refused, or a channel endpoint failed."""

    correlation_id: int = i64(0, "of the command; for a failed endpoint: its status indicator")
    error_code: int = i32(8)


class ImageReadyEvent(
    Layout,
    size=28,
    title="Event: available image",
    source="ImageBuffersReadyFlyweight",
    var_data=("log_file_name", "source_identity"),
):
    """Type 0xF02, for each subscription that the image is for."""

    correlation_id: int = i64(0, "of the image")
    session_id: int = i32(8)
    stream_id: int = i32(12)
    subscription_registration_id: int = i64(16)
    subscriber_position_id: int = i32(24, "counter")


class PublicationReadyEvent(
    Layout,
    size=32,
    title="Event: publication ready",
    source="PublicationBuffersReadyFlyweight",
    var_data=("log_file_name",),
):
    """Types 0xF03, and 0xF06 for an exclusive publication."""

    correlation_id: int = i64(0, "of the command")
    registration_id: int = i64(8, "of the first command that added this publication; names its log buffer")
    session_id: int = i32(16)
    stream_id: int = i32(20)
    position_limit_counter_id: int = i32(24)
    channel_status_id: int = i32(28, "counter; -1: none, as for IPC")


class OperationSucceededEvent(Layout, size=8, title="Event: operation succeeded", source="OperationSucceededFlyweight"):
    """Type 0xF04."""

    correlation_id: int = i64(0, "of the command")


class ImageEvent(
    Layout, size=20, title="Event: unavailable image", source="ImageMessageFlyweight", var_data=("channel",)
):
    """Type 0xF05, for each subscription that the image was for."""

    correlation_id: int = i64(0, "of the image")
    subscription_registration_id: int = i64(8)
    stream_id: int = i32(16)


class SubscriptionReadyEvent(Layout, size=12, title="Event: subscription ready", source="SubscriptionReadyFlyweight"):
    """Type 0xF07."""

    correlation_id: int = i64(0, "of the command")
    channel_status_id: int = i32(8, "counter; -1: none, as for IPC")


class CounterEvent(
    Layout,
    size=12,
    title="Event: counter ready, static counter, unavailable counter",
    source="CounterUpdateFlyweight, StaticCounterFlyweight",
):
    """Types 0xF08 ready, 0xF09 unavailable, 0xF0B static counter. The first two are for all clients."""

    correlation_id: int = i64(0, "of the command: the counter's registration id")
    counter_id: int = i32(8)


class ClientTimeoutEvent(Layout, size=8, title="Event: client timeout", source="ClientTimeoutFlyweight"):
    """Type 0xF0A."""

    client_id: int = i64(0)


class PublicationErrorEvent(
    Layout,
    size=64,
    title="Event: publication error",
    source="PublicationErrorFrameFlyweight",
    var_data=("message",),
):
    """Type 0xF0C: a receiver reported an error to a publication, for example that it rejects the image."""

    registration_id: int = i64(0, "of the publication")
    destination_registration_id: int = i64(8)
    session_id: int = i32(16)
    stream_id: int = i32(20)
    receiver_id: int = i64(24)
    group_tag: int = i64(32)
    address_type: int = u16(40, "1 IPv4, 2 IPv6")
    port: int = u16(42)
    address: bytes = fixed_bytes(44, 16, "in network order; IPv4 uses the first 4 bytes")
    error_code: int = i32(60)


class SessionIdEvent(Layout, size=12, title="Event: next session id", source="NextAvailableSessionIdFlyweight"):
    """Type 0xF0D."""

    correlation_id: int = i64(0, "of the command")
    session_id: int = i32(8)
