"""The blocking and the asyncio client are the same, but for waiting; and what is public is there."""

from __future__ import annotations

import inspect

import pytest

from everlog.aeron.archive import client
from everlog.aeron.archive.client import AeronArchive, AsyncAeronArchive


def public(kind: type) -> dict[str, inspect.Signature | None]:
    found: dict[str, inspect.Signature | None] = {}
    for name in dir(kind):
        if not name.startswith("_"):
            member = inspect.getattr_static(kind, name)
            found[name] = None if isinstance(member, property) else inspect.signature(getattr(kind, name))
    return found


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    blocking, asynchronous = public(AeronArchive), public(AsyncAeronArchive)
    assert blocking.keys() == asynchronous.keys()
    for name, signature in blocking.items():
        other = asynchronous[name]
        assert (signature is None) == (other is None)
        if signature is not None and other is not None:
            assert list(signature.parameters.values()) == list(other.parameters.values()), name


@pytest.mark.parametrize("name", client.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(client, name).__name__ == name
