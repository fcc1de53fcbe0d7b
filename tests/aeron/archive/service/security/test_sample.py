"""The authenticator of Aeron's samples: what it accepts, challenges and rejects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from everlog.aeron.archive.client import Credentials, ErrorCode
from everlog.aeron.archive.recording.refusals import ArchiveError
from everlog.aeron.archive.service.security.sample import SampleAuthenticator, SampleAuthorisationService
from everlog.aeron.archive.service.security.simple import MAX_PENDING
from everlog.aeron.archive.service.server import Launch, Service
from tests.aeron.archive.client.scripted_archive import in_process_driver
from tests.aeron.archive.service.served import connect, settings


class Session:
    """A session that notes how it is answered."""

    def __init__(self, session_id: int = 1, *, can_send: bool = True) -> None:
        self.session_id = session_id
        self.can_send = can_send
        self.said: list[object] = []

    def authenticate(self, principal: bytes) -> bool:
        self.said.append(("accepted", principal))
        return self.can_send

    def challenge(self, challenge: bytes) -> bool:
        self.said.append(("challenged", challenge))
        return True

    def reject(self) -> None:
        self.said.append("rejected")


def asked(credentials: bytes, answer: bytes | None = None) -> list[object]:
    authenticator, session = SampleAuthenticator(), Session()
    authenticator.on_connect_request(1, credentials, 0)
    authenticator.on_connected_session(session, 0)
    if answer is not None:
        authenticator.on_challenged_session(session, 0)  # nothing has come yet
        authenticator.on_challenge_response(1, answer, 0)
        authenticator.on_challenged_session(session, 0)
    return session.said


def test_what_is_accepted_challenged_and_rejected() -> None:
    assert asked(b"admin:admin") == [("accepted", b"admin")]
    assert asked(b"admin:adminC", b"admin:CSadmin") == [("challenged", b"challenge!"), ("accepted", b"")]
    assert asked(b"admin:adminC", b"admin:admin") == [("challenged", b"challenge!"), "rejected"]
    assert asked(b"") == asked(b"admin") == ["rejected"]


def test_an_answer_without_a_challenge_is_rejected() -> None:
    authenticator, session = SampleAuthenticator(), Session()
    authenticator.on_challenge_response(1, b"admin:CSadmin", 0)
    authenticator.on_challenged_session(session, 0)
    assert session.said == ["rejected"]


def test_an_acceptance_that_cannot_be_sent_is_tried_again() -> None:
    authenticator, session = SampleAuthenticator(), Session(can_send=False)
    authenticator.on_connect_request(1, b"admin:admin", 0)
    authenticator.on_connected_session(session, 0)
    session.can_send = True
    authenticator.on_connected_session(session, 0)
    assert session.said == [("accepted", b"admin")] * 2
    authenticator.on_connected_session(session, 0)
    assert session.said[-1] == "rejected"


def test_sessions_that_never_connect_do_not_add_up() -> None:
    authenticator, first, last = SampleAuthenticator(), Session(0), Session(MAX_PENDING)
    for number in range(MAX_PENDING + 1):
        authenticator.on_connect_request(number, b"admin:admin", 0)
    authenticator.on_connected_session(first, 0)
    authenticator.on_connected_session(last, 0)
    assert (first.said, last.said) == (["rejected"], [("accepted", b"admin")])


def test_only_the_administrator_may_do_anything() -> None:
    service = SampleAuthorisationService()
    assert service.is_authorised(101, 8, None, b"admin")
    assert not service.is_authorised(101, 8, None, b"")


@pytest.fixture(scope="module")
def driver_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with in_process_driver() as driver:
        launch = Launch(
            folder=str(tmp_path_factory.mktemp("sample")),
            settings=settings(),
            driver_folder=str(driver.dir),
            authenticator="sample",
        )
        Path(launch.folder).mkdir(exist_ok=True)
        with Service(launch):
            yield str(driver.dir)


def test_clients_of_a_service_with_the_samples_authenticator(driver_folder: str) -> None:
    with connect(driver_folder, credentials_supplier=Credentials(b"admin:admin")) as client:
        assert list(client.list_recordings()) == []
    challenges: list[bytes] = []

    def answer(challenge: bytes) -> bytes:
        challenges.append(challenge)
        return b"admin:CSadmin"

    with connect(driver_folder, credentials_supplier=Credentials(b"admin:adminC", answer)) as client:
        assert list(client.list_recordings()) == []
    assert challenges == [b"challenge!"]
    with pytest.raises(ArchiveError, match="authentication rejected") as refused:
        connect(driver_folder, credentials_supplier=Credentials(b"admin:wrong"))
    assert refused.value.code is ErrorCode.AUTHENTICATION_REJECTED
