"""Receivers that can't use a publication: its publishers are told. Source: DriverConductor.onPublicationError."""

from __future__ import annotations

from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.transport.driver.commands.conductor_proxy import PublicationError
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.protocol import commands


def tell(context: DriverContext, error: PublicationError) -> None:
    """Into the error log, and to all clients."""
    text = (
        f"onPublicationError: registrationId={error.registration_id},"
        f" destinationRegistrationId={error.destination_registration_id}, sessionId={error.session_id},"
        f" streamId={error.stream_id}, receiverId={error.receiver_id}, groupId={error.group_tag},"
        f" errorCode={int(error.error_code)}, errorMessage={error.message}"
    )
    context.errors.record(AeronEvent(text))
    context.client_proxy.transmit(
        commands.OnPublicationError(
            error.registration_id,
            error.destination_registration_id,
            error.session_id,
            error.stream_id,
            error.receiver_id,
            error.group_tag,
            error.address,
            error.error_code,
            error.message,
        )
    )
