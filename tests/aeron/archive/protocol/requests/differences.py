"""Where an archive of ours answers otherwise than Aeron's, why, and what."""

from __future__ import annotations

from dataclasses import dataclass

from tests.aeron.archive.protocol.requests.run import INITIAL_TERM_ID, Event

OWN_WORDS = "what a channel must be is said in our words; the code is the same"
DRIVER_WORDS = "what the driver refused is said in our client's words; the code is the same"
SPELLING = "the same parameters of the channel, in another order and with plain numbers"
IMAGE_RULE = "since 1.53 a request must come through the image that connected; else anybody could act for any session"
NOT_ANSWERED = "Aeron's archive throws, and leaves the request without an answer"
EXISTING = "only files that are there are counted"
REFUSED = "(the channel's parameters contradict each other, or those of a channel in use)"
NO_ENDPOINT = (
    "INVALID_CHANNEL: java.lang.IllegalArgumentException: "
    "URIs for UDP must specify an endpoint, control, tags, or control-mode=manual/response: aeron:udp"
)
AT_START = "init-term-id=5|term-id=5|term-offset=0|term-length=65536|mtu=1408|linger=100000000"
IN_USE = (
    "invalid detach: replay in progress -  state=REPLAY newStartPosition=131072 upperBound=0 sessionId=<id> "
    f"streamId=900 channel=aeron:ipc?{AT_START}"
)


@dataclass(frozen=True)
class Difference:
    """Why an archive of ours answers otherwise, and what it answers."""

    reason: str
    events: list[Event]


def error(text: str, code: int = 0) -> list[Event]:
    """One answer."""
    return [["ERROR", code, text]]


def no_uri(channel: str) -> list[Event]:
    """For a channel that is no URI."""
    return error(f"channel must be aeron:MEDIA?KEY=VALUE|..., not {channel!r}")


def descriptor(recording_id: int, **values: object) -> Event:
    """Of the recordings of the queries."""
    stream_id = 10 + recording_id
    channel = f"aeron:ipc?session-id={stream_id}"
    fields: dict[str, object] = {
        "recording_id": recording_id,
        "start_position": 0,
        "stop_position": 0,
        "initial_term_id": INITIAL_TERM_ID,
        "segment_file_length": 128 << 10,
        "term_buffer_length": 64 << 10,
        "mtu_length": 1408,
        "stream_id": stream_id,
        "stripped_channel": channel,
        "original_channel": channel,
        "source_identity": "aeron:ipc",
        "stopped": True,
    }
    return ["DESCRIPTOR", fields | values]


THE_ACTIVE_ONE = descriptor(
    3,
    start_position=2048,
    stop_position=-1,
    stream_id=10,
    stripped_channel="aeron:ipc?alias=a",
    original_channel="aeron:ipc?alias=a",
    stopped=False,
)

