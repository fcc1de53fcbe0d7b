"""What the real UdpChannel made of channels, good and bad."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence

import tests
from everlog.aeron.channel_uri import InvalidChannel
from everlog.aeron.transport.media.interfaces import InterfaceAddress, NetworkInterface
from everlog.aeron.transport.media.name_resolver import TableNameResolver
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.kernel.socket_address import SocketAddress

GOLDEN = tests.GOLDEN / "aeron" / "transport" / "udp-channels-1.51.0.tsv.gz"
NAMES = TableNameResolver({"localhost": "127.0.0.1", "": "127.0.0.1", "1.2.3": "1.2.0.3"})
NO_OFFSET = -1
REFUSED_HERE = {"ttl=-1", "ttl=256"}
"""Java refuses these only when it opens the socket."""


def machine() -> Sequence[NetworkInterface]:
    hosts = (("127.0.0.1", 8), ("::1", 128))
    addresses = tuple(InterfaceAddress(SocketAddress(host, 0), prefix) for host, prefix in hosts)
    return [NetworkInterface("lo", 1, addresses, is_loopback=True, has_multicast=False)]


def rows() -> Iterator[tuple[str, list[str]]]:
    """Channels, and ``refused`` or the fields of a row."""
    for line in gzip.decompress(GOLDEN.read_bytes()).decode().splitlines():
        channel, *fields = line.split("\t")
        yield channel, fields


def text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "-" if value is None else str(value)


def fields_of(channel: UdpChannel) -> list[str]:
    """In the order of the golden rows."""
    offsets = (channel.channel_receive_timestamp_offset, channel.channel_send_timestamp_offset)
    values = [
        *(
            "ok",
            channel.canonical_form,
            channel.remote_data,
            channel.local_data,
            channel.remote_control,
            channel.local_control,
        ),
        *(channel.is_multicast, channel.has_explicit_endpoint, channel.has_explicit_control),
        *(channel.control_mode.name, channel.tag, channel.multicast_ttl),
        *(channel.socket_rcvbuf_length, channel.socket_sndbuf_length, channel.receiver_window_length),
        *(channel.group_tag, channel.nak_delay_ns),
        *(NO_OFFSET if offset is None else offset for offset in offsets),
        None if channel.local_interface is None else channel.local_interface.name,
    ]
    return [text(value) for value in values]


def comparable(fields: list[str]) -> list[str]:
    """Without the number that counts up for wildcard ports, and without the scope that Java gives ::1."""
    return [fields[0], re.sub(r"-\d+$", "-N", fields[1]).replace("%lo", ""), *fields[2:]] if len(fields) > 1 else fields


def test_channels_mean_what_the_real_ones_mean() -> None:
    wrong, counted = [], {"ok": 0, "refused": 0}
    for channel, fields in rows():
        counted[fields[0]] += 1
        try:
            found = fields_of(UdpChannel.parse(channel, NAMES, interfaces=machine))
        except InvalidChannel:
            found = ["refused"]
        if comparable(found) != comparable(fields) and not REFUSED_HERE & set(channel.split("|")):
            wrong.append((channel, fields, found))
    assert wrong == []
    assert counted == {"ok": 226, "refused": 550}
