"""A NATS Streaming file store, open for reading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from everlog.core.batch import Batch
from everlog.core.columns import Column
from everlog.core.files.storage import Storage, is_missing
from everlog.core.options import fill
from everlog.core.report import Fault, Progress, Report, VerifyPart
from everlog.core.splits import Split, SplitTimes
from everlog.core.store import DEFAULT_SPLIT_BYTES, Level, ScanRequest, Store, StreamInfo
from everlog.errors import StoreUnavailable, UnknownStream, UsageError
from everlog.nats_streaming.format.clients import client_dict, read_clients
from everlog.nats_streaming.format.layouts import SUPPORTED_VERSION, FileVersion
from everlog.nats_streaming.format.limits import MAX_DIGITS
from everlog.nats_streaming.format.messages import ClientInfo
from everlog.nats_streaming.format.names import (
    CLIENTS_FILE,
    SERVER_FILE,
    SUBS_FILE,
    channel_problem,
    channel_text,
    parse_slice_name,
)
from everlog.nats_streaming.format.server_info import read_server_info
from everlog.nats_streaming.format.subscriptions import Subscription, fold, subscription_events
from everlog.nats_streaming.options import NatsStreamingOptions
from everlog.nats_streaming.reading.channels import COLUMNS, Channel, Reading, open_channel
from everlog.nats_streaming.reading.encryption import load_master_key
from everlog.nats_streaming.reading.slices import Patience, SliceState
from everlog.nats_streaming.reading.splitting import MAX_SEQUENCE, plan_splits, times_of
from everlog.nats_streaming.verify.store import plan_parts, verify_part, verify_store

_MAX_DETECTED_FOLDERS = 1000


class NatsStreamingStore(Store):
    """Channels are streams, sequences are addresses. Limits, keys and checksums: see :class:`NatsStreamingOptions`."""

    family: ClassVar[str] = "nats-streaming"
    options_class: ClassVar[type] = NatsStreamingOptions

    def __init__(self, storage: Storage, options: NatsStreamingOptions) -> None:
        super().__init__(storage)
        self.options = options
        self._reading = Reading(
            storage,
            options.new_crc(),
            options.checks_crc,
            options.limits(),
            options.clock_ns(),
            options.reads_bak,
            load_master_key(options),
        )
        self._folders: dict[str, str] = {}

    @property
    def reading(self) -> Reading:
        """The read settings and caches that all channels of the store share."""
        return self._reading

    @classmethod
    def open(cls, storage: Storage, options: Mapping[str, Any]) -> Self:
        """Open a store for reading without reading any file yet.

        Raises :class:`UsageError` for wrong options and :class:`KeyRefused` for a missing or empty key.
        """
        return cls(storage, fill(NatsStreamingOptions, options))

    @classmethod
    def detect(cls, storage: Storage) -> bool:
        """Whether the folder has ``server.dat`` or ``clients.dat`` of version 1, or a sub-folder that is a channel."""
        folders, files = [], set()
        for entry in storage.entries():
            if entry.is_dir:
                folders.append(entry.name)
            elif entry.is_file:
                files.add(entry.name)
        if any(_has_version(storage, name) for name in (SERVER_FILE, CLIENTS_FILE) if name in files):
            return True
        return any(_is_channel(storage, name) for name in sorted(folders)[:_MAX_DETECTED_FOLDERS])

    def channels(self) -> Iterator[Channel]:
        """Yield the channels, sorted by name. Like the server, take every sub-folder for a channel."""
        folders = self._list_folders()
        self._reading.patience = Patience()
        for folder in folders:
            yield open_channel(self._reading, folder)

    def _list_folders(self) -> list[str]:
        """List the channels' folders, sorted, and cache them: :meth:`channel` then needs no file access per channel."""
        folders = sorted(entry.name for entry in self.storage.entries() if entry.is_dir)
        self._folders = {channel_text(name): name for name in folders} | {name: name for name in folders}
        return folders

    def channel(self, stream: str) -> Channel:
        """Open one channel by name. Raises :class:`UnknownStream` if the store has no such channel."""
        folder = self._folders.get(stream)
        if folder is None and "/" not in stream and channel_problem(stream) is None:
            # Usually avoids a listing.
            folder = stream if self.storage.exists(f"{stream}/{SUBS_FILE}") else None
        if folder is not None:
            try:
                return open_channel(self._reading, folder)
            except StoreUnavailable as error:
                if not is_missing(error):
                    raise  # otherwise it was deleted after the listing
        return open_channel(self._reading, self._folder_of(stream))

    def _folder_of(self, stream: str) -> str:
        """List the folders again and look up the channel's. Raises :class:`UnknownStream`."""
        if self._may_exist(stream):
            self._list_folders()
            if (folder := self._folders.get(stream)) is not None:
                return folder
        raise UnknownStream(
            self.path,
            found=f"no channel {stream!r}",
            expected="one that ls lists",
            hint=f"see: everlog ls {self.path}",
            message=f"no channel {stream!r} in {self.path}",
        )

    def _may_exist(self, stream: str) -> bool:
        """Whether listing the folders could find the channel. A name with ``\\x`` may stand for bytes that are not
        UTF-8."""
        if stream in ("", ".", "..") or "/" in stream or "\0" in stream:
            return False
        return "\\x" in stream or self.storage.exists(stream)

    def stream_names(self, *, include_all: bool = False) -> list[str]:
        """List the channels' names. Reads the store's folder only."""
        return [channel_text(folder) for folder in self._list_folders()]

    def streams(self, *, include_all: bool = False) -> list[StreamInfo]:
        """Describe each channel.

        ``byte_count`` matches the server's monitoring: each record's payload plus 40 bytes.
        """
        return [self._stream(channel) for channel in self.channels()]

    def _stream(self, channel: Channel) -> StreamInfo:
        kept, last = channel.kept, channel.last
        any_left = kept.count > 0
        folder = channel.folder
        details: dict[str, Any] = {
            "slices": sum(not s.is_bak for s in folder.slices),
            "bak_slices": sum(s.is_bak for s in folder.slices),
            "subscriptions": len(self._subscriptions(channel)) if (folder.subs_size or 0) > FileVersion.size else 0,
            "removed_by_limits": kept.removed_count,
            "removed_bytes": kept.removed_bytes,
        }
        return StreamInfo(
            channel.name,
            self.family,
            str(kept.first) if any_left else None,
            str(last) if any_left else None,
            str(last + 1) if last else None,
            kept.count,
            kept.byte_count,
            details,
        )

    def _subscriptions(self, channel: Channel) -> dict[int, Subscription]:
        name = f"{channel.folder.folder}/{SUBS_FILE}"
        if channel.folder.subs_size is None:
            return {}
        with self.storage.open(name) as file:
            reading = self._reading
            return fold(subscription_events(file, name, reading.crc, reading.check, _ignore, channel.name))

    def family_columns(self, level: Level = Level.RECORD) -> tuple[Column, ...]:
        """Return the same columns for both levels: here each record is one frame."""
        return COLUMNS

    def walk(self, stream: str, request: ScanRequest) -> Iterator[Batch]:
        """Yield a channel's messages in sequence order.

        Raises :class:`UnknownStream` if the store has no such channel, :class:`KeyRefused` if the encryption key is
        wrong, and :class:`FileChanged` if a file is cut during the scan.
        """
        if request.split is not None:
            folder, plan = request.split.context
            channel = Channel(self._reading, folder)
        else:
            channel = self.channel(stream)
            plan = channel.plan()
        return channel.walk(request, plan)

    def splits(
        self, stream: str, *, start: int | None = None, end: int | None = None, split_bytes: int = DEFAULT_SPLIT_BYTES
    ) -> list[Split]:
        """Cut a channel into splits: small slices are grouped, large slices with a good index are divided."""
        return plan_splits(self.channel(stream), stream, start, end, split_bytes)

    def split_times(self, splits: list[Split]) -> list[SplitTimes]:
        """Take each split's time range from its slices' indexes."""
        return [times_of(split) for split in splits]

    def parse_address(self, text: str) -> int:
        """Parse a decimal sequence number. Raises :class:`UsageError` if ``text`` is not one."""
        if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS) or int(text) > MAX_SEQUENCE:
            raise UsageError("address", found=repr(text), expected="a sequence number such as 17")
        return int(text)

    def format_address(self, address: int) -> str:
        """Format a sequence number as decimal digits."""
        return str(address)

    @property
    def address_columns(self) -> tuple[str, ...]:
        """The column of the sequence number, which is the address."""
        return ("sequence",)

    def clients(self) -> dict[str, ClientInfo]:
        """Return the registered clients by client ID."""
        return read_clients(self.storage, self._reading.crc, self._reading.check, _ignore)

    def info(self) -> dict[str, Any]:
        """Describe the whole store: ``server_info`` (or ``None``), ``clients``, the ``limits`` in force, and
        ``channels`` by name with their slices and subscriptions."""
        reading = self._reading
        server = read_server_info(self.storage, reading.crc, reading.check, _ignore)
        clients = self.clients()
        limits = reading.limits
        channels = {}
        for channel in self.channels():
            kept = channel.kept
            channels[channel.name] = {
                "first_sequence": kept.first,
                "last_sequence": channel.last,
                "messages": kept.count,
                "bytes": kept.byte_count,
                "removed_by_limits": kept.removed_count,
                "slices": [_slice_dict(s) for s in channel.states],
                "subscriptions": [s.to_dict(clients) for s in self._subscriptions(channel).values()],
            }
        return {
            "server_info": None if server is None else server.to_dict(),
            "clients": [client_dict(clients[name]) for name in sorted(clients)],
            "limits": {"max_msgs": limits.max_msgs, "max_bytes": limits.max_bytes, "max_age_ns": limits.max_age_ns},
            "encryption_key": "given" if reading.key is not None else "none",
            "crc_polynomial": f"0x{reading.crc.polynomial:08x}",
            "channels": channels,
        }

    def verify(self, progress: Progress | None = None) -> Report:
        """Check every record of every file. See :meth:`Store.verify`."""
        return verify_store(self.storage, self._reading, self.family, progress)

    def verify_parts(self, split_bytes: int = DEFAULT_SPLIT_BYTES) -> list[VerifyPart]:
        """Divide verification into the root's files and groups of channels."""
        return plan_parts(self.storage, split_bytes)

    def verify_part(self, part: VerifyPart) -> Report:
        return verify_part(self.storage, self._reading, self.family, part)


def _ignore(fault: Fault) -> None:
    """Drop a fault: only verify reports damage; everything else returns the state as far as it is readable."""


def _slice_dict(state: SliceState) -> dict[str, Any]:
    piece = state.slice
    return {
        "number": piece.number,
        "bak": piece.is_bak,
        "dat_size": piece.dat_size,
        "idx_size": piece.idx_size,
        "first_sequence": state.first,
        "last_sequence": state.last,
        "messages": state.count,
        "bytes": state.byte_count,
        "indexed": state.indexed,
    }


def _has_version(storage: Storage, name: str) -> bool:
    try:
        with storage.open(name) as file:
            head = file.read_at(0, FileVersion.size)
    except StoreUnavailable:
        return False
    return len(head) == FileVersion.size and FileVersion.unpack_from(head).version == SUPPORTED_VERSION


def _is_channel(storage: Storage, folder: str) -> bool:
    try:
        names = storage.names(folder)
    except StoreUnavailable:
        return False
    return any(name == SUBS_FILE or parse_slice_name(name) is not None for name in names)
