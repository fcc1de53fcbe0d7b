"""A node's state, in words that an operator understands, and as plain values: who it is, whether it runs, how it ended,
what it would do when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from everlog.aeron.cluster.folder.node import NodeFolder
from everlog.aeron.cluster.folder.recovery_plan import RecoveryPlan, plan_recovery
from everlog.aeron.cluster.folder.scanning import LOG, MessageContext, raw_messages
from everlog.aeron.cluster.folder.snapshot import complete_sets
from everlog.aeron.cluster.format.mark_file import ClusterMark, load_mark
from everlog.aeron.cluster.format.messages import decode_message
from everlog.aeron.cluster.format.recording_log import Entry
from everlog.aeron.mark_file import now_ms
from everlog.errors import EverlogError


@dataclass(slots=True)
class NodeView:
    """What the files say, as far as they could be read; ``problems`` tells of the others."""

    mark: ClusterMark | None = None
    services: list[ClusterMark] = field(default_factory=list)
    leader: int | None = None
    log_end: int | None = None
    is_log_open: bool = False
    plan: RecoveryPlan | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def member_id(self) -> int | None:
        """By the mark files."""
        mark = self.mark or next(iter(self.services), None)
        return None if mark is None else mark.header.member_id


def service_count(node: NodeFolder, marks: int) -> int:
    """How many services the node has, by its snapshots and mark files."""
    ids = [entry.service_id for entry in node.snapshots().values()]
    return max([marks, *(service_id + 1 for service_id in ids)])


def leader_of(node: NodeFolder, entry: Entry, context: MessageContext | None = None) -> int | None:
    """Who led a term, by the first message of it in the log. ``context``: of the log, where it is at hand."""
    context = context or node.context(LOG)
    if context is None or node.place is None:
        return None
    start = max(entry.term_base_log_position, context.archive.segments.start_position)
    storage = node.place.storage
    raw = next(raw_messages(storage, context.archive, start, on_fault=lambda fault: None, max_rows=1), None)
    message = None if raw is None else decode_message(raw.data)
    if message is None or message.kind != "new-leadership-term":
        return None
    if message.fields["leadership_term_id"] != entry.leadership_term_id:
        return None
    leader: int = message.fields["leader_member_id"]
    return leader


def view_node(node: NodeFolder) -> NodeView:
    """Read what there is; never raises for damage."""
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
    """``store.info()``."""
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
    """Sentences about the node, the most telling first."""
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
        return "There is no mark file of a consensus module: which member this is can't be told."
    count = len(view.services)
    services = "1 service" if count == 1 else f"{count or 'no'} services"
    return f"This is member {mark.header.member_id} of cluster {mark.header.cluster_id}, with {services}."


def _component(mark: ClusterMark) -> str:
    header, name = mark.header, mark.label
    start = time_ms(header.start_timestamp)
    if header.version == -1:
        return f"{name}: its last start, at {start}, failed."
    if mark.is_closed:
        return f"{name}: started at {start}, and closed cleanly."
    if mark.is_live(now_ms()):
        return f"{name}: runs since {start} (process {header.pid})."
    last = time_ms(header.activity_timestamp)
    return (
        f"{name}: started at {start} (process {header.pid}), last alive at {last}, and never closed: it was killed, "
        "or it hangs."
    )


def was_killed(view: NodeView) -> bool:
    """Whether the consensus module did not close, and gives no sign of life."""
    mark = view.mark
    return mark is not None and not mark.is_closed and not mark.is_live(now_ms()) and mark.header.version > 0


def explain_killed(node: NodeFolder) -> tuple[str, str, str]:
    """Of a consensus module that was killed or hangs: what it was doing, what that may cost, and what a start does."""
    view = view_node(node)
    last = node.recording_log.last_term
    if last is None or view.leader is None:
        return "", "nothing", "none needed: a start takes the file over"
    end = "" if view.log_end is None else f", and its log ends at position {view.log_end}"
    if view.leader == view.member_id:
        return (
            f"; it led term {last.leadership_term_id}, its latest{end}",
            "nothing here; what it appended last, before a majority had it, may be known to no other member",
            "none needed: the others elect a new leader; when it starts again it follows, and cuts its log off where "
            "that leader's term begins",
        )
    return (
        f"; it followed member {view.leader} in term {last.leadership_term_id}, its latest{end}",
        "what the others have behind that, until it follows again: everlog cluster DIR compare tells how much",
        "none needed: when it starts, or goes on, it catches up from the leader",
    )


def _role(node: NodeFolder, view: NodeView) -> list[str]:
    last = node.recording_log.last_term
    if last is None:
        return ["No leadership term is known here."]
    term = last.leadership_term_id
    if view.leader is None:
        return [f"The latest leadership term here is {term}; who led it can't be told from the log."]
    if view.leader != view.member_id:
        return [f"The latest leadership term here is {term}, led by member {view.leader}: this node followed."]
    if not was_killed(view):
        return [f"The latest leadership term here is {term}, led by this node."]
    return [
        f"This node led term {term}, its latest, when it died. The other members elect a new leader without it. What "
        f"it appended at the end, before a majority had it, may be known to no other member: when it starts again it "
        f"follows, and cuts its log off where the new leader's term begins."
    ]


def _log(node: NodeFolder, view: NodeView) -> list[str]:
    if node.place is None:
        return ["Its archive was not found: log and snapshots can't be looked at."]
    if node.log_recording_id is None:
        return ["There is no log yet."]
    if view.log_end is None:
        return [f"The log should be recording {node.log_recording_id}, which is not in the archive."]
    where = f"The log is recording {node.log_recording_id} and ends at position {view.log_end}"
    if not view.is_log_open:
        return [where + "."]
    if was_killed(view):
        text = where + ", by its frames: the recording has no stop position. The archive sets it when it starts."
        behind = (
            "Whether it fell behind the other members shows when it is compared with them: everlog cluster DIR compare."
        )
        return [text] if view.leader == view.member_id else [text, behind]
    return [where + " now: it is being recorded."]


def _snapshot(node: NodeFolder, view: NodeView) -> list[str]:
    sets = complete_sets(list(node.snapshots().values()), service_count(node, len(view.services)))
    if not sets:
        return ["There is no complete snapshot: a start replays the whole log."]
    latest = sets[0][0]
    text = f"The latest complete snapshot is at position {latest.log_position} of term {latest.leadership_term_id}"
    if view.log_end is not None and view.log_end >= latest.log_position > 0:
        text += f": a start loads it and replays {view.log_end - latest.log_position} bytes of log"
    return [text + "."]


def _election(node: NodeFolder) -> list[str]:
    """A node that stood or voted for a term which never began here: it lost touch."""
    try:
        state = node.node_state()
    except EverlogError:
        return []
    last = node.recording_log.last_term
    known = -1 if last is None else last.leadership_term_id
    was_seeded = last is None and bool(node.recording_log.entries)  # then what came before is not known
    if state is None or was_seeded or state.candidate_term_id <= known:
        return []
    return [
        f"It stood or voted for term {state.candidate_term_id} at {time_ms(state.timestamp)}, when its log ended at "
        f"{state.log_position}, and that term never began here: the election is not over, or its leader never reached "
        f"this node. Its log does not grow until one does."
    ]


def _errors(view: NodeView) -> list[str]:
    lines = []
    for mark in (view.mark, *view.services):
        if mark is None or not mark.errors:
            continue
        latest = max(mark.errors, key=lambda error: error.last_observation_timestamp)
        text = latest.text.strip().split("\n", 1)[0]
        count = "1 distinct error" if len(mark.errors) == 1 else f"{len(mark.errors)} distinct errors"
        lines.append(f"{mark.label} met {count}; the latest at {time_ms(latest.last_observation_timestamp)}: {text}")
    return lines


def time_ms(timestamp: int) -> str:
    """``2026-11-21T06:24:39.961Z``; the number where no calendar has it."""
    try:
        return f"{datetime.fromtimestamp(timestamp / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{timestamp % 1000:03d}Z"
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} ms"
