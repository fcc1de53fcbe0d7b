"""The connection to a NATS server: nothing secret in plain text where TLS is asked for, and errors that are ours."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everlog.errors import EverlogError, UsageError
from everlog.pipelines.migrate.connection import Connection, JetStream, ServerUnreachable, run_async
from everlog.testing.made.server import Missing, NatsServer, find_server

pytest.importorskip("nats")

INFO = b'INFO {"server_id":"x","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576%s}\r\n'


class Pretender:
    """A server that keeps what it gets. ``offers``: more of its INFO; ``answers`` what it says behind that."""

    def __init__(self, offers: bytes = b"", answers: bytes = b"PONG\r\n") -> None:
        self.got = b""
        self._info, self._answers = INFO % offers, answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client:
                client.settimeout(5)
                try:
                    client.sendall(self._info)
                    while data := client.recv(65536):
                        self.got += data
                        if b"PING" in data:
                            client.sendall(self._answers)
                except OSError:
                    continue

    def __enter__(self) -> Pretender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


async def reach(connection: Connection) -> None:
    async with JetStream(connection) as js:
        await js.api("INFO")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Of 127.0.0.1, its own authority; and the key."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "everlog test")])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    built = built.add_extension(x509.SubjectAlternativeName([address]), False)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    made = built.sign(key, hashes.SHA256())
    (tmp_path / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, pem, plain))
    return str(tmp_path / "ca.pem"), str(tmp_path / "key.pem")


@pytest.mark.parametrize("offers", [b"", b',"tls_available":true', b',"tls_required":false'])
@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_no_password_is_sent_in_plain_text_where_tls_is_asked_for(
    scheme: str, offers: bytes, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_USER", "me")
    monkeypatch.setenv("NATS_PASSWORD", "hidden")
    ca_file = certificate[0] if scheme == "nats" else None
    with Pretender(offers) as server:
        connection = Connection(servers=(f"{scheme}://127.0.0.1:{server.port}",), ca_file=ca_file)
        with pytest.raises(UsageError, match="offers no TLS, but it is required") as refused:
            asyncio.run(reach(connection))
    assert server.got == b""
    assert "hidden" not in str(refused.value)


@pytest.mark.long
def test_without_tls_asked_for_the_password_is_sent_to_a_server_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_USER", "me")
    monkeypatch.setenv("NATS_PASSWORD", "hidden")
    with Pretender(answers=b"-ERR 'no'\r\n") as server, pytest.raises(ServerUnreachable):
        asyncio.run(reach(Connection(servers=(f"nats://127.0.0.1:{server.port}",))))
    assert b'"pass": "hidden"' in server.got


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[NatsServer]:
    try:
        find_server()
    except Missing as missing:
        pytest.skip(str(missing))
    with NatsServer(folder, *arguments) as server:
        yield server


@pytest.mark.parametrize("scheme", ["tls", "nats"])
def test_a_server_with_tls_is_reached(scheme: str, certificate: tuple[str, str], tmp_path: Path) -> None:
    authority, key = certificate
    secured = ("--tls", "--tlscert", authority, "--tlskey", key, "--user", "me", "--pass", "hidden")
    with running(tmp_path / "js", *secured) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NATS_USER", "me")
        patch.setenv("NATS_PASSWORD", "hidden")
        url = server.url.replace("nats", scheme)
        asyncio.run(reach(Connection(servers=(url,), ca_file=authority)))
        # The system's authorities don't know it.
        with pytest.raises(EverlogError, match="certificate"):
            asyncio.run(reach(Connection(servers=(url.replace("nats", "tls"),))))


def test_who_answers_without_jetstream_is_told_as_such(tmp_path: Path) -> None:
    with running(tmp_path / "js") as server:
        with pytest.raises(ServerUnreachable, match="nothing answers in domain 'nowhere'"):
            asyncio.run(reach(Connection(servers=(server.url,), domain="nowhere")))

        async def lost() -> None:
            async with JetStream(Connection(servers=(server.url,))) as js:
                await js.nc.close()
                await js.api("INFO")

        with pytest.raises(ServerUnreachable, match="ConnectionClosedError"):
            asyncio.run(lost())

        async def garbled() -> None:
            async with JetStream(Connection(servers=(server.url,), domain="odd")) as js:

                async def answer(message: object) -> None:
                    await message.respond(b"<html>")  # type: ignore[attr-defined]

                await js.nc.subscribe("$JS.odd.API.INFO", cb=answer)
                await js.api("INFO")

        with pytest.raises(ServerUnreachable, match="JSONDecodeError"):
            asyncio.run(garbled())


def test_where_a_loop_runs_already_work_gets_a_thread_of_its_own() -> None:
    async def cell() -> int:
        return run_async(asyncio.sleep(0, 7))

    assert (asyncio.run(cell()), run_async(asyncio.sleep(0, 8))) == (7, 8)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"domain": "a.b"}, "domain must be .*, not 'a.b'"),
        ({"domain": ""}, "domain must be .*, not ''"),
        ({"patience_s": -1.0}, "patience must be .*, not -1"),
        ({"patience_s": float("nan")}, "patience must be .*, not nan"),
    ],
)
def test_wrong_connections_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Connection(servers=("nats://host",), **wrong)  # type: ignore[arg-type]


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("no")
    with pytest.raises(UsageError, match=r"no\.pem"):
        asyncio.run(reach(Connection(servers=("tls://127.0.0.1:1",), ca_file=str(tmp_path / "no.pem"))))
