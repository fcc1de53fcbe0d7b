"""The messages of an SBE schema, each a :class:`~everlog.fields.Block` with a template id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from everlog.errors import UsageError
from everlog.fields import Block, Field


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a schema. ``since`` and ``deprecated`` are schema versions, 0 if the schema does not give them."""

    name: str
    template_id: int
    block: Block
    since: int = 0
    deprecated: int = 0


@dataclass(frozen=True, slots=True)
class Header:
    """The header of each message: a block with at least the four fields that identify the message."""

    block: Block
    block_length: Field
    template_id: Field
    schema_id: Field
    version: Field

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.block.size


@dataclass(frozen=True, slots=True)
class MessageSet:
    """The messages of a schema. ``where`` names the file it was read from."""

    where: str
    package: str
    schema_id: int
    version: int
    big_endian: bool
    header: Header
    messages: Mapping[str, Message]
    templates: Mapping[int, Message] = field(repr=False)

    def message(self, name: str) -> Message:
        """The message of that name. Raises :class:`UsageError`."""
        if name not in self.messages:
            known = ", ".join(list(self.messages)[:20])
            message = f"{self.where} has no message {name!r}; it has {known}"
            raise UsageError(self.where, found=f"no message {name!r}", expected=f"one of {known}", message=message)
        return self.messages[name]
