"""Commands that drivers refuse, and the record of each: the error's code and text, and the first lines of new entries
in the driver's error log. ``GOLDEN`` is the record of Java's driver 1.51.0.

A case is a list of steps. The last one is refused, or (``wait``) leaves an entry in the log. ``@N`` is the
registration id of step N.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import tests
from everlog.aeron.transport.protocol import commands

GOLDEN = tests.GOLDEN / "aeron/refused-commands-1.51.0.json.gz"
Step = tuple[Any, ...]
Kept = dict[str, list[Any]]
"""Of each case's key: code, text, log."""
CLIENT = 77_777
FIRST_PORT = 20_000
_PORT, _TAG = re.compile(r"\b24[0-9]{3}\b"), re.compile(r"\b600[789]\b")
UNKNOWN = 9999


class Door(Protocol):
    """Access to a driver."""

    def next_id(self) -> int:
        """A correlation id."""

    def answer(self, command: commands.Command) -> commands.Event:
        """Send a command. Returns the answer."""

    def first_lines(self) -> dict[str, int]:
        """The first lines of the errors in the driver's log, and their counts."""

    def pass_time(self) -> None:
        """Let some milliseconds pass."""


@dataclass(slots=True)
class Run:
    """All cases on one driver."""

    door: Door

    def all(self, cases: list[list[Step]]) -> Kept:
        """The records of all cases."""
        return {key(case): self.one(case) for case in cases}

    def one(self, case: list[Step]) -> list[Any]:
        """Code and text of the refusal (0 and empty for a wait), and new entries in the log."""
        before, ids, made = self.door.first_lines(), list[int](), list[tuple[str, int]]()
        answer: commands.Event | None = None
        for verb, *arguments in case:
            ids.append(self.door.next_id())
            if verb == "wait":
                answer = None
                self._wait(before)
                continue
            given = [ids[int(text[1:])] if str(text).startswith("@") else text for text in arguments]
            answer = self.door.answer(command(verb, ids[-1], given))
            if not isinstance(answer, commands.OnError) and verb in ("pub", "xpub", "sub"):
                made.append((verb, ids[-1]))
        news = sorted(text for text, count in self.door.first_lines().items() if count > before.get(text, 0))
        for verb, registration_id in made:
            self.door.answer(command("unsub" if verb == "sub" else "unpub", self.door.next_id(), [registration_id]))
        if answer is None:
            return [0, "", [masked(text, ids) for text in news]]
        if not isinstance(answer, commands.OnError):
            return [0, type(answer).__name__, [masked(text, ids) for text in news]]
        return [int(answer.error_code), masked(answer.message, ids), [masked(text, ids) for text in news]]

    def _wait(self, before: dict[str, int]) -> None:
        for _ in range(5000):
            if self.door.first_lines() != before:
                return
            self.door.pass_time()


def command(verb: str, correlation_id: int, given: list[Any]) -> commands.Command:
    """A step's command."""
    if verb in ("pub", "xpub"):
        kind = commands.AddPublication if verb == "pub" else commands.AddExclusivePublication
        return kind(CLIENT, correlation_id, given[1], given[0])
    if verb == "sub":
        return commands.AddSubscription(CLIENT, correlation_id, -1, given[1], given[0])
    if verb == "reject":
        return commands.RejectImage(CLIENT, correlation_id, given[0], 0, given[1])
    if verb == "static":
        return commands.AddStaticCounter(CLIENT, correlation_id, given[0], given[1], b"", "label")
    if verb == "counter":
        return commands.AddCounter(CLIENT, correlation_id, given[0], b"", "label")
    return {
        "unpub": commands.RemovePublication,
        "unsub": commands.RemoveSubscription,
        "uncounter": commands.RemoveCounter,
        "dest": commands.AddDestination,
        "undest": commands.RemoveDestination,
        "undest-id": commands.RemoveDestinationById,
        "source": commands.AddRcvDestination,
        "unsource": commands.RemoveRcvDestination,
    }[verb](CLIENT, correlation_id, *given)


def key(case: list[Step]) -> str:
    """A case as one line."""
    return "; ".join(" ".join(str(part) for part in step) for step in case)


_FRAME = re.compile(r" \(at [^()]+\([^()]*\)\)")
_BEFORE_AN_ID = "(?:publication|subscription|counter): |(?:registration|correlation)Id="
_RANDOM = re.compile(r"(sessionId=|counterId=)-?[0-9]{2,}")
_REASON = re.compile(r"(UnknownHostException: [^ \[]+): [A-Z].*")
_QUERY = re.compile(r"(aeron:[a-z]+\?)([^ >]*)")


