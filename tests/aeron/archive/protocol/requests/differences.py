"""Where an archive of ours answers otherwise than Aeron's, why, and what."""

from __future__ import annotations

from dataclasses import dataclass

from tests.aeron.archive.protocol.requests.run import INITIAL_TERM_ID, Event

IMAGE_RULE = "since 1.53 a request must come through the image that connected; else anybody could act for any session"
NOT_ANSWERED = "Aeron's archive throws, and leaves the request without an answer"
NO_REPLAY = "failed to process replayChannel - "
OF_THE_REPLAY = "recordingId=0, replaySessionId=<id>, segmentFile=0-0.rec"
EXISTING = "only files that are there are counted"


@dataclass(frozen=True)
class Difference:
    """Why an archive of ours answers otherwise, and what it answers."""

    reason: str
    events: list[Event]


def error(text: str, code: int = 0) -> list[Event]:
    """One answer."""
    return [["ERROR", code, text]]


def no_uri(channel: str, before: str = "") -> list[Event]:
    """For a channel that is no URI."""
    return error(f"{before}Aeron URIs must start with 'aeron:', found: {channel}")


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
    ("replays", "replay, no URI"): Difference(NOT_ANSWERED, no_uri("ipc", NO_REPLAY)),
    ("replays", "replay, no channel"): Difference(NOT_ANSWERED, no_uri("", NO_REPLAY)),
    ("replays", "bounded replay, counter -1"): Difference(
        "Aeron says what Java says of the index",
        error(
            "unable to create replay limit counter id= -1 because of: "
            "counter id -1 out of range: 0 - maxCounterId=65535"
        ),
    ),
    ("replays", "replay of all of an empty one"): Difference(
        "one answer to a request: Aeron sends the error, and then starts the replay all the same",
        error("When replaying and stopping the replay length must be non-zero, recordingId=2", 15),
    ),
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
    ("failures", "replay, a folder in its file's place"): Difference(
        "seen when the file is opened, and its text does not name a Java class",
        error(f"<folder>/0-0.rec is a folder, not a regular file, {OF_THE_REPLAY}"),
    ),
    ("failures", "replay, its file ends before the position"): Difference(
        "its text does not name a Java class", error(f"failed to read fragment header, {OF_THE_REPLAY}")
    ),
    ("failures", "truncate, a folder in the file's place"): Difference(
        "Aeron has the text of Java's library", error("<folder>/2-131072.rec is a folder, not a regular file")
    ),
    **{
        ("failures", f"stop position, {name}"): Difference(
            "refused before anything is written; Aeron moves the stop position first", [["OK", 300 << 10, ""]]
        )
        for name in ("the file is missing", "a folder in the file's place", "the file ends before the position")
    },
    ("failures", "truncate, in use by a replay"): Difference(
        "since 1.52 a truncation ends the recording's replays", [["OK", 2, ""], ["SIGNAL", "DELETE", 4, -1, -1]]
    ),
    ("failures", "stop position, in use by a replay"): Difference("the row before", [["OK", 1024, ""]]),
    ("failures", "a folder in the next file's place"): Difference(
        "an empty file is used; Aeron refuses anything that is there. What was written before counts",
        [
            ["ERROR", 0, "can't write <folder>/8-131072.rec: is a directory", "of: start"],
            ["SIGNAL", "STOP", 8, "<subscription>", 131072, "of: start"],
        ],
    ),
    ("failures", "stop position, after it failed"): Difference("what was written before counts", [["OK", 131072, ""]]),
    ("failures", "migrate, a file can't be renamed"): Difference(
        "a link that leads nowhere is a file in the way, too",
        error("preexisting dst segment file <folder>/10-0.rec"),
    ),
    ("limits", "start, one too many again"): Difference(
        "a start counts from its subscription on; Aeron 1.51 counts only those with an image",
        error("max concurrent recordings reached 2", 8),
    ),
}
"""By script and row."""
