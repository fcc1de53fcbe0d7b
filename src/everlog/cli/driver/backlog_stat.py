"""``everlog driver DIR backlog-stat``: prints the backlog of each stream's senders and subscribers."""

from __future__ import annotations

from collections.abc import Iterator

import click

from everlog.aeron.transport.folder.stats import Backlog, End, backlogs
from everlog.cli.driver.sampling import cnc_path, repeat, stat_options
from everlog.cli.driver.stream_stat import load_counters
from everlog.cli.text import json_line, printable


@click.command
@stat_options
@click.pass_obj
def backlog_stat(folder: str, watch: float | None, as_json: bool) -> int:
    """Print the positions of each stream's publisher, sender, receiver and subscribers, and the bytes between them."""

    def once() -> int:
        counters, code = load_counters(folder)
        found = backlogs(counters)
        if as_json:
            click.echo(json_line({"streams": [backlog.to_dict() for backlog in found]}))
            return code
        click.echo(f"Command `n Control file {printable(cnc_path(folder))}")
        for backlog in found:
            click.echo("\n".join([*_lines(backlog), ""]))
        return code

    return repeat(watch, once)


def _lines(backlog: Backlog) -> Iterator[str]:
    session_id, stream_id, channel = backlog.stream
    yield printable(f"sessionId={session_id} streamId={stream_id} channel={channel} : ")
    if backlog.publisher is not None:
        publisher = backlog.publisher
        yield (
            f"┌─for publisher {publisher.registration_id} the last sampled position is {publisher.position} "
            f"(~{publisher.window} bytes before back-pressure)"
        )
        yield _sender_line(backlog.sender, publisher.position)
    if backlog.receiver is not None:
        receiver = backlog.receiver
        yield f"┌─receiver {receiver.registration_id} is at position {receiver.position}"
        subscribers = backlog.subscriber_backlogs()
        for number, (registration_id, lag) in enumerate(subscribers, 1):
            corner = "└" if number == len(subscribers) else "├"
            yield f"{corner}─subscriber {registration_id} has {lag} backlog bytes"


def _sender_line(sender: End | None, published: int) -> str:
    if sender is None:
        return "└─no sender"
    lag = published - sender.position
    where = f"has to send {lag} bytes" if lag >= 0 else f"is at position {sender.position}"
    return f"└─sender {sender.registration_id} {where} ({sender.window} bytes remaining in the sender window)"
