"""nats-py's client for connections that must be encrypted. The original continues in plain text, password included, if
the server, or someone in between, says that it has no TLS. Import this module only if nats-py is installed."""

from __future__ import annotations

from nats.aio.client import Client

from everlog.errors import UsageError


class EncryptedClient(Client):  # type: ignore[misc]  # nats-py is an extra
    """Sends CONNECT, which has the user, password and token, only over TLS."""

    def _connect_command(self) -> bytes:
        # Up to here nats-py has sent nothing but a TLS handshake.
        if not self._is_encrypted():
            server = self._current_server
            raise UsageError(
                "server" if server is None else server.uri.netloc,
                found="a server that offers no TLS",
                expected="TLS, as tls://, wss:// or certificates require",
                message=f"server {'' if server is None else server.uri.netloc} offers no TLS, but it is required",
                hint="nothing was sent to it; use nats:// without certificates to connect without TLS",
            )
        command: bytes = super()._connect_command()
        return command

    def _is_encrypted(self) -> bool:
        """Whether the transport uses TLS; an unknown transport counts as unencrypted."""
        transport = self._transport
        writer = getattr(transport, "_io_writer", None)
        if writer is not None:
            return writer.get_extra_info("ssl_object") is not None
        return getattr(transport, "_using_tls", None) is True
