"""Names on the way from NATS Streaming to JetStream: a channel's stream and subject, a durable's consumer. Pure.

JetStream's names of streams and consumers take no white space, ``.``, ``*``, ``>``, ``/`` or ``\\`` (ADR-6 of NATS'
architecture repository); channels are full of dots."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from everlog.errors import UsageError

MAX_NAME_LENGTH = 255
_FORBIDDEN = re.compile(r"[\s.*>/\\:\x00-\x1f\x7f]")
_CLASH_MARK = 8
"""Hexadecimal digits of a CRC-32 that tell two names apart that would be the same."""


RESERVED = ("_everlog.", "$JS.", "$SYS.")
"""Beginnings of subjects that are a migration's own (what it purges is among them), or the server's."""


@dataclass(frozen=True, slots=True)
class SubjectMapping:
    """``orders.*=shop.orders.*``: subjects that fit the left side get the right one; its wildcards, from left to right,
    stand for the same tokens. ``*`` is one token, ``>`` the rest."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> SubjectMapping:
        """Raises :class:`UsageError`."""
        left, equals, right = text.partition("=")
        source, target = tuple(left.split(".")), tuple(right.split("."))
        wild = [[token for token in side if token in ("*", ">")] for side in (source, target)]
        is_good = equals and all(source) and all(target) and wild[0] == wild[1]
        if not is_good or ">" in source[:-1] or ">" in target[:-1]:
            expected = "FROM=TO, the same wildcards in both, such as orders.*=shop.orders.*"
            raise UsageError("subject mapping", found=repr(text), expected=expected)
        return cls(source, target)

    def apply(self, subject: str) -> str | None:
        """The new subject; ``None`` for one that does not fit."""
        tokens = subject.split(".")
        caught: list[str] = []
        for number, token in enumerate(self.source):
            if token == ">":
                if number >= len(tokens):
                    return None
                caught.append(".".join(tokens[number:]))
                tokens = tokens[:number]
                break
            if number >= len(tokens) or token not in ("*", tokens[number]):
                return None
            if token == "*":
                caught.append(tokens[number])
        else:
            if len(tokens) != len(self.source):
                return None
        rest = iter(caught)
        return ".".join(next(rest) if token in ("*", ">") else token for token in self.target)


def map_subject(subject: str, mappings: Sequence[SubjectMapping], prefix: str = "") -> str:
    """By the first mapping that fits, else as it is; ``prefix`` comes before either. Raises :class:`UsageError` for a
    subject that NATS does not take, or on which a server or a migration says other things."""
    found = next((new for mapping in mappings if (new := mapping.apply(subject)) is not None), subject)
    found = prefix + found
    if not all(found.split(".")) or re.search(r"[\s*>\x00-\x1f]", found):
        raise UsageError("subject", found=repr(found), expected="tokens with dots between, no white space or wildcards")
    if found.startswith(RESERVED):
        raise UsageError("subject", found=repr(found), expected=f"one that does not begin with {', '.join(RESERVED)}")
    return found


def plain_name(text: str) -> str:
    """With ``_`` for each character that JetStream does not take."""
    return _FORBIDDEN.sub("_", text) or "_"


def marked_name(text: str, prefix: str = "") -> str:
    """A name that no other text has."""
    return f"{plain_name(prefix + text)}_{_mark(text)}"


def _mark(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):0{_CLASH_MARK}x}"


def distinct_names(texts: Sequence[str], prefix: str = "") -> dict[str, str]:
    """A name for each of ``texts``, the same whenever these are the same; where two would share one, both are marked
    with the CRC-32 of their text. Raises :class:`UsageError` for a name that is too long."""
    names = {text: plain_name(prefix + text) for text in texts}
    count = Counter(names.values())
    for text, name in names.items():
        if count[name] > 1:
            names[text] = marked_name(text, prefix)
        if len(names[text].encode("utf-8", "surrogateescape")) > MAX_NAME_LENGTH:
            found = f"{len(names[text])} characters for {text!r}"
            raise UsageError("name", found=found, expected=f"at most {MAX_NAME_LENGTH}")
    return names
