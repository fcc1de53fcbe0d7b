"""``jlogctl subscriber``: lists, adds, moves and erases subscribers."""

from __future__ import annotations

import click

from everlog.cli.jlogctl.arguments import (
    NAME_WIDTH,
    NOT_DONE,
    AddressType,
    Printer,
    attempt,
    journal_options,
    open_journal,
    shown,
)
from everlog.cli.jlogctl.ownership import check_ownership
from everlog.cli.jlogctl.perspective import last_marker, perspective
from everlog.cli.text import warn
from everlog.core.files.writable import LocalWritableStorage
from everlog.errors import CorruptData, UnknownSubscriber, UsageError
from everlog.jlog.format.addresses import Address
from everlog.jlog.format.checkpoints import Checkpoint, read_checkpoints
from everlog.jlog.format.names import checkpoint_name
from everlog.jlog.reading.journal import Journal

UNREADABLE = "unreadable"


@click.command(context_settings={"allow_interspersed_args": False})
@journal_options()
@click.option("-a", "--add", metavar="SUB", help="Add a subscriber, at the beginning or at -C.")
@click.option("-u", "--update", metavar="SUB", help="Move a subscriber to -C.")
@click.option("-e", "--erase", metavar="SUB", help="Erase a subscriber.")
@click.option("-l", "--list", "listed", is_flag=True, help="List subscribers (default).")
@click.option("-p", "--perspective", "viewer", metavar="SUB", help="Show which messages a subscriber gets next.")
@click.option(
    "-C", "--checkpoint", type=AddressType(), metavar="8x:8x", help="With -a or -u: the last finished message."
)
def subscriber(
    path: str,
    verbose: int,
    as_json: bool,
    add: str | None,
    update: str | None,
    erase: str | None,
    listed: bool,
    viewer: str | None,
    checkpoint: Address | None,
) -> int:
    """List, add, move and erase subscribers, or show which messages one gets next."""
    verbs = {"-a": add, "-e": erase, "-u": update, "-p": viewer, "-l": listed or None}
    given = [flag for flag, value in verbs.items() if value is not None]
    if len(given) > 1:
        raise UsageError(given[0], message=f"{' and '.join(given)} exclude each other")
    if checkpoint is not None and add is None and update is None:
        raise UsageError("-C", message="-C needs -a or -u")
    out = Printer(path, as_json)

    def run() -> int:
        if add is not None:
            return add_one(path, add, checkpoint, out)
        if update is not None:
            return update_one(path, update, checkpoint, out)
        if erase is not None:
            return erase_one(path, erase, out)
        if viewer is not None:
            return show_perspective(path, viewer, out)
        return show_all(path, out)

    code = attempt(run)
    check_ownership(path)
    return code


def show_all(path: str, out: Printer) -> int:
    """Print a line for each subscriber. Returns exit code 1 if a checkpoint is unreadable."""
    journal = open_journal(path)
    code = 0
    for checkpoint in read_checkpoints(journal.storage, journal.storage.names()):
        name = shown(checkpoint.subscriber)
        address = _address(checkpoint)
        if address is None:
            warn(f"{checkpoint.file}: {_state(checkpoint)}; expected 8 bytes")
            code = NOT_DONE
        # The original pads bytes, not characters.
        padding = " " * max(0, NAME_WIDTH - len(name.encode()))
        out(f"\t{padding}{name} @ {_text(address)}", _record(checkpoint))
    return code


def show_perspective(path: str, name: str, out: Printer) -> int:
    """Print a subscriber's perspective. Raises :class:`CorruptData` if its checkpoint is unreadable."""
    journal = open_journal(path)
    checkpoint = checkpoint_of(journal, name)
    address = _address(checkpoint)
    if address is None:
        raise CorruptData(checkpoint.file, found=_state(checkpoint), expected="8 bytes")
    found = perspective(journal, name, address)
    out(found.text(), found.to_dict())
    return 0


def checkpoint_of(journal: Journal, name: str) -> Checkpoint:
    """A subscriber's checkpoint, readable or not. Raises :class:`UnknownSubscriber`."""
    file = checkpoint_name(name)
    for checkpoint in read_checkpoints(journal.storage, [file] if journal.storage.exists(file) else []):
        return checkpoint
    raise unknown(journal, name)


def unknown(journal: Journal, name: str) -> UnknownSubscriber:
    """The error for an unknown subscriber."""
    found = f"no subscriber '{shown(name)}'"
    return UnknownSubscriber(journal.storage.root, found=found, hint="jlogctl subscriber -l lists them")


def check_place(journal: Journal, at: Address | None) -> None:
    """Raises :class:`UsageError` for a checkpoint after the last message: its subscriber would get nothing, or miss the
    messages written next."""
    if at is None:
        return
    written = max(journal.metastore.storage_log or 0, journal.last_log or 0)
    is_there = any(segment.log == at.log for segment in journal.segments)
    last = Address.of(at.log, last_marker(journal, at.log)) if is_there or at.log == written else None
    if at.log > written or (last is not None and at > last):
        most = last or Address.of(written, last_marker(journal, written))
        raise UsageError("-C", found=str(at), expected=f"at most {most}, the last message")


def add_one(path: str, name: str, at: Address | None, out: Printer) -> int:
    """Add a subscriber. An existing one is an error and not changed."""
    from everlog.jlog.subscribing.subscriptions import add_subscriber

    check_place(open_journal(path), at)
    address = add_subscriber(path, name, at="beginning" if at is None else at)
    out(
        f"Added subscriber '{shown(name)}' -> {address}",
        {"added": shown(name), "file": checkpoint_name(name), "checkpoint": str(address)},
    )
    return 0


def update_one(path: str, name: str, at: Address | None, out: Printer) -> int:
    """Move a subscriber. Segments that nobody needs any more are deleted, as when it moves by itself."""
    from everlog.jlog.subscribing.removal import remove_consumed
    from everlog.jlog.subscribing.subscriptions import write_checkpoint

    journal = open_journal(path)
    before = _address(checkpoint_of(journal, name))
    check_place(journal, at)
    after = before
    if at is not None:
        storage = LocalWritableStorage(path)
        write_checkpoint(storage, name, at, sync=True)
        after = at
        if before is None or after.log > before.log:
            remove_consumed(storage)
    out(
        f"Updated subscriber '{shown(name)}' {_text(before)} -> {_text(after)}",
        {
            "updated": shown(name),
            "file": checkpoint_name(name),
            "before": None if before is None else str(before),
            "checkpoint": None if after is None else str(after),
        },
    )
    return 0


def erase_one(path: str, name: str, out: Printer) -> int:
    """Erase a subscriber. Raises :class:`UnknownSubscriber`."""
    from everlog.jlog.subscribing.subscriptions import remove_subscriber

    journal = open_journal(path)
    if not remove_subscriber(path, name):
        raise unknown(journal, name)
    out(f"Erased subscriber '{shown(name)}'", {"erased": shown(name), "file": checkpoint_name(name)})
    return 0


def _address(checkpoint: Checkpoint) -> Address | None:
    if checkpoint.log is None or checkpoint.marker is None:
        return None
    return Address.of(checkpoint.log, checkpoint.marker)


def _text(address: Address | None) -> str:
    return UNREADABLE if address is None else str(address)


def _state(checkpoint: Checkpoint) -> str:
    return checkpoint.error or f"{checkpoint.byte_count} bytes"


def _record(checkpoint: Checkpoint) -> dict[str, object]:
    values = checkpoint.to_dict()
    return {"subscriber": values.pop("name")} | values
