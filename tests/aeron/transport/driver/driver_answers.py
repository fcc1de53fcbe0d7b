"""Channels that a driver refuses, each with the code and text of the answer of Java's driver 1.51.0 (parameters in
the order in which they were written). For the network the texts are only the beginnings that are the same
everywhere. ``refused_commands`` has many more."""

from __future__ import annotations

from everlog.aeron.transport.protocol import commands

POSITION = "init-term-id=1|term-id=2|term-offset"
NUMBER = "java.lang.NumberFormatException : "
STATE = "java.lang.IllegalStateException : "
ARGUMENT = "java.lang.IllegalArgumentException : "
CONFIGURATION = "io.aeron.exceptions.ConfigurationException : ERROR - "
CORRELATION = "response-correlation-id, must be a number greater than or equal to -1, or 'prototype'"

PUBLICATIONS = [
    ("?mtu=1000", 11, CONFIGURATION + "mtuLength=1000 is not a multiple of FRAME_ALIGNMENT=32"),
    ("?mtu=100k", 11, CONFIGURATION + "mtuLength=102400 > MAX_UDP_PAYLOAD_LENGTH=65504"),
    ("?mtu=32", 11, CONFIGURATION + "mtuLength=32 <= HEADER_LENGTH=32"),
    (
        "?mtu=8224",
        1,
        "ERROR - MTU greater than max message length for term length: mtu=8224 maxMessageLength=8192"
        " termLength=65536 channel=aeron:ipc?mtu=8224",
    ),
    ("?term-length=1000", 11, STATE + "Term length less than min length of 65536: length=1000"),
    ("?term-length=65k", 11, STATE + "Term length not a power of 2: length=66560"),
    ("?term-length=2g", 11, STATE + "Term length less than min length of 65536: length=-2147483648"),
    ("?term-length=abc", 11, "org.agrona.AsciiNumberFormatException : error parsing long: ab"),
    ("?term-length=64x", 11, NUMBER + "term-length: 64x should end with: k, m, or g."),
    ("?session-id=abc", 1, "ERROR - invalid session-id, must be a number"),
    (
        "?session-id=tag:7",
        1,
        "ERROR - session-id=tag:7 must reference an IPC publication: channel=aeron:ipc?session-id=tag:7",
    ),
    ("?session-id=tag:x", 1, "ERROR - session-id=tag:x has an invalid tag: channel=aeron:ipc?session-id=tag:x"),
    ("?tags=1,x", 1, "ERROR - invalid entity tag, must be a number"),
    ("?tags=1,-1", 1, "ERROR - -1 tag is reserved: channel=aeron:ipc?tags=1,-1"),
    ("?stream-id=11", 1, "ERROR - stream-id=11 does not match provided streamId=10"),
    ("?stream-id=a", 1, "ERROR - invalid stream-id, must be a number"),
    ("?linger=5x", 11, NUMBER + "linger: 5x should end with: s, ms, us, or ns."),
    ("?linger=", 11, NUMBER + "linger must be non-empty: "),
    (
        "?init-term-id=1|term-id=2",
        1,
        "ERROR - params must be used as a complete set: init-term-id term-id term-offset"
        " channel=aeron:ipc?init-term-id=1|term-id=2",
    ),
    (
        f"?{POSITION}=65600",
        1,
        f"ERROR - term-offset=65600 > term-length=65536: channel=aeron:ipc?{POSITION}=65600",
    ),
    (
        f"?{POSITION}=33",
        1,
        f"ERROR - term-offset=33 must be a multiple of FRAME_ALIGNMENT: channel=aeron:ipc?{POSITION}=33",
    ),
    (f"?{POSITION}=-32", 1, f"ERROR - term-offset=-32 out of range: channel=aeron:ipc?{POSITION}=-32"),
    (
        "?init-term-id=2|term-id=1|term-offset=0",
        1,
        "ERROR - difference greater than 2^31 - 1: init-term-id=2 when term-id=1"
        " channel=aeron:ipc?init-term-id=2|term-id=1|term-offset=0",
    ),
    ("?init-term-id=a|term-id=1|term-offset=0", 1, "ERROR - invalid init-term-id, must be a number"),
    ("?pub-wnd=64", 1, "ERROR - pub-wnd=64 cannot be less than the mtu=1408"),
    ("?pub-wnd=64k", 1, "ERROR - pub-wnd=65536 must not exceed half the term-length=65536"),
    ("?max-resend=0", 1, "ERROR - invalid max-resend=0, must be > 0 and <= 256"),
    ("?max-resend=257", 1, "ERROR - invalid max-resend=257, must be > 0 and <= 256"),
    ("?max-resend=x", 1, "ERROR - invalid max-resend, must be a number"),
    ("?response-correlation-id=-2", 1, f"ERROR - invalid {CORRELATION}"),
    ("?response-correlation-id=x", 1, f"ERROR - invalid {CORRELATION}"),
    ("?", 1, "java.lang.IllegalStateException: no more input found, state=PARAMS_KEY in aeron:ipc?"),
    ("?a", 1, "java.lang.IllegalStateException: no more input found, state=PARAMS_KEY in aeron:ipc?a"),
    ("?=b", 1, "java.lang.IllegalStateException: empty key not allowed at index 10 in aeron:ipc?=b"),
    (
        "|x=1",
        1,
        "java.lang.IllegalArgumentException: encountered '|' within media definition at index 9 in aeron:ipc|x=1",
    ),
    ("x", 1, "java.lang.IllegalArgumentException: unknown media: ipcx"),
    ("?a=b|", 1, "java.lang.IllegalStateException: no more input found, state=PARAMS_KEY in aeron:ipc?a=b|"),
]
SUBSCRIPTIONS = [
    ("?session-id=abc", 11, NUMBER + 'For input string: "abc"'),
    ("?session-id=99999999999", 11, NUMBER + 'For input string: "99999999999"'),
    (
        "?init-term-id=1",
        11,
        ARGUMENT + "params must be used as a complete set: init-term-id term-id term-offset"
        " channel=aeron:ipc?init-term-id=1",
    ),
    (
        f"?{POSITION}=33",
        11,
        ARGUMENT + f"term-offset=33 must be a multiple of FRAME_ALIGNMENT: channel=aeron:ipc?{POSITION}=33",
    ),
    (f"?{POSITION}=-32", 11, ARGUMENT + f"term-offset=-32 out of range: channel=aeron:ipc?{POSITION}=-32"),
    (
        "?init-term-id=2|term-id=1|term-offset=0",
        11,
        STATE + "difference greater than 2^31 - 1: init-term-id=2 when term-id=1"
        " channel=aeron:ipc?init-term-id=2|term-id=1|term-offset=0",
    ),
    ("?rcv-wnd=x", 11, "org.agrona.AsciiNumberFormatException : empty string: index=0 length=0"),
    ("?rcv-wnd=4g", 11, ARGUMENT + "Invalid rcv-wnd length: 4294967296"),
    (
        "?untethered-resting-timeout=1q",
        11,
        NUMBER + "untethered-resting-timeout: 1q should end with: s, ms, us, or ns.",
    ),
]

