"""nats-py's client for connections that are to be encrypted. Its own one goes on in plain text, password and all, where
the server says that it has no TLS, or somebody in between says so. Imported only where nats-py is."""

from __future__ import annotations

from nats.aio.client import Client

from everlog.errors import UsageError


class EncryptedClient(Client):  # type: ignore[misc]  # nats-py is an extra
    """Sends CONNECT, the message with user, password and token, over TLS or not at all."""

    def _connect_command(self) -> bytes:
        # What nats-py has sent up to here is nothing but a TLS handshake.
        if not self._is_encrypted():
            server = self._current_server
            raise UsageError(
                "server" if server is None else server.uri.netloc,
                found="a server that offers no TLS",
                expected="TLS, as tls://, wss:// or certificates ask for",
                hint="nothing was sent to it; nats:// without certificates goes without TLS",
            )
        command: bytes = super()._connect_command()
        return command

    def _is_encrypted(self) -> bool:
        """By what the transport is; one that is not known is not encrypted."""
        transport = self._transport
        writer = getattr(transport, "_io_writer", None)
        if writer is not None:
            return writer.get_extra_info("ssl_object") is not None
        return getattr(transport, "_using_tls", None) is True
