"""Names on the way from NATS Streaming to JetStream: a channel's stream and subject, a durable's consumer. No I/O.

JetStream's names of streams and consumers may not contain white space, ``.``, ``*``, ``>``, ``/`` or ``\\`` (ADR-6 of
NATS' architecture repository); channels are full of dots.
"""

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
"""Hexadecimal digits of a CRC-32 that distinguish two names that would otherwise be equal."""


RESERVED = ("_everlog.", "$JS.", "$SYS.")
"""Prefixes of subjects that belong to a migration (including those it purges) or to the server."""


@dataclass(frozen=True, slots=True)
class SubjectMapping:
    """``orders.*=shop.orders.*``: subjects that match the left side are replaced by the right side, whose wildcards
    stand, from left to right, for the tokens that the left side's matched. ``*`` is one token, ``>`` the rest."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> SubjectMapping:
        """Parse ``FROM=TO``. Raises :class:`UsageError` if the wildcards differ."""
        left, equals, right = text.partition("=")
        source, target = tuple(left.split(".")), tuple(right.split("."))
        wild = [[token for token in side if token in ("*", ">")] for side in (source, target)]
        is_good = equals and all(source) and all(target) and wild[0] == wild[1]
        if not is_good or ">" in source[:-1] or ">" in target[:-1]:
            expected = "FROM=TO with the same wildcards on both sides, such as orders.*=shop.orders.*"
            raise UsageError("subject mapping", found=repr(text), expected=expected)
        return cls(source, target)

    def apply(self, subject: str) -> str | None:
        """The new subject; ``None`` if this one does not match."""
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
    """Map the subject by the first mapping that matches, if any, and add ``prefix``. Raises :class:`UsageError` for a
    subject that NATS does not allow, or that a server or a migration uses itself."""
    found = next((new for mapping in mappings if (new := mapping.apply(subject)) is not None), subject)
    found = prefix + found
    if not all(found.split(".")) or re.search(r"[\s*>\x00-\x1f]", found):
        raise UsageError(
            "subject", found=repr(found), expected="tokens separated by dots, without white space and wildcards"
        )
    if found.startswith(RESERVED):
        raise UsageError(
            "subject", found=repr(found), expected=f"a subject that does not begin with {', '.join(RESERVED)}"
        )
    return found


def plain_name(text: str) -> str:
    """The text with ``_`` for each character that JetStream does not allow."""
    return _FORBIDDEN.sub("_", text) or "_"


def marked_name(text: str, prefix: str = "") -> str:
    """A name made unique by a mark."""
    return f"{plain_name(prefix + text)}_{_mark(text)}"


def _mark(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogateescape')):0{_CLASH_MARK}x}"


def distinct_names(texts: Sequence[str], prefix: str = "") -> dict[str, str]:
    """A name for each of ``texts``, which depends only on them; texts whose names would be equal get a mark, the CRC-32
    of the text. Raises :class:`UsageError` for a name that is too long."""
    names = {text: plain_name(prefix + text) for text in texts}
    count = Counter(names.values())
    for text, name in names.items():
        if count[name] > 1:
            names[text] = marked_name(text, prefix)
        if len(names[text].encode("utf-8", "surrogateescape")) > MAX_NAME_LENGTH:
            found = f"{len(names[text])} characters for {text!r}"
            raise UsageError("name", found=found, expected=f"at most {MAX_NAME_LENGTH}")
    return names
