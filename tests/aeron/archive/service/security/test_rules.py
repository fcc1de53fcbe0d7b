"""Principals, rules and the file that holds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog.aeron.archive.protocol.requests import ArchiveId, ListRecordings, PurgeRecording, Replay, StartRecording
from everlog.aeron.archive.service.security.rules_file import Security, load_rules
from everlog.aeron.archive.service.security.simple import Rules, SimpleAuthenticator, SimpleAuthorisationService
from everlog.errors import StoreUnavailable, UsageError

SECRET = "correct horse"
FILE = f"""
allow = ["ListRecordings", "Replay"]

[principal.operator]
credentials = "{SECRET}"
allow = ["*"]
deny = ["PurgeRecording"]

[principal.viewer]
credentials = "view"
deny = ["Replay"]
"""


class Session:
    """A session that notes what is decided; it can be busy."""

    def __init__(self, session_id: int, *, is_busy: bool = False) -> None:
        self.session_id = session_id
        self.is_busy = is_busy
        self.decided: bytes | str | None = None

    def authenticate(self, principal: bytes) -> bool:
        if not self.is_busy:
            self.decided = principal
        return not self.is_busy

    def challenge(self, challenge: bytes) -> bool:
        raise AssertionError("clients are not challenged")

    def reject(self) -> None:
        self.decided = "rejected"


def loaded(tmp_path: Path, text: str = FILE) -> Security:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    path.chmod(0o600)
    return load_rules(str(path))


def decided(authenticator: SimpleAuthenticator, credentials: bytes) -> bytes | str | None:
    session = Session(5)
    authenticator.on_connect_request(5, credentials, 0)
    authenticator.on_connected_session(session, 0)
    return session.decided


def test_credentials_make_principals(tmp_path: Path) -> None:
    authenticator = loaded(tmp_path).authenticator
    assert decided(authenticator, SECRET.encode()) == b"operator"
    assert decided(authenticator, b"view") == b"viewer"
    for wrong in (b"", b"vie", b"views", b"operator"):
        assert decided(authenticator, wrong) == "rejected"


def test_a_busy_session_is_accepted_later() -> None:
    authenticator = SimpleAuthenticator({b"me": b"secret"})
    authenticator.on_connect_request(5, b"secret", 0)
    session = Session(5, is_busy=True)
    authenticator.on_connected_session(session, 0)
    assert session.decided is None
    session.is_busy = False
    authenticator.on_connected_session(session, 1)
    assert session.decided == b"me"
    other = Session(5)
    authenticator.on_connected_session(other, 2)
    assert other.decided == "rejected", "an acceptance is used once"


@pytest.mark.parametrize(
    ("principal", "request_kind", "is_allowed"),
    [
        (b"operator", StartRecording, True),
        (b"operator", PurgeRecording, False),
        (b"viewer", ListRecordings, True),
        (b"viewer", Replay, False),
        (b"viewer", StartRecording, False),
        (b"stranger", ListRecordings, True),
        (b"stranger", StartRecording, False),
    ],
)
def test_rules(tmp_path: Path, principal: bytes, request_kind: type, is_allowed: bool) -> None:
    authorisation = loaded(tmp_path).authorisation
    assert authorisation.is_authorised(101, request_kind.template_id, None, principal) is is_allowed  # type: ignore[attr-defined]


def test_the_archives_id_is_told_to_all_unless_a_line_denies_it(tmp_path: Path) -> None:
    def is_told(text: str) -> bool:
        principal = f'[principal.me]\ncredentials = "{SECRET}"\n'
        authorisation = loaded(tmp_path, text.format(principal=principal)).authorisation
        return authorisation.is_authorised(101, ArchiveId.template_id, None, b"me")

    assert is_told("{principal}")
    assert is_told('deny = ["*"]\n{principal}')
    assert not is_told('deny = ["ArchiveId"]\n{principal}')
    assert not is_told('{principal}deny = ["*"]')


def test_the_special_rule_counts_before_the_general_one() -> None:
    rules = Rules(types={(1, 2, "x"): False}, actions={(1, 2): True}, protocols={1: False})
    service = SimpleAuthorisationService({b"me": rules}, Rules(protocols={1: True, 2: True}))
    assert not service.is_authorised(1, 2, "x", b"me")
    assert service.is_authorised(1, 2, "y", b"me")
    assert not service.is_authorised(1, 3, None, b"me")
    assert service.is_authorised(2, 3, None, b"me")
    assert not service.is_authorised(3, 3, None, b"me")
    assert SimpleAuthorisationService({}, default=True).is_authorised(3, 3, None, b"")


def test_a_file_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    assert loaded(tmp_path).warning is None
    (tmp_path / "rules.toml").chmod(0o644)
    warning = load_rules(str(tmp_path / "rules.toml")).warning
    assert warning is not None
    assert "chmod 600" in warning


@pytest.mark.parametrize(
    "text",
    [
        'default = "maybe"',
        "allow = 3",
        'allow = ["ListRecording5"]',
        'allow = ["Replay"]\ndeny = ["Replay"]',
        'allow = ["*"]\ndeny = ["*"]',
        f'[principal.a]\ncredentials = "{SECRET}"\n[principal.b]\ncredentials = "{SECRET}"',
        '[principal.a]\nallow = ["*"]',
        f'[principal.a]\ncredentials = "{SECRET}"\nsecret = "x"',
        'pricipal = "x"',
        f"[principal.a]\ncredentials = {SECRET}",
    ],
)
def test_mistakes_are_refused_without_telling_secrets(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, text)
    assert "rules.toml" in str(caught.value)
    assert SECRET not in repr(caught.value) + str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        load_rules(str(tmp_path / "none"))


def test_no_text_of_the_authenticator_has_secrets(tmp_path: Path) -> None:
    found = loaded(tmp_path)
    assert SECRET not in repr(found) + str(found)
    assert "view" not in repr(found.authenticator)