UDP = "aeron:udp?endpoint=127.0.0.1:24003"
ILLEGAL = "java.lang.IllegalArgumentException"
NO_UDP = "UdpChannel only supports UDP media"
NETWORK_PUBLICATIONS = [
    ("aeron:udp", 1, f"{ILLEGAL}: URIs for UDP must specify an endpoint, control, tags, or control-mode="),
    (
        "aeron:udp?endpoint=127.0.0.1:0",
        11,
        f"{ILLEGAL} : endpoint has port=0 for publication: channel=aeron:udp?endpoint=127.0.0.1:0",
    ),
    ("aeron:udp?endpoint=127.0.0.1", 1, f"{ILLEGAL}: address:port is required for ipv4: 127.0.0.1"),
    ("aeron:udp?endpoint=nohost.invalid:1234", 1, "java.net.UnknownHostException: unresolved - endpoint=nohost.inv"),
    ("aeron:udp?endpoint=127.0.0.1:70000", 1, f"{ILLEGAL}: port out of range:70000"),
    (
        "aeron:udp?control=127.0.0.1:24001",
        11,
        f"{ILLEGAL} : 'control' parameter requires that either 'endpoint' or 'control-mode' is specified,"
        " channel=aeron:udp?control=127.0.0.1:24001",
    ),
    ("aeron:udp?control-mode=dynamic|endpoint=127.0.0.1:24002", 1, f"{ILLEGAL}: explicit control expected"),
    (
        "aeron:udp?tags=99",
        1,
        "ERROR - URI must have explicit control, endpoint, or be manual control-mode when original:"
        " channel=aeron:udp?tags=99",
    ),
    (UDP + "|fc=max", 11, f"{ILLEGAL} : unsupported unicast flow control strategy: fc=max"),
    (
        "aeron:udp?endpoint=224.0.1.1:24003|interface=10.0.0.1|fc=foo",
        11,
        f"{ILLEGAL} : unsupported multicast flow control strategy: fc=foo",
    ),
    ("aeron:udp?endpoint=224.0.1.2:24003|interface=10.0.0.1", 1, f"{ILLEGAL}: multicast data address must be odd"),
    (
        "aeron:udp?endpoint=127.0.0.1:24006|term-length=1m|mtu=65504|so-sndbuf=4k",
        11,
        "java.lang.IllegalStateException : MTU greater than SO_SNDBUF for channel: mtu=65504 so-sndbuf=4096"
        " channel=aeron:udp?endpoint=127.0.0.1:24006|term-length=1m|mtu=65504|so-sndbuf=4k",
    ),
    (
        UDP + "|response-correlation-id=55",
        11,
        f"{ILLEGAL} : unable to find response subscription for response-correlation-id=55",
    ),
    (
        "aeron:udp?control-mode=response|control=127.0.0.1:24005",
        11,
        f"{ILLEGAL} : control-mode=response was specified, but no response-correlation-id set",
    ),
    (
        "aeron:udp?control-mode=response|control=127.0.0.1:24005|response-correlation-id=77",
        11,
        f"{ILLEGAL} : image.correlationId=77 not found",
    ),
    (
        UDP + "|session-id=tag:7",
        1,
        f"ERROR - session-id=tag:7 must reference a network publication: channel={UDP}|session-id=tag:7",
    ),
    ("aeron:tcp?endpoint=127.0.0.1:1", 1, f"{ILLEGAL}: {NO_UDP}: aeron:tcp?endpoint=127.0.0.1:1"),
    ("aeron-spy:aeron:ipc", 1, f"{ILLEGAL}: {NO_UDP}: aeron-spy:aeron:ipc"),
    ("aeron:udp?endpoint=10.0.0.9:24003|control=10.9.9.9:1", 11, "io.aeron.exceptions.AeronException : ERROR - chan"),
]
NETWORK_SUBSCRIPTIONS = [
    ("aeron:udp", 1, f"{ILLEGAL}: URIs for UDP must specify an endpoint, control, tags, or control-mode="),
    (
        "aeron:udp?endpoint=127.0.0.1:24020|control=127.0.0.1:0",
        11,
        f"{ILLEGAL} : control has port=0 for subscription:"
        " channel=aeron:udp?endpoint=127.0.0.1:24020|control=127.0.0.1:0",
    ),
    (
        UDP + "|media-rcv-ts-offset=0",
        1,
        "ERROR - Media timestamps 'media-rcv-ts-offset' are not supported in the Java driver:"
        f" channel={UDP}|media-rcv-ts-offset=0",
    ),
    (
        UDP + "|so-rcvbuf=4k",
        11,
        "java.lang.IllegalStateException : Initial window greater than SO_RCVBUF for channel: rcv-wnd=32768"
        f" so-rcvbuf=4096 channel={UDP}|so-rcvbuf=4k",
    ),
    ("aeron:udp?endpoint=1.2.3.4:24020", 11, "io.aeron.exceptions.AeronException : ERROR - channel error - "),
    ("aeron-spy:aeron:ipc", 1, f"{ILLEGAL}: {NO_UDP}: aeron-spy:aeron:ipc"),
    ("aeron:udp?control-mode=dynamic", 1, f"{ILLEGAL}: explicit control expected with dynamic control mode"),
]

UNKNOWN: list[tuple[type[commands.RemovePublication | commands.RemoveSubscription], int, str]] = [
    (commands.RemovePublication, 3, "ERROR - unknown publication: 9999"),
    (commands.RemoveSubscription, 2, "ERROR - unknown subscription: 9999"),
    (commands.RemoveCounter, 5, "ERROR - unknown counter: 9999"),
]