DIFFERENCES: dict[tuple[str, str], Difference] = {
    ("sessions", "a request through another image"): Difference(IMAGE_RULE, []),
    ("sessions", "after it was closed through another image"): Difference(
        IMAGE_RULE, [["RECORDING_UNKNOWN", 0, "", "of: after another's close", "at: victim"]]
    ),
    ("recordings", "start, no channel"): Difference(OWN_WORDS, no_uri("")),
    ("recordings", "start, no URI"): Difference(OWN_WORDS, no_uri("ipc")),
    ("recordings", "stop, no URI"): Difference(OWN_WORDS, no_uri("ipc")),
    ("extensions", "extend, no URI"): Difference(OWN_WORDS, no_uri("ipc")),
    ("recordings", "start, no media"): Difference(OWN_WORDS, error("channel media must be ipc or udp, not ''")),
    ("recordings", "start, media"): Difference(OWN_WORDS, error("channel media must be ipc or udp, not 'tcp'")),
    ("recordings", "start, UDP without an endpoint"): Difference(
        DRIVER_WORDS,
        error(f"the driver refused add-subscription aeron:udp, stream 10: {NO_ENDPOINT} {REFUSED}"),
    ),
    ("recordings", "start, bad parameter"): Difference(
        DRIVER_WORDS,
        error(
            "the driver refused add-subscription aeron:ipc?session-id=x, stream 10: "
            'GENERIC_ERROR: java.lang.NumberFormatException : For input string: "x"'
        ),
    ),
    ("queries", "list, from the purged one"): Difference(
        "the id behind the last recording, wherever the list began; Aeron 1.51 counts on from where it was asked to",
        [THE_ACTIVE_ONE, ["RECORDING_UNKNOWN", 4, ""]],
    ),
    **{
        ("queries", f"list one after {kind}, count -1"): Difference(
            "a negative count asks for nothing; Aeron's session lists for ever, and refuses every other listing",
            [[*descriptor(1), f"at: {kind} -1"]],
        )
        for kind in ("ListRecordings", "ListRecordingsForUri")
    },
    ("queries", "channel that is no URI"): Difference(NOT_ANSWERED, no_uri("ipc")),
    ("replays", "replay, no URI"): Difference(NOT_ANSWERED, no_uri("ipc")),
    ("replays", "replay, no channel"): Difference(NOT_ANSWERED, no_uri("")),
    ("replays", "replay, a channel that the driver refuses"): Difference(
        DRIVER_WORDS,
        error(
            "failed to create replay publication: the driver refused add-exclusive-publication "
            f"aeron:udp?{AT_START}, stream 900: {NO_ENDPOINT}?{AT_START} {REFUSED}"
        ),
    ),
    ("replays", "replay, a session id that is none"): Difference(
        DRIVER_WORDS,
        error(
            "failed to create replay publication: the driver refused add-exclusive-publication "
            f"aeron:ipc?session-id=x|{AT_START}, stream 900: "
            f"INVALID_CHANNEL: ERROR - invalid session-id, must be a number {REFUSED}"
        ),
    ),
    ("replays", "bounded replay, counter -1"): Difference(
        "Aeron says what Java says of the index",
        error(
            "unable to create replay limit counter id= -1 because of: "
            "counter id -1 out of range: 0 - maxCounterId=65535"
        ),
    ),
    ("replays", "nobody has come"): Difference(
        SPELLING,
        [
            [
                *error(
                    f"no connection established for replayChannel=aeron:ipc?{AT_START}, replayStreamId=900, "
                    "recordingId=0, replaySessionId=<id>, segmentFile=0-0.rec"
                )[0],
                "of: replay that nobody listens to",
            ]
        ],
    ),
    ("replays", "replay of all of an empty one"): Difference(
        "one answer to a request: Aeron sends the error, and then starts the replay all the same",
        error("when replaying and stopping the replay length must be non-zero, recordingId=2", 15),
    ),
    ("replays", "detach, in use by a replay"): Difference(SPELLING, error(IN_USE)),
    ("replays", "purge segments, in use by a replay"): Difference(SPELLING, error(IN_USE)),
    ("maintenance", "stop position, truncated within a frame"): Difference(
        "refused before anything is written; Aeron moves the stop position first", [["OK", 3072, ""]]
    ),
    ("maintenance", "truncate, at a term's start"): Difference(
        EXISTING, [["OK", 0, ""], ["SIGNAL", "DELETE", 0, -1, -1]]
    ),
    ("maintenance", "delete detached, one is gone"): Difference(
        EXISTING, [["OK", 3, ""], ["SIGNAL", "DELETE", 5, -1, -1]]
    ),
    ("migrations", "migrate, the empty last file is there"): Difference(
        "an empty file behind the target's end holds nothing, and is replaced",
        [["OK", 3, ""], ["SIGNAL", "DELETE", 1, -1, -1]],
    ),
    ("migrations", "migrate to the end"): Difference(
        "the row before has done it",
        error(
            "invalid migrate: src and dst are not contiguous srcStartPosition=262144 srcStopPosition=262144 "
            "dstStartPosition=0 dstStopPosition=534528"
        ),
    ),
    ("migrations", "migrate nothing"): Difference("nothing is deleted, so no signal says so", [["OK", 0, ""]]),
    ("limits", "start, one too many again"): Difference(
        "a start counts from its subscription on; Aeron 1.51 counts only those with an image",
        error("max concurrent recordings reached 2", 8),
    ),
}
"""By script and row."""