def masked(text: str, ids: list[int]) -> str:
    """Mask what differs between runs: ids, the system's reason for an unknown name, the frame of a Java method, and
    the order of a channel's parameters (Java keeps them in a hash map)."""
    text = _REASON.sub(r"\1", _RANDOM.sub(r"\1N", _FRAME.sub("", text)))
    for index, each in enumerate(ids):
        text = re.sub(rf"({_BEFORE_AN_ID}){each}(?![0-9])", rf"\1@{index}", text)
    return _QUERY.sub(lambda found: found[1] + "|".join(sorted(found[2].split("|"))), text)


def _addresses() -> Iterator[list[Step]]:
    wrong = (
        "nohost.invalid:24001",
        "just:wrong",
        "localhost",
        "localhost:",
        "localhost:70000",
        "localhost:99999999999",
        "localhost:-1",
        "localhost:12x",
        ":",
        "[::1]",
        "[::1]:70000",
        "[::1]:",
        "[zz]:24001",
        "[::1:24001",
        "224.10.9.8:24001",
        "",
    )
    for number, value in enumerate(wrong):
        uses: list[list[Step]] = [
            [("pub", f"aeron:udp?endpoint={value}")],
            [("sub", f"aeron:udp?endpoint=localhost:24002|control={value}")],
            [("pub", "aeron:udp?control-mode=manual"), ("dest", "@0", f"aeron:udp?endpoint={value}")],
            [("sub", "aeron:udp?control-mode=manual"), ("source", "@0", f"aeron:udp?endpoint={value}")],
            [("sub", f"aeron-spy:aeron:udp?endpoint={value}")],
        ]
        yield from uses if number < 3 else (uses[0], uses[1 + number % 4])
    interfaces = "nohost.invalid", "10.213.1.1", "wrong:x", "", "[zz]", "127.0.0.1/x", "127.0.0.1/", "{nothing}", "{lo"
    for value in interfaces:
        yield [("pub", f"aeron:udp?endpoint=localhost:24003|interface={value}")]
        yield [("sub", f"aeron:udp?endpoint=224.10.9.9:24003|interface={value}")]
    yield [("sub", "aeron:udp?endpoint=192.0.2.1:24004")]
    yield [("pub", "aeron:udp?control=192.0.2.1:24004|control-mode=dynamic")]
    yield [("pub", "aeron:udp?endpoint=localhost:0")]
    yield [("sub", "aeron:udp?endpoint=localhost:24005|control=localhost:0")]
    yield [
        ("sub", "aeron:udp?endpoint=localhost:24006|tags=6008"),
        ("sub", "aeron:udp?endpoint=localhost:24006|tags=6009"),
    ]
    yield [
        ("pub", "aeron:udp?control=localhost:24007|control-mode=dynamic"),
        ("sub", "aeron:udp?endpoint=localhost:24007"),
    ]


