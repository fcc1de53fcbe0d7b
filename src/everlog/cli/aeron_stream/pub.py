"""``everlog aeron pub``: stdin, published."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from everlog.aeron.transport.client.appending.results import too_long
from everlog.cli.aeron_stream.connection import connect, connection_options
from everlog.cli.read import unescaped
from everlog.cli.seconds import Seconds
from everlog.cli.text import print_error
from everlog.errors import EverlogError, UsageError

if TYPE_CHECKING:
    from everlog.aeron.transport.client.publication import ExclusivePublication

CHUNK_BYTES = 1 << 16
WAIT_SECONDS = 10.0
POLL_SECONDS = 0.001


@click.command
@connection_options
@click.option("--delimiter", metavar="TEXT", help=r"What ends a message instead of \n; \t, \0, \xHH are known.")
@click.option("--block", type=click.IntRange(min=1), metavar="BYTES", help="Messages of so many bytes, of any content.")
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="At most so many messages.")
@click.option(
    "--wait", "seconds", type=Seconds(), default=WAIT_SECONDS, show_default=True, help="For driver and subscriber."
)
def pub(
    folder: str | None,
    channel: str,
    stream_id: int,
    delimiter: str | None,
    block: int | None,
    count: int | None,
    seconds: float,
) -> int:
    """Publish each line of stdin as a message, without its line break. Nothing is sent before there is a subscriber,
    and a subscriber that is slow is waited for.
    """
    if block is not None and delimiter is not None:
        raise click.UsageError("--block and --delimiter exclude each other")
    ending = b"\n" if delimiter is None else unescaped(delimiter)
    if not ending:
        raise click.UsageError("--delimiter needs a text")
    stdin = sys.stdin.buffer
    with connect(folder, seconds) as aeron, aeron.add_exclusive_publication(channel, stream_id) as publication:
        longest = publication.max_message_length
        if block is not None and block > longest:
            raise too_long(longest)
        _await_subscriber(publication, seconds)
        batches = blocks(stdin, block) if block is not None else lines(stdin, ending, longest)
        _publish(publication, batches, count, seconds)
    return 0


def _await_subscriber(publication: ExclusivePublication, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not publication.is_connected:
        if time.monotonic() > end:
            expected = f"a subscriber within {seconds:g} s"
            raise UsageError(publication.channel, found="no subscriber", expected=expected, hint="--wait waits longer")
        time.sleep(POLL_SECONDS)


def _publish(
    publication: ExclusivePublication, batches: Iterator[list[bytes]], count: int | None, seconds: float
) -> None:
    """Publish, and tell how many messages were: also where one can't be."""
    sent = 0
    try:
        for batch in batches if count != 0 else ():
            messages = batch if count is None else batch[: count - sent]
            publication.send_many(messages, timeout_s=seconds)
            sent += len(messages)
            if sent == count:
                break
    except EverlogError as error:
        print_error(f"{sent + error.appended} messages published")
        raise
    print_error(f"{sent} messages published")


def lines(stdin: BinaryIO, ending: bytes, longest: int) -> Iterator[list[bytes]]:
    """What is there already, cut behind each ``ending``; what follows the last one is a message too. Raises
    :class:`UsageError` for one of more than ``longest`` bytes before all of it is read: it may have no end."""
    rest = b""
    while chunk := stdin.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
        *found, rest = (rest + chunk).split(ending)
        if found:
            yield found
        if len(rest) >= longest + len(ending):
            raise too_long(longest)
    if rest:
        yield [rest]


def blocks(stdin: BinaryIO, length: int) -> Iterator[list[bytes]]:
    """What is there already, ``length`` bytes each; the last one of all may be shorter."""
    rest = bytearray()
    while chunk := stdin.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
        rest += chunk
        whole = len(rest) - len(rest) % length
        if whole:
            yield [bytes(rest[at : at + length]) for at in range(0, whole, length)]
            del rest[:whole]
    if rest:
        yield [bytes(rest)]
