"""Describes a node's state, in sentences for an operator and as plain values: its identity, whether it runs, how it
ended, and what a start would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from everlog.aeron.cluster.folder.node import NodeFolder
from everlog.aeron.cluster.folder.recovery_plan import RecoveryPlan, plan_recovery
from everlog.aeron.cluster.folder.scanning import LOG, MessageContext, raw_messages
from everlog.aeron.cluster.folder.snapshot import complete_sets
from everlog.aeron.cluster.format.mark_file import ClusterMark, load_mark
from everlog.aeron.cluster.format.recording_log import Entry
from everlog.aeron.cluster.protocol.codec import decode_known
from everlog.aeron.cluster.protocol.log import NewLeadershipTermEvent
from everlog.aeron.mark_file import now_ms
from everlog.errors import EverlogError


@dataclass(slots=True)
class NodeView:
    """The state that the node's files describe; ``problems`` lists the errors of unreadable ones."""

    mark: ClusterMark | None = None
    services: list[ClusterMark] = field(default_factory=list)
    leader: int | None = None
    log_end: int | None = None
    is_log_open: bool = False
    plan: RecoveryPlan | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def member_id(self) -> int | None:
        """The member ID, from the mark files; ``None`` without them."""
        mark = self.mark or next(iter(self.services), None)
        return None if mark is None else mark.header.member_id


def service_count(node: NodeFolder, marks: int) -> int:
    """Return the node's number of services, by its snapshots and the number of service mark files."""
    ids = [entry.service_id for entry in node.snapshots().values()]
    return max([marks, *(service_id + 1 for service_id in ids)])


def leader_of(node: NodeFolder, entry: Entry, context: MessageContext | None = None) -> int | None:
    """Return the leader of a term, from its first message in the log; ``None`` if that is missing. ``context`` is that
    of the log, if the caller has it."""
    context = context or node.context(LOG)
    if context is None or node.place is None:
        return None
    start = max(entry.term_base_log_position, context.archive.segments.start_position)
    storage = node.place.storage
    raw = next(raw_messages(storage, context.archive, start, on_fault=lambda fault: None, max_rows=1), None)
    message = None if raw is None else decode_known(raw.data)
    if not isinstance(message, NewLeadershipTermEvent) or message.leadership_term_id != entry.leadership_term_id:
        return None
    return message.leader_member_id


def view_node(node: NodeFolder) -> NodeView:
    """Read the node's files. Damage goes to ``problems`` and never raises."""
    view = NodeView()

    def attempt(what: Any) -> Any:
        try:
            return what()
        except EverlogError as error:
            view.problems.append(str(error))
            return None

    view.mark = attempt(node.mark)
    for name in node.service_mark_names():
        mark = attempt(lambda name=name: load_mark(node.storage, name))
        view.services += [] if mark is None else [mark]
    attempt(lambda: _view_log(node, view))
    return view


def _view_log(node: NodeFolder, view: NodeView) -> None:
    archive, log_id = node.archive, node.log_recording_id
    recordings = {} if archive is None else archive.recordings()
    recording = None if log_id is None else node.recording_of(log_id)
    last = node.recording_log.last_term
    if archive is not None and recording is not None:
        view.is_log_open = recording.stop_position is None
        stop = recording.stop_position
        view.log_end = archive.recorded_end(recording) if stop is None else stop
        view.leader = None if last is None else leader_of(node, last)
    view.plan = plan_recovery(node.recording_log.entries, recordings, service_count(node, len(view.services)))


def describe(node: NodeFolder) -> dict[str, Any]:
    """Describe the node as plain values, for ``store.info()``."""
    view = view_node(node)
    log, folder = node.recording_log, node.place
    state = None
    try:
        state = node.node_state()
    except EverlogError as error:
        view.problems.append(str(error))
    header = None if view.mark is None else view.mark.header
    recording = None if node.log_recording_id is None else node.recording_of(node.log_recording_id)
    return {
        "family": node.family,
        "cluster_id": None if header is None else header.cluster_id,
        "member_id": view.member_id,
        "summary": explain(node, view),
        "problems": view.problems,
        "archive": None if folder is None else folder.prefix,
        "log": {
            "recording_id": node.log_recording_id,
            "start_position": None if recording is None else recording.start_position,
            "end_position": view.log_end,
            "is_open": view.is_log_open,
            "leadership_term_id": None if log.last_term is None else log.last_term.leadership_term_id,
            "leader_member_id": view.leader,
        },
        "recovery_plan": None if view.plan is None else view.plan.to_dict(),
        "recording_log": [entry.to_dict() for entry in log.entries],
        "node_state": None if state is None else state.to_dict(),
        "mark_file": None if view.mark is None else view.mark.to_dict(),
        "services": [mark.to_dict() for mark in view.services],
    }


def explain(node: NodeFolder, view: NodeView | None = None) -> list[str]:
    """Describe the node in sentences, the most important first."""
    view = view or view_node(node)
    lines = [_identity(view), *(_component(mark) for mark in (view.mark, *view.services) if mark is not None)]
    lines += _role(node, view)
    lines += _log(node, view)
    lines += _snapshot(node, view)
    lines += _election(node)
    lines += _errors(view)
    return [line[0].upper() + line[1:] for line in lines if line]


def _identity(view: NodeView) -> str:
    mark = view.mark
    if mark is None:
        return "The consensus module's mark file is missing, so the member is unknown."
    count = len(view.services)
    services = "1 service" if count == 1 else f"{count or 'no'} services"
    return f"This is member {mark.header.member_id} of cluster {mark.header.cluster_id}, with {services}."


