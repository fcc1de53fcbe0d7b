"""Reports errors of a publication's receivers to its publishers. Source: DriverConductor.onPublicationError."""

from __future__ import annotations

from everlog.aeron.java_exception import AeronEvent
from everlog.aeron.transport.driver.commands.conductor_proxy import PublicationError
from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.protocol import commands


def report(context: DriverContext, error: PublicationError) -> None:
    """Write the error to the error log, and send it to all clients."""
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