def _parameters() -> Iterator[list[Step]]:
    network = (
        "mtu=0",
        "mtu=33",
        "mtu=1000",
        "mtu=100000",
        "mtu=abc",
        "mtu=",
        "term-length=1000",
        "term-length=65k",
        "term-length=2g",
        "term-length=abc",
        "init-term-id=1",
        "init-term-id=1|term-id=2|term-offset=33",
        "init-term-id=1|term-id=2|term-offset=2g",
        "session-id=abc",
        "session-id=99999999999",
        "session-id=tag:6007",
        "tags=abc",
        "tags=1,x",
        "linger=abc",
        "linger=5x",
        "max-resend=0",
        "pub-wnd=64",
        "stream-id=11",
        "fc=wrong",
        "fc=max",
        "fc=min",
        "fc=min,g:x",
        "fc=min,g:/x",
        "fc=min,t:x",
        "fc=min,q:1",
        "fc=min,g:1/2/3",
        "fc=tagged,g:1/-2",
        "fc=tagged,g:",
        "cc=wrong",
        "so-sndbuf=4k|mtu=8k",
        "so-sndbuf=abc",
        "so-sndbuf=4g",
        "so-rcvbuf=-1",
        "rcv-wnd=abc",
        "nak-delay=abc",
        "gtag=abc",
        "response-correlation-id=abc",
        "response-correlation-id=55",
        "control-mode=response",
        "channel-snd-ts-offset=abc",
        "channel-rcv-ts-offset=abc",
        "media-rcv-ts-offset=0",
        "media-rcv-ts-offset=reserved",
        "untethered-window-limit-timeout=abc",
        "untethered-resting-timeout=5x",
        "untethered-linger-timeout=5x",
        "eos=abc",
        "ssc=abc",
        "a",
        "=b",
        "a=b|",
    )
    for number, text in enumerate(network):
        yield [("pub", f"aeron:udp?endpoint=localhost:24010|{text}")]
        yield [("sub", f"aeron:udp?endpoint=localhost:24011|{text}")]
        if text.startswith("fc="):
            yield [("pub", f"aeron:udp?endpoint=224.10.9.9:24010|interface=127.0.0.1|{text}")]
        elif number % 3 == 0:
            yield [("sub", f"aeron-spy:aeron:udp?endpoint=localhost:24010|{text}")]
        else:
            yield [("pub" if number % 3 == 1 else "sub", f"aeron:ipc?{text}")]
    yield [("pub", "aeron:udp?endpoint=224.10.9.9:24010|interface=127.0.0.1|ttl=abc")]
    yield [("sub", "aeron:udp?endpoint=localhost:24012|so-rcvbuf=4k")]
    yield [("sub", "aeron:udp?endpoint=localhost:24012|rcv-wnd=4g")]
    yield [
        ("sub", "aeron:udp?endpoint=localhost:24012|cc=wrong"),
        ("pub", "aeron:udp?endpoint=localhost:24012"),
        ("wait",),
    ]


def _channels() -> Iterator[list[Step]]:
    channels = (
        "",
        "aeron",
        "aeron:",
        "aeron:udp",
        "aeron:udp?",
        "aeron:tcp?endpoint=localhost:24020",
        "aeron:ipcx",
        "udp?endpoint=localhost:24020",
        "udp://localhost:24020",
        "aeron:udp|x=1",
        "aeron-spy:aeron:ipc",
        "aeron-spy:aeron:tcp?endpoint=localhost:24020",
        "aeron-spy:",
        "aeron:udp?control-mode=dynamic",
        "aeron:udp?control-mode=dynamic|endpoint=localhost:24021",
        "aeron:udp?control-mode=wrong",
        "aeron:udp?control-mode=response",
        "aeron:udp?control-mode=response|control=localhost:24022",
        "aeron:udp?control-mode=response|control=localhost:24022|response-correlation-id=77",
        "aeron:udp?control=localhost:24023",
        "aeron:udp?tags=99",
        "aeron:udp?alias=x",
    )
    for channel in channels:
        yield [("pub", channel)]
        yield [("sub", channel)]
    yield [("pub", "aeron-spy:aeron:udp?endpoint=localhost:24020")]


def _clashes() -> Iterator[list[Step]]:
    for channel in ("aeron:udp?endpoint=localhost:24030", "aeron:ipc?alias=x"):
        yield [("xpub", f"{channel}|session-id=7"), ("xpub", f"{channel}|session-id=7")]
        yield [("pub", f"{channel}|session-id=7"), ("xpub", f"{channel}|session-id=7|mtu=4096")]
        yield [("xpub", f"{channel}|session-id=7"), ("pub", f"{channel}|session-id=7|term-length=128k")]
        yield [("pub", f"{channel}|session-id=7"), ("pub", f"{channel}|session-id=8")]
        yield [("pub", channel), ("pub", f"{channel}|mtu=4096")]
        yield [("pub", channel), ("pub", f"{channel}|term-length=128k")]
        yield [("pub", f"{channel}|linger=1s"), ("pub", f"{channel}|linger=2s")]
        yield [("pub", f"{channel}|ssc=true"), ("pub", f"{channel}|ssc=false")]
        start = "init-term-id=1|term-id=2|term-offset="
        yield [("pub", f"{channel}|{start}64"), ("pub", f"{channel}|{start}128")]
        yield [("pub", f"{channel}|{start}64"), ("pub", f"{channel}|init-term-id=2|term-id=2|term-offset=64")]
        yield [
            ("pub", f"{channel}|tags=6008,6007"),
            ("pub", f"{channel}|session-id=tag:6007", 1),
            ("xpub", f"{channel}|tags=6009,6007"),
        ]
        yield [("pub", f"{channel}|tags=6008,6007"), ("xpub", f"{channel}|session-id=tag:6007")]
    endpoint = "aeron:udp?endpoint=localhost:24031"
    yield [("pub", f"{endpoint}|so-sndbuf=128k"), ("pub", f"{endpoint}|so-sndbuf=64k", 1)]
    yield [("pub", f"{endpoint}|so-rcvbuf=128k"), ("pub", f"{endpoint}|so-rcvbuf=64k", 1)]
    yield [("pub", endpoint), ("pub", f"{endpoint}|channel-snd-ts-offset=0", 1)]
    yield [("pub", f"{endpoint}|tags=6008"), ("pub", "aeron:udp?endpoint=localhost:24032|tags=6008", 1)]
    yield [
        ("pub", f"{endpoint}|tags=6008"),
        ("pub", f"{endpoint}|tags=6008|control=localhost:24033|control-mode=dynamic", 1),
    ]
    source = "aeron:udp?endpoint=localhost:24034"
    yield [("sub", source), ("sub", f"{source}|reliable=false")]
    yield [("sub", source), ("sub", f"{source}|rejoin=false")]
    yield [("sub", f"{source}|so-rcvbuf=128k"), ("sub", f"{source}|so-rcvbuf=64k|rcv-wnd=32k", 1)]
    yield [("sub", source), ("sub", f"{source}|channel-rcv-ts-offset=0", 1)]
    yield [("sub", f"{source}|tags=6008"), ("sub", "aeron:udp?endpoint=localhost:24035|tags=6008", 1)]


