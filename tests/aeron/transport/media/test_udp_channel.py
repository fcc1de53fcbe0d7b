"""What channels mean: the facts of Aeron's own UdpChannelTest and its neighbours, checked by hand."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence

import pytest

from everlog.aeron.channel_uri import ChannelUri, InvalidChannel
from everlog.aeron.transport.media.interfaces import (
    InterfaceAddress,
    NetworkInterface,
    parse_interface,
    system_interfaces,
)
from everlog.aeron.transport.media.name_resolver import (
    DEFAULT_RESOLVER,
    TableNameResolver,
    UnknownHost,
    is_multicast_endpoint,
    resolve_address,
)
from everlog.aeron.transport.media.port_manager import NoPortLeft, WildcardPortManager
from everlog.aeron.transport.media.udp_channel import (
    RESERVED_VALUE_OFFSET,
    ControlMode,
    UdpChannel,
    destination_address,
)
from everlog.kernel.socket_address import SocketAddress

NAMES = TableNameResolver({"localhost": "127.0.0.1"})


def interface(name: str, index: int, *addresses: tuple[str, int], **state: bool) -> NetworkInterface:
    listed = tuple(InterfaceAddress(SocketAddress(host, 0), prefix) for host, prefix in addresses)
    return NetworkInterface(name, index, listed, **state)


def machine() -> Sequence[NetworkInterface]:
    return [
        interface("lo", 1, ("127.0.0.1", 8), ("::1", 128), is_loopback=True, has_multicast=False),
        interface("eth0", 2, ("192.168.1.5", 24), ("fd00::5", 64)),
        interface("eth1", 3, ("192.168.1.130", 25)),
        interface("down", 4, ("10.0.0.1", 8), is_up=False),
        interface("plain", 5, ("10.1.0.1", 16), has_multicast=False),
    ]


def parsed(channel: str, is_destination: bool = False) -> UdpChannel:
    return UdpChannel.parse(channel, NAMES, is_destination, machine)


def at(host: str, port: int) -> SocketAddress:
    return SocketAddress(host, port)


@pytest.mark.parametrize(
    ("channel", "local", "remote"),
    [
        ("endpoint=localhost:40124|interface=localhost:40123", at("127.0.0.1", 40123), at("127.0.0.1", 40124)),
        ("endpoint=localhost:40124", at("0.0.0.0", 0), at("127.0.0.1", 40124)),
        ("endpoint=localhost:40124|interface=localhost", at("127.0.0.1", 0), at("127.0.0.1", 40124)),
        ("endpoint=localhost:40124|interface=0.0.0.0", at("0.0.0.0", 0), at("127.0.0.1", 40124)),
        ("endpoint=[::1]:40124|interface=[::]", at("::", 0), at("::1", 40124)),
        ("endpoint=127.0.0.1:40124|interface={eth0}:77", at("192.168.1.5", 77), at("127.0.0.1", 40124)),
        ("endpoint=[::1]:40124|interface={eth0}", at("fd00::5", 0), at("::1", 40124)),
        ("control=localhost:40124|control-mode=dynamic", at("127.0.0.1", 40124), at("0.0.0.0", 0)),
        ("control=[fe80::5246:5dff:fe73:df06]:40124", at("fe80::5246:5dff:fe73:df06", 40124), at("::", 0)),
        ("endpoint=1.2.3.4:5|control=6.7.8.9:10", at("6.7.8.9", 10), at("1.2.3.4", 5)),
        ("control-mode=manual", at("0.0.0.0", 0), at("0.0.0.0", 0)),
        ("control-mode=response|control=127.0.0.1:10001", at("127.0.0.1", 10001), at("0.0.0.0", 0)),
    ],
)
def test_a_unicast_channel_has_two_ends(channel: str, local: SocketAddress, remote: SocketAddress) -> None:
    found = parsed(f"aeron:udp?{channel}")
    assert (found.local_data, found.local_control) == (local, local)
    assert (found.remote_data, found.remote_control) == (remote, remote)
    assert found.family == remote.family
    assert not found.is_multicast
    assert found.local_interface is None
    assert found.has_explicit_endpoint == ("endpoint" in channel)
    assert found.has_explicit_control == ("control=" in channel)


def test_a_multicast_channel_has_a_group_for_data_and_the_next_for_control() -> None:
    found = parsed("aeron:udp?interface=localhost|endpoint=224.10.9.9:40124|ttl=7")
    assert found.is_multicast
    assert (found.remote_data, found.remote_control) == (at("224.10.9.9", 40124), at("224.10.9.10", 40124))
    assert (found.local_data, found.local_control) == (at("127.0.0.1", 0), at("127.0.0.1", 0))
    assert found.local_interface == machine()[0]
    assert found.multicast_ttl == 7
    assert found.has_group_semantics
    assert found.description == "localData: 127.0.0.1:0, remoteData: 224.10.9.9:40124, ttl: 7"
    assert parsed("aeron:udp?endpoint=[ff02::ff]:1|interface={eth0}").remote_control == at("ff02::", 1)
    assert parsed("aeron:udp?endpoint=224.0.1.1:1").multicast_ttl is None
    assert parsed("aeron:udp?endpoint=1.2.3.4:1|ttl=4").multicast_ttl is None


@pytest.mark.parametrize(
    ("channel", "form"),
    [
        ("endpoint=192.168.0.1:20000", "UDP-0.0.0.0:0-192.168.0.1:20000"),
        ("interface=127.0.0.1|endpoint=192.168.0.1:20000", "UDP-127.0.0.1:0-192.168.0.1:20000"),
        ("interface=127.0.0.1:40455|endpoint=192.168.0.1:20000", "UDP-127.0.0.1:40455-192.168.0.1:20000"),
        ("interface=localhost|endpoint=localhost:20000", "UDP-127.0.0.1:0-localhost:20000"),
        (
            "endpoint=[fe80::5246:5dff:fe73:df06]:20000|interface=127.0.0.1:40455",
            "UDP-127.0.0.1:40455-[fe80::5246:5dff:fe73:df06]:20000",
        ),
        ("interface=127.0.0.1:40455|endpoint=224.0.1.1:20000", "UDP-127.0.0.1:40455-224.0.1.1:20000"),
        ("interface=127.0.0.0:40455/29|endpoint=224.0.1.1:20000", "UDP-127.0.0.1:40455-224.0.1.1:20000"),
        ("interface=localhost/24|endpoint=224.0.1.1:20000", "UDP-127.0.0.1:0-224.0.1.1:20000"),
        ("interface=localhost|endpoint=[FF01::FD]:20000", "UDP-127.0.0.1:0-ff01:0:0:0:0:0:0:fd:20000"),
        ("interface=[::1]:54321/64|endpoint=224.0.1.1:20000", "UDP-0:0:0:0:0:0:0:1:54321-224.0.1.1:20000"),
        ("control-mode=manual|tags=1001", "UDP-0.0.0.0:0-0.0.0.0:0#1001"),
        ("control-mode=response|control=127.0.0.1:10001", "UDP-127.0.0.1:10001-0.0.0.0:0"),
        ("endpoint=127.0.0.1:9999|control=127.0.0.1:0|tags=1001", "UDP-127.0.0.1:0-127.0.0.1:9999#1001"),
        ("endpoint=127.0.0.1:0|tags=1001", "UDP-0.0.0.0:0-127.0.0.1:0#1001"),
        ("endpoint=127.0.0.1:1|tags=1001", "UDP-0.0.0.0:0-127.0.0.1:1"),
    ],
)
def test_channels_compare_by_their_canonical_form(channel: str, form: str) -> None:
    found = parsed(f"aeron:udp?{channel}")
    assert found.canonical_form == str(found) == form
    again = parsed(f"aeron:udp?{channel}|alias=other")
    assert found == again
    assert {found: 1}[again] == 1


def test_wildcard_ports_without_a_tag_are_never_the_same_channel() -> None:
    wildcard = "aeron:udp?endpoint=127.0.0.1:0"
    assert parsed(wildcard) != parsed(wildcard)
    assert parsed("aeron:udp?control-mode=manual") != parsed("aeron:udp?control-mode=manual")
    assert parsed(wildcard, is_destination=True) == parsed(wildcard, is_destination=True)


@pytest.mark.parametrize(
    ("endpoint", "endpoint_host", "control", "control_host", "form"),
    [
        ("NAME_ENDPOINT", "192.168.1.1", None, "", "UDP-127.0.0.1:0-NAME_ENDPOINT"),
        ("localhost:41024", "127.0.0.1", None, "", "UDP-127.0.0.1:0-localhost:41024"),
        ("NAME_ENDPOINT", "224.0.1.1", None, "", "UDP-127.0.0.1:0-224.0.1.1:40124"),
        ("NAME_ENDPOINT", "192.168.1.1", "NAME_CONTROL", "192.168.1.2", "UDP-NAME_CONTROL-NAME_ENDPOINT"),
        ("NAME_ENDPOINT", "224.0.1.1", "NAME_CONTROL", "127.0.0.1", "UDP-127.0.0.1:0-224.0.1.1:40124"),
        ("192.168.1.1:40124", "192.168.1.1", "NAME_CONTROL", "192.168.1.2", "UDP-NAME_CONTROL-192.168.1.1:40124"),
        ("192.168.1.1:40124", "", "192.168.1.2:40192", "", "UDP-192.168.1.2:40192-192.168.1.1:40124"),
    ],
)
def test_names_stay_in_the_canonical_form(
    endpoint: str, endpoint_host: str, control: str | None, control_host: str, form: str
) -> None:
    names = TableNameResolver(
        {endpoint: f"{endpoint_host}:40124", control or "": f"{control_host}:40124", "localhost": "127.0.0.1"}
        if endpoint_host
        else {"localhost": "127.0.0.1"}
    )
    channel = f"aeron:udp?endpoint={endpoint}|interface=localhost" + (f"|control={control}" if control else "")
    assert UdpChannel.parse(channel, names, interfaces=machine).canonical_form == form


def test_parameters_are_numbers_where_numbers_are_meant() -> None:
    found = parsed(
        "aeron:udp?endpoint=localhost:8080|so-sndbuf=4096|so-rcvbuf=8k|rcv-wnd=1m|gtag=-1234|nak-delay=34ms|tags=5,6"
        "|channel-rcv-ts-offset=reserved|channel-snd-ts-offset=8"
    )
    assert (found.socket_sndbuf_length, found.socket_rcvbuf_length) == (4096, 8192)
    assert found.receiver_window_length == 1 << 20
    assert found.group_tag == -1234
    assert found.nak_delay_ns == 34_000_000
    assert found.tag == 5
    assert found.uri.entity_tag == "6"
    assert found.channel_receive_timestamp_offset == RESERVED_VALUE_OFFSET == -8
    assert found.channel_send_timestamp_offset == 8
    assert parsed("aeron:udp?endpoint=localhost:8080|nak-delay=27us").nak_delay_ns == 27_000
    plain = parsed("aeron:udp?endpoint=localhost:8080|channel-rcv-ts-offset=-1")
    assert (plain.socket_sndbuf_length, plain.socket_rcvbuf_length, plain.receiver_window_length) == (0, 0, 0)
    assert (plain.group_tag, plain.nak_delay_ns, plain.tag, plain.channel_receive_timestamp_offset) == (None,) * 4


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("dynamic", ControlMode.DYNAMIC),
        ("manual", ControlMode.MANUAL),
        ("response", ControlMode.RESPONSE),
        ("other", ControlMode.NONE),
    ],
)
def test_control_modes(text: str, mode: ControlMode) -> None:
    found = parsed(f"aeron:udp?control=localhost:8080|control-mode={text}")
    assert found.control_mode is mode
    assert found.is_multi_destination == (text in ("dynamic", "manual"))
    assert (found.is_dynamic_control_mode, found.is_manual_control_mode, found.is_response_control_mode) == (
        text == "dynamic",
        text == "manual",
        text == "response",
    )


@pytest.mark.parametrize(
    ("channel", "where"),
    [
        ("unknownudp://localhost:40124", "channel"),
        ("aeron:udp", "channel"),
        ("aeron:ipc", "channel"),
        ("aeron:udp?", "channel"),
        ("aeron:udp?mtu=4096", "channel"),
        ("aeron:udp?endpoint=localhost:1|", "channel"),
        ("aeron:udp?endpoint=" + "x" * 4096, "channel"),
        ("aeron:udp?control-mode=dynamic", "channel parameter control"),
        ("aeron:udp?control-mode=dynamic|endpoint=localhost:1", "channel parameter control"),
        ("aeron:udp?endpoint=224.10.9.8:1", "channel parameter endpoint"),
        ("aeron:udp?endpoint=224.10.9.8", "channel parameter endpoint"),
        ("aeron:udp?endpoint=localhost", "channel parameter endpoint"),
        ("aeron:udp?endpoint=localhost:", "channel parameter endpoint"),
        ("aeron:udp?endpoint=", "channel parameter endpoint"),
        ("aeron:udp?endpoint=:1", "channel parameter endpoint"),
        ("aeron:udp?endpoint=localhost:65536", "channel parameter endpoint"),
        ("aeron:udp?endpoint=localhost:" + "9" * 4000, "channel parameter endpoint"),
        ("aeron:udp?endpoint=nobody.invalid:1", "channel parameter endpoint"),
        ("aeron:udp?control=nobody.invalid:1", "channel parameter control"),
        ("aeron:udp?endpoint=localhost:1|control=x", "channel parameter control"),
        ("aeron:udp?endpoint=localhost:1|interface=", "channel parameter interface"),
        ("aeron:udp?endpoint=localhost:1|interface=nobody.invalid", "channel parameter interface"),
        ("aeron:udp?endpoint=localhost:1|interface=192.168.7.7", "channel parameter interface"),
        ("aeron:udp?endpoint=localhost:1|interface=127.0.0.1/33", "channel parameter interface"),
        ("aeron:udp?endpoint=localhost:1|interface=127.0.0.1:x", "channel parameter interface"),
        ("aeron:udp?endpoint=localhost:1|interface={eth9}", "channel parameter interface"),
        ("aeron:udp?endpoint=[::1]:1|interface={eth1}", "channel parameter interface"),
        ("aeron:udp?endpoint=localhost:1|interface={eth0", "channel parameter interface"),
        ("aeron:udp?endpoint=224.0.1.1:1|interface=10.0.0.1", "channel parameter interface"),
        ("aeron:udp?endpoint=224.0.1.1:1|interface=10.1.0.1", "channel parameter interface"),
        ("aeron:udp?endpoint=224.0.1.1:1|ttl=256", "channel parameter ttl"),
        ("aeron:udp?endpoint=224.0.1.1:1|ttl=x", "channel parameter ttl"),
        ("aeron:udp?endpoint=localhost:1|so-sndbuf=1x", "channel parameter so-sndbuf"),
        ("aeron:udp?endpoint=localhost:1|so-sndbuf=-1", "channel parameter so-sndbuf"),
        ("aeron:udp?endpoint=localhost:1|so-rcvbuf=2g", "channel parameter so-rcvbuf"),
        ("aeron:udp?endpoint=localhost:1|so-rcvbuf=", "channel parameter so-rcvbuf"),
        ("aeron:udp?endpoint=localhost:1|rcv-wnd=k", "channel parameter rcv-wnd"),
        ("aeron:udp?endpoint=localhost:1|gtag=foo", "channel parameter gtag"),
        ("aeron:udp?endpoint=localhost:1|gtag=9223372036854775808", "channel parameter gtag"),
        ("aeron:udp?endpoint=localhost:1|nak-delay=5m", "channel parameter nak-delay"),
        ("aeron:udp?endpoint=localhost:1|channel-rcv-ts-offset=x", "channel parameter channel-rcv-ts-offset"),
        ("aeron:udp?endpoint=localhost:1|channel-snd-ts-offset=x", "channel parameter channel-snd-ts-offset"),
        ("aeron:udp?endpoint=localhost:1|tags=x", "channel parameter tags"),
    ],
)
def test_a_wrong_channel_names_the_parameter(channel: str, where: str) -> None:
    with pytest.raises(InvalidChannel) as refused:
        parsed(channel)
    assert refused.value.where == where
    assert refused.value.found is not None
    assert refused.value.expected is not None


def test_words_that_clients_look_for_are_in_the_errors() -> None:
    with pytest.raises(InvalidChannel, match="explicit control expected with dynamic control mode"):
        parsed("aeron:udp?control-mode=dynamic")
    with pytest.raises(InvalidChannel, match="URIs for UDP must specify an endpoint, control, tags"):
        parsed("aeron:udp?mtu=1408")
    with pytest.raises(UnknownHost, match=r"unresolved - endpoint=nobody.invalid:1, name-resolver=table"):
        parsed("aeron:udp?endpoint=nobody.invalid:1")


def test_of_several_interfaces_the_one_with_the_longest_prefix_is_taken_and_no_loopback() -> None:
    def chosen(search: str) -> str:
        found = parsed(f"aeron:udp?endpoint=224.0.1.1:1{search}").local_interface
        return "" if found is None else found.name

    assert chosen("") == "eth1"  # any: 25 bits are longer than 24, and loopback comes last
    assert chosen("|interface=192.168.1.0/24") == "eth1"
    assert chosen("|interface=192.168.1.5") == "eth0"
    assert chosen("|interface=127.0.0.0/8") == "lo"
    assert chosen("|interface={plain}") == "plain"


@pytest.mark.parametrize("text", [" ", "{eth0", "{eth0}:", "{eth0}0", "{eth0}:-1000", "{eth0};1000", "{eth0}:65536"])
def test_a_named_interface_is_written_in_braces(text: str) -> None:
    with pytest.raises(InvalidChannel, match="channel parameter interface"):
        parse_interface(text, NAMES)
    for invalid in ("{eth0}:1000:2000", "{}", "[::1", "::1"):
        with pytest.raises(InvalidChannel):
            parse_interface(invalid, NAMES)


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("{eth0}", "eth0", 0),
        ("{eth0:1}:2000", "eth0:1", 2000),
        ("{lo}:65535", "lo", 65535),
        ("{Ethernet 1}", "Ethernet 1", 0),
        ("{foo{bar-baz-12345}}:9999", "foo{bar-baz-12345}", 9999),
    ],
)
def test_names_of_interfaces_may_be_odd(text: str, name: str, port: int) -> None:
    found = parse_interface(text, NAMES)
    assert (getattr(found, "name", None), getattr(found, "port", None)) == (name, port)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8080", False),
        ("224.0.0.0:24", True),
        ("239.255.255.250:1010", True),
        ("999.255.255.250:7777", False),
        ("a.b.c.d:7777", False),
        ("test:1234", False),
        ("[ff02::1]:1234", True),
        ("[Ff05::1:3]:80", True),
        ("[FF01:0:0:0:0:0:0:18C]:5555", True),
        ("[fe80::ce81:b1c:bd2c:69e%utun3]:8080", False),
        ("[ff02:0:0:0:0:2]:7777", True),
    ],
)
def test_multicast_endpoints_are_known_by_their_text(text: str, expected: bool) -> None:
    assert is_multicast_endpoint(text) is expected
    for invalid in ("", "a", "1.2.3", "[x]", "[f0:xx]:5", "test:a"):
        with pytest.raises(InvalidChannel):
            is_multicast_endpoint(invalid)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.168.1.20:55", "192.168.1.20", 55),
        ("localhost:55", "127.0.0.1", 55),
        ("[::1]:54321", "::1", 54321),
        ("[FC07::789:1:0:0:3]:54321", "fc07::789:1:0:0:3", 54321),
        ("[::1%12~_.-34]:1234", "::1", 1234),
    ],
)
def test_addresses_are_read(text: str, host: str, port: int) -> None:
    assert resolve_address(text, "endpoint", NAMES) == SocketAddress(host, port)


@pytest.mark.parametrize(
    "text",
    ["192.168.1.20:aa", "192.168.1.20::123", "192.168.1.20", "1.2.3.4:", "[::1]:", "[FG07::1]:111", "[FC07::1%^]:1"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidChannel, match="channel parameter endpoint"):
        resolve_address(text, "endpoint", NAMES)


def test_the_systems_resolver_knows_localhost_and_not_nobody() -> None:
    assert resolve_address("localhost:55", "endpoint") == SocketAddress("127.0.0.1", 55)
    assert DEFAULT_RESOLVER.resolve("a" * 64 + ".invalid", "endpoint", False) is None
    assert destination_address(ChannelUri.parse("aeron:udp?endpoint=127.0.0.1:7")) == SocketAddress("127.0.0.1", 7)
    with pytest.raises(InvalidChannel):
        destination_address(ChannelUri.parse("aeron:udp?control=127.0.0.1:7"))


def test_the_machines_own_interfaces_are_listed() -> None:
    loopback = [each for each in system_interfaces() if each.is_loopback]
    assert loopback[0].index == socket.if_nametoindex(loopback[0].name)
    assert SocketAddress("127.0.0.1", 0) in [each.address for each in loopback[0].addresses]


def test_a_tag_stands_for_the_channel_that_had_it_first() -> None:
    first = parsed("aeron:udp?endpoint=localhost:20000|tags=7")
    assert parsed("aeron:udp?tags=7").matches_tag(first)
    assert parsed("aeron:udp?tags=7|endpoint=localhost:20000").matches_tag(first)
    assert not parsed("aeron:udp?tags=8").matches_tag(first)
    assert not parsed("aeron:udp?endpoint=localhost:20000").matches_tag(first)
    with pytest.raises(InvalidChannel, match="matching tag=7 has mismatched endpoint or control"):
        parsed("aeron:udp?tags=7|endpoint=localhost:20001").matches_tag(first)
    moved = at("10.9.9.9", 20000)
    assert parsed("aeron:udp?tags=7|endpoint=10.9.9.9:20000").matches_tag(first, None, moved)
    with pytest.raises(InvalidChannel, match="matching tag=7 has mismatched control-mode"):
        parsed("aeron:udp?tags=7|control-mode=manual").matches_tag(first)


def test_ports_of_a_range_are_taken_in_turn() -> None:
    local, wildcard = at("127.0.0.1", 0), (20000, 20003)
    ports = WildcardPortManager(wildcard, is_sender=False)
    assert ports.managed(local, False) == at("127.0.0.1", 20000)
    assert ports.managed(at("127.0.0.1", 20001), False) == at("127.0.0.1", 20001)
    assert ports.managed(local, False) == at("127.0.0.1", 20002)
    assert ports.managed(local, False) == at("127.0.0.1", 20003)
    with pytest.raises(NoPortLeft):
        ports.managed(local, False)
    ports.free(at("127.0.0.1", 20000))
    assert ports.managed(local, False) == at("127.0.0.1", 20000)
    assert ports.managed(at("127.0.0.1", 1000), False) == at("127.0.0.1", 1000)
    sender = WildcardPortManager(wildcard, is_sender=True)
    assert sender.managed(local, has_explicit_control=False) == local
    assert sender.managed(local, has_explicit_control=True) == at("127.0.0.1", 20000)
    assert WildcardPortManager(is_sender=False).managed(local, True) == local


def test_whatever_a_channel_says_it_is_understood_or_refused() -> None:
    rng = random.Random(9)
    good = (
        "aeron:udp?endpoint=localhost:40123|interface=127.0.0.1:5/24|ttl=4|tags=1,2|so-rcvbuf=2m|nak-delay=5ms",
        "aeron:udp?control=[::1]:40123|control-mode=dynamic|gtag=-7|channel-rcv-ts-offset=reserved|rcv-wnd=64k",
        "aeron-spy:aeron:udp?endpoint=224.0.1.1:40123|interface={lo}:7|so-sndbuf=0",
    )
    letters = "aeronudp?|=:[]{}/%,.0123456789-+kmg\0\n é\ud800\U0001f600"
    outcomes = set()
    for _ in range(6000):
        text = list(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text[at : at + rng.randint(0, 2)] = rng.choice(letters) * rng.choice((0, 1, 1, 2, 30))
        try:
            parsed("".join(text))
            outcomes.add("understood")
        except InvalidChannel:
            outcomes.add("refused")
    assert outcomes == {"understood", "refused"}
    for name in ("a\0b", "\ud800", "x" * 300, "é" * 80, ".", "..", "-"):
        assert DEFAULT_RESOLVER.resolve(name, "endpoint", False) is None
