"""Aeron Archive: recordings in a folder. ``create`` or ``open_archive`` to write; :func:`everlog.open_store` to read.

>>> from everlog.aeron import archive
>>> with archive.create("/var/lib/trades") as store:                 # doctest: +SKIP
...     recorder = store.start_recording("aeron:ipc", stream_id=1001)
...     recorder.append(b"first")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.lazy import lazy_names

if TYPE_CHECKING:
    from everlog.aeron.archive.archive import Archive as Archive
    from everlog.aeron.archive.opening import create as create
    from everlog.aeron.archive.opening import open_archive as open_archive
    from everlog.aeron.archive.recording.events import EventStream as EventStream
    from everlog.aeron.archive.recording.events import RecordingProgress as RecordingProgress
    from everlog.aeron.archive.recording.events import RecordingSignal as RecordingSignal
    from everlog.aeron.archive.recording.events import RecordingStarted as RecordingStarted
    from everlog.aeron.archive.recording.events import RecordingStopped as RecordingStopped
    from everlog.aeron.archive.recording.events import SignalEvent as SignalEvent
    from everlog.aeron.archive.recording.options import ArchiveOptions as ArchiveOptions
    from everlog.aeron.archive.recording.refusals import ArchiveError as ArchiveError
    from everlog.aeron.archive.recording.refusals import ErrorCode as ErrorCode
    from everlog.aeron.archive.recording.replay import Replay as Replay
    from everlog.aeron.archive.writing.recorder import Recorder as Recorder
    from everlog.core.files.durability import Durability as Durability
else:
    _homes = {
        "Archive": "everlog.aeron.archive.archive",
        "ArchiveOptions": "everlog.aeron.archive.recording.options",
        "Durability": "everlog.core.files.durability",
        "ErrorCode": "everlog.aeron.archive.recording.refusals",
        "EventStream": "everlog.aeron.archive.recording.events",
        "Recorder": "everlog.aeron.archive.writing.recorder",
        "RecordingProgress": "everlog.aeron.archive.recording.events",
        "RecordingSignal": "everlog.aeron.archive.recording.events",
        "RecordingStarted": "everlog.aeron.archive.recording.events",
        "RecordingStopped": "everlog.aeron.archive.recording.events",
        "ArchiveError": "everlog.aeron.archive.recording.refusals",
        "Replay": "everlog.aeron.archive.recording.replay",
        "SignalEvent": "everlog.aeron.archive.recording.events",
        "create": "everlog.aeron.archive.opening",
        "open_archive": "everlog.aeron.archive.opening",
    }
    # Each module is imported when its name is first used, so that reading an archive imports no writing code.
    __getattr__, __dir__, __all__ = lazy_names(__name__, _homes)