def _others() -> Iterator[list[Step]]:
    unicast, manual = "aeron:udp?endpoint=localhost:24040", "aeron:udp?control-mode=manual"
    there = "aeron:udp?endpoint=localhost:24041"
    for verb in ("dest", "undest"):
        yield [(verb, UNKNOWN, there)]
        yield [("pub", unicast), (verb, "@0", there)]
        yield [("pub", "aeron:ipc"), (verb, "@0", there)]
        yield [("sub", manual), (verb, "@0", there)]
        for channel in ("aeron:ipc", f"aeron-spy:{there}", "aeron:udp", "nonsense", f"{there}|mtu=4k"):
            yield [("pub", manual), (verb, "@0", channel)]
    for rest in ("rcv-wnd=4k", "so-rcvbuf=4k", "so-sndbuf=4k", "response-correlation-id=1"):
        yield [("pub", manual), ("dest", "@0", f"{there}|{rest}")]
        yield [("sub", manual), ("source", "@0", f"{there}|{rest}")]
    yield [("undest-id", UNKNOWN, 1)]
    yield [("pub", unicast), ("undest-id", "@0", 1)]
    for verb in ("source", "unsource"):
        for channel in (there, "aeron:ipc", f"aeron-spy:{there}", "nonsense"):
            yield [(verb, UNKNOWN, channel)]
            yield [("sub", unicast), (verb, "@0", channel)]
            yield [("sub", "aeron:ipc"), (verb, "@0", channel)]
        yield [("sub", manual), (verb, "@0", "nonsense")]
        yield [("sub", manual), (verb, "@0", "aeron:udp")]
        yield [("sub", manual), (verb, "@0", f"{there}|mtu=4k")]
    yield [("sub", manual), ("source", "@0", there), ("source", "@0", there)]
    yield [("unpub", UNKNOWN)]
    yield [("unsub", UNKNOWN)]
    yield [("uncounter", UNKNOWN)]
    yield [("reject", UNKNOWN, "no good")]
    yield [("reject", UNKNOWN, "x" * 1024)]
    yield [("counter", 1001), ("static", "@0", 1001)]


def _apart(index: int, case: list[Step]) -> list[Step]:
    """Separate ports, tags and streams, so that leftovers of earlier cases don't matter."""
    ports: dict[str, str] = {}

    def tag(found: re.Match[str]) -> str:
        return str(int(found[0]) + 3 * index)

    def port(found: re.Match[str]) -> str:
        return ports.setdefault(found[0], str(FIRST_PORT + 3 * index + len(ports)))

    def step(verb: str, *given: Any) -> Step:
        apart = [each if isinstance(each, int) else _PORT.sub(port, _TAG.sub(tag, each)) for each in given]
        if verb in ("pub", "xpub", "sub"):
            apart = [apart[0], 2 * index + (apart[1] if len(apart) > 1 else 0)]
        return (verb, *apart)

    return [step(*each) for each in case]


_ALL = (*_addresses(), *_parameters(), *_channels(), *_clashes(), *_others())
CASES = [_apart(index, case) for index, case in enumerate(_ALL)]
