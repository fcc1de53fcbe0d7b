"""The JetStream stream that a channel becomes: its configuration during the import and afterwards. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everlog.errors import UsageError
from everlog.pipelines.migrate.move import ChannelMove

IMPORTING, DONE = "importing", "done"
GAP_SUBJECT = "_everlog.gap"


def import_subject(stream: str) -> str:
    """The prefix of the subject that a stream listens on during the import."""
    return f"_everlog.import.{stream}"


def stream_config(move: ChannelMove, state: str) -> dict[str, Any]:
    """The stream's configuration; ``state`` is ``importing`` or ``done``. Limits are only set at the end, so that no
    placeholder displaces a message."""
    settings = move.settings
    config: dict[str, Any] = {
        "name": move.stream,
        "storage": settings.storage,
        "num_replicas": settings.replicas,
        "retention": "limits",
        "discard": "old",
        "first_seq": move.first,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": -1,
        "max_msgs_per_subject": -1,
        "allow_direct": True,
        "metadata": {
            "everlog.channel": move.channel,
            "everlog.cluster": move.cluster,
            "everlog.subject": move.subject,
            "everlog.state": state,
        },
    }
    if state == IMPORTING:
        source = import_subject(move.stream) + ".>"
        return config | {"subjects": [source], "subject_transform": {"src": source, "dest": ">"}}
    config["metadata"]["everlog.last"] = str(move.last)
    return config | {
        "subjects": [move.subject],
        "max_msgs": settings.max_msgs or -1,
        "max_bytes": settings.max_bytes or -1,
        "max_age": settings.max_age_ns or 0,
    }


def is_ours(move: ChannelMove, info: Mapping[str, Any]) -> bool:
    """Whether a stream was created for this channel."""
    metadata = info["config"].get("metadata") or {}
    return all(metadata.get(name) == wanted for name, wanted in _marks(move))


def _marks(move: ChannelMove) -> tuple[tuple[str, str], ...]:
    return (("everlog.channel", move.channel), ("everlog.cluster", move.cluster), ("everlog.subject", move.subject))


def check_is_ours(move: ChannelMove, info: Mapping[str, Any]) -> None:
    """Raise :class:`UsageError` if a stream of that name was not created for this channel."""
    metadata = info["config"].get("metadata") or {}
    for name, wanted in _marks(move):
        found = metadata.get(name)
        if found != wanted:
            kind = name.partition(".")[2]
            raise UsageError(
                f"stream {move.stream}",
                found="a stream that no migration made" if found is None else f"{kind} {found!r}",
                expected=f"no stream of this name, or one of {kind} {wanted!r}",
                message=f"stream {move.stream} exists already and "
                + ("no migration made it" if found is None else f"has {kind} {found!r}, not {wanted!r}"),
                hint="use another stream prefix to create another stream",
            )