def _component(mark: ClusterMark) -> str:
    header, name = mark.header, mark.label
    start = time_ms(header.start_timestamp)
    if header.version == -1:
        return f"{name}: the last start, at {start}, failed."
    if mark.is_closed:
        return f"{name}: started at {start} and closed cleanly."
    if mark.is_live(now_ms()):
        return f"{name}: running since {start} (process {header.pid})."
    last = time_ms(header.activity_timestamp)
    return (
        f"{name}: started at {start} (process {header.pid}), last heartbeat at {last}, not closed: it was killed or "
        "hangs."
    )


def was_killed(view: NodeView) -> bool:
    """Whether the consensus module's heartbeat stopped without a clean close."""
    mark = view.mark
    return mark is not None and not mark.is_closed and not mark.is_live(now_ms()) and mark.header.version > 0


def explain_killed(node: NodeFolder) -> tuple[str, str, str]:
    """For a consensus module that was killed or hangs, return its last role, what may be lost, and what a start
    does."""
    view = view_node(node)
    last = node.recording_log.last_term
    if last is None or view.leader is None:
        return "", "nothing", "none needed: a start takes over the file"
    end = "" if view.log_end is None else f", and its log ends at position {view.log_end}"
    if view.leader == view.member_id:
        return (
            f"; it led term {last.leadership_term_id}, its latest{end}",
            "nothing here; its last messages may be on no other member, if a majority did not have them yet",
            "none needed: the others elect a new leader; after a restart it follows, and truncates its log where that "
            "leader's term begins",
        )
    return (
        f"; it followed member {view.leader} in term {last.leadership_term_id}, its latest{end}",
        "later messages, until it catches up: everlog cluster DIR compare shows how many",
        "none needed: when it restarts or resumes, it catches up from the leader",
    )


def _role(node: NodeFolder, view: NodeView) -> list[str]:
    last = node.recording_log.last_term
    if last is None:
        return ["The node has no leadership term yet."]
    term = last.leadership_term_id
    if view.leader is None:
        return [f"The latest leadership term here is {term}; the log does not show its leader."]
    if view.leader != view.member_id:
        return [f"The latest leadership term here is {term}, led by member {view.leader}; this node followed."]
    if not was_killed(view):
        return [f"The latest leadership term here is {term}, led by this node."]
    return [
        f"This node led term {term}, its latest, when it died. The other members elect a new leader without it. Its "
        f"last messages may be on no other member, if a majority did not have them yet: after a restart it follows, "
        f"and truncates its log where the new leader's term begins."
    ]


def _log(node: NodeFolder, view: NodeView) -> list[str]:
    if node.place is None:
        return ["Its archive was not found, so log and snapshots can't be read."]
    if node.log_recording_id is None:
        return ["The node has no log yet."]
    if view.log_end is None:
        return [f"The log is recording {node.log_recording_id}, which is missing in the archive."]
    where = f"The log is recording {node.log_recording_id} and ends at position {view.log_end}"
    if not view.is_log_open:
        return [where + "."]
    if was_killed(view):
        text = where + ", by its frames: the recording has no stop position yet. The archive sets it at its next start."
        compare = "To see whether it lags the other members, compare them: everlog cluster DIR compare."
        return [text] if view.leader == view.member_id else [text, compare]
    return [where + " now; it is being recorded."]


def _snapshot(node: NodeFolder, view: NodeView) -> list[str]:
    sets = complete_sets(list(node.snapshots().values()), service_count(node, len(view.services)))
    if not sets:
        return ["The node has no complete snapshot: a start replays the whole log."]
    latest = sets[0][0]
    text = f"The latest complete snapshot is at position {latest.log_position} of term {latest.leadership_term_id}"
    if view.log_end is not None and view.log_end >= latest.log_position > 0:
        text += f": a start loads it and replays {view.log_end - latest.log_position} bytes of log"
    return [text + "."]


def _election(node: NodeFolder) -> list[str]:
    """Report a term for which the node stood or voted, but that never began here."""
    try:
        state = node.node_state()
    except EverlogError:
        return []
    last = node.recording_log.last_term
    known = -1 if last is None else last.leadership_term_id
    was_seeded = last is None and bool(node.recording_log.entries)  # then earlier terms are unknown
    if state is None or was_seeded or state.candidate_term_id <= known:
        return []
    return [
        f"It stood or voted for term {state.candidate_term_id} at {time_ms(state.timestamp)}, when its log ended at "
        f"{state.log_position}, but that term never began here: the election is not over, or the leader never reached "
        f"this node. Its log does not grow until a leader does."
    ]


def _errors(view: NodeView) -> list[str]:
    lines = []
    for mark in (view.mark, *view.services):
        if mark is None or not mark.errors:
            continue
        latest = max(mark.errors, key=lambda error: error.last_observation_timestamp)
        text = latest.text.strip().split("\n", 1)[0]
        count = "1 distinct error" if len(mark.errors) == 1 else f"{len(mark.errors)} distinct errors"
        lines.append(f"{mark.label} logged {count}; the latest at {time_ms(latest.last_observation_timestamp)}: {text}")
    return lines


def time_ms(timestamp: int) -> str:
    """Format a time as ``2026-11-21T06:24:39.961Z``, or as a number of milliseconds if it is out of range."""
    try:
        return f"{datetime.fromtimestamp(timestamp / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{timestamp % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} ms"
