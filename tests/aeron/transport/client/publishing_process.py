"""A process that publishes to a log in a file, as a client would: ``FILE KIND NUMBER SEED``. Its messages tell who sent
them, their running number, and have a length and bytes that follow from these."""

from __future__ import annotations

import os
import random
import sys
import time
from array import array
from typing import Any

from tests.aeron.transport.client.private_log import TERM, PrivateLog

MESSAGES = 6_000
MAX_LENGTH = 3000


def message(publisher: int, number: int) -> bytes:
    """Of a publisher."""
    length = random.Random(publisher * MESSAGES + number).choice((0, 1, 24, 32, 33, 100, 300, MAX_LENGTH))
    return publisher.to_bytes(4, "little") + number.to_bytes(4, "little") + bytes([number % 251]) * length


def mapped(path: str) -> PrivateLog:
    """The log in a file: three terms, metadata, counters."""
    from everlog.kernel._memory import Memory

    fd = os.open(path, os.O_RDWR)
    try:
        memory = Memory.map(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)
    terms = [memory.slice(TERM * i, TERM) for i in range(3)]
    return PrivateLog(terms, memory.slice(3 * TERM, 4096), memory.slice(3 * TERM + 4096, 16))


def publish(appender: Any, publisher: int, source: random.Random) -> None:
    """All messages, in each way that there is."""
    from everlog.aeron.transport.client.appending._publication import BufferClaim

    messages, sent = [message(publisher, number) for number in range(MESSAGES)], 0
    while sent < MESSAGES:
        way, several = source.randrange(4), messages[sent : sent + source.randrange(1, 90)]
        if way == 0:
            result = min(appender.offer(several[0]), 1)
        elif way == 1:
            result = appender.offer_many(several)
        elif way == 2:
            ends = [0]
            for each in several:
                ends.append(ends[-1] + len(each))
            result = appender.append_columns(b"".join(several), array("i", ends))
        else:
            result = claimed(appender, several[0], BufferClaim())
        if result > 0:
            sent += result
        else:
            time.sleep(0)


def claimed(appender: Any, payload: bytes, claim: Any) -> int:
    """1 if it was published."""
    if len(payload) > appender.max_payload_length:
        return 0
    if appender.try_claim(len(payload), claim) < 0:
        return 0
    with claim:
        claim.put(payload)
    return 1


def main(path: str, kind: str, publisher: int, seed: int) -> None:
    """Publish."""
    from everlog.aeron.transport.client.appending import _publication

    log = mapped(path)
    publish(getattr(_publication, kind)(log, log.counters, 0), publisher, random.Random(seed))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
