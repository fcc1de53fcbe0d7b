"""Reads a schema's XML with as little trust as bytes: no document type, hence no entities; bounded size, depth and
count.

Includes (XInclude) are refused unless allowed, and then only name files in the schema's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from everlog.core.files.regular_files import read_small_file
from everlog.errors import InvalidSchema, UsageError

MAX_SCHEMA_BYTES = 8 << 20
MAX_ELEMENTS = 200_000
MAX_DEPTH = 32
MAX_INCLUDES = 32
"""Limits of a schema: bytes of one file, all elements, nesting of elements, included files."""


@dataclass(slots=True)
class Element:
    """An XML element: ``tag`` and attribute names without prefixes, ``text`` stripped."""

    tag: str
    attributes: dict[str, str]
    where: str
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str, default: str | None = None) -> str | None:
        """An attribute."""
        return self.attributes.get(name, default)

    def require(self, name: str) -> str:
        """An attribute that must be present and not empty. Raises :class:`InvalidSchema`."""
        value = self.attributes.get(name, "")
        if not value:
            raise self.error(f"<{self.tag}> without {name}", f"the attribute {name}")
        return value

    def number(self, name: str, default: int | None = None, *, most: int = 0xFFFFFFFF) -> int:
        """An attribute that is a whole number from 0 to ``most``. Raises :class:`InvalidSchema`."""
        text = self.attributes.get(name)
        if text is None and default is not None:
            return default
        text = self.require(name).strip()
        if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= most):
            raise self.error(f"{name}={text!r}", f"a whole number up to {most}")
        return int(text)

    def named(self, *tags: str) -> Iterator[Element]:
        """The children with one of these tags."""
        return (child for child in self.children if child.tag in tags)

    def error(self, found: str, expected: str) -> InvalidSchema:
        """An error that names this element's line."""
        return InvalidSchema(self.where, found=found, expected=expected)


def read_schema_file(path: Path) -> bytes:
    """A file's bytes. Raises :class:`StoreUnavailable` if it can't be read, :class:`InvalidSchema` over
    ``MAX_SCHEMA_BYTES``."""
    try:
        return read_small_file(path, MAX_SCHEMA_BYTES)
    except UsageError as error:
        raise InvalidSchema(error.where, found=error.found, expected=error.expected, message=error.message) from None


def parse_xml(data: bytes, name: str, include: Callable[[str], tuple[bytes, str]] | None = None) -> Element:
    """The root element. ``include`` returns the bytes and name of an included file; ``None`` refuses includes. Raises
    :class:`InvalidSchema` if the text is not XML, has a document type, or exceeds a limit."""
    root = _Builder(name).parse(data)
    budget = _Budget(MAX_ELEMENTS, MAX_INCLUDES)
    return _expanded(root, include, budget, 0)


@dataclass(slots=True)
class _Budget:
    elements: int
    includes: int


def _expanded(
    element: Element, include: Callable[[str], tuple[bytes, str]] | None, budget: _Budget, depth: int
) -> Element:
    """The element with every include in it replaced by the root of the included file."""
    budget.elements -= 1
    if budget.elements < 0:
        raise element.error("too many elements", f"at most {MAX_ELEMENTS} in all files")
    if depth > MAX_DEPTH:
        raise element.error("elements and includes nested too deeply", f"at most {MAX_DEPTH} deep")
    if element.tag == "include":
        if include is None:
            raise element.error("an include", "a schema in one file, as includes are not allowed here")
        budget.includes -= 1
        if budget.includes < 0:
            raise element.error("too many includes", f"at most {MAX_INCLUDES}")
        data, name = include(element.require("href"))
        return _expanded(_Builder(name).parse(data), include, budget, depth + 1)
    element.children = [_expanded(child, include, budget, depth + 1) for child in element.children]
    return element


class _Builder:
    """Builds elements from Expat's events."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._root: Element | None = None
        self._count = 0
        self._parser = expat.ParserCreate()

    def parse(self, data: bytes) -> Element:
        if len(data) > MAX_SCHEMA_BYTES:
            raise InvalidSchema(self._name, found=f"{len(data)} bytes", expected=f"at most {MAX_SCHEMA_BYTES}")
        parser = self._parser
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        # A document type can declare entities, which grow without bound or name other files: no schema needs one.
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.ExternalEntityRefHandler = self._refuse
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            text = expat.ErrorString(error.code)
            raise InvalidSchema(f"{self._name} line {error.lineno}", found=text, expected="XML") from None
        except (ValueError, LookupError) as error:  # an encoding that Python can't give
            raise InvalidSchema(self._name, found=str(error), expected="XML in UTF-8 or UTF-16") from None
        assert self._root is not None
        return self._root

    def _where(self) -> str:
        return f"{self._name} line {self._parser.CurrentLineNumber}"

    def _refuse(self, *_: object) -> int:
        raise InvalidSchema(self._where(), found="a document type", expected="XML without one")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= MAX_DEPTH:
            raise InvalidSchema(self._where(), found="elements nested too deeply", expected=f"at most {MAX_DEPTH} deep")
        if self._count > MAX_ELEMENTS:
            raise InvalidSchema(self._where(), found="too many elements", expected=f"at most {MAX_ELEMENTS}")
        plain = {key.rpartition(":")[2]: value for key, value in attributes.items() if not key.startswith("xmlns")}
        element = Element(name.rpartition(":")[2], plain, self._where())
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)
        self._texts.append([])

    def _text(self, data: str) -> None:
        self._texts[-1].append(data)

    def _end(self, name: str) -> None:
        self._open.pop().text = "".join(self._texts.pop()).strip()
