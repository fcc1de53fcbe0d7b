"""The enumerations of the cluster's schema, and numbers that may be absent. Source: aeron-cluster-codecs.xml."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from everlog.aeron.messages import NULL_INT32, NULL_INT64, Number


class EventCode(IntEnum):
    """What a session event reports."""

    OK = 0
    ERROR = 1
    REDIRECT = 2
    AUTHENTICATION_REJECTED = 3
    CLOSED = 4


class CloseReason(IntEnum):
    """Why a session was closed."""

    CLIENT_ACTION = 0
    SERVICE_ACTION = 1
    TIMEOUT = 2


class ClusterAction(IntEnum):
    """An action that all nodes take."""

    SUSPEND = 0
    RESUME = 1
    SNAPSHOT = 2


class SnapshotMark(IntEnum):
    """A place in a snapshot."""

    BEGIN = 0
    SECTION = 1
    END = 2


class ChangeType(IntEnum):
    """What a member did to the cluster's membership."""

    JOIN = 0
    QUIT = 1


class ClusterTimeUnit(IntEnum):
    """The unit of the cluster's times."""

    MILLIS = 0
    MICROS = 1
    NANOS = 2


class AdminRequestType(IntEnum):
    """What an administrator asks for."""

    SNAPSHOT = 0


class AdminResponseCode(IntEnum):
    """The outcome of an administrator's request."""

    OK = 0
    ERROR = 1
    UNAUTHORISED_ACCESS = 2


OptionalInt32 = Annotated[int | None, Number("i", null=NULL_INT32)]
OptionalInt64 = Annotated[int | None, Number("q", null=NULL_INT64)]
OptionalFlag = Annotated[bool | None, Number("i", kind=bool, null=NULL_INT32)]
OptionalTimeUnit = Annotated[ClusterTimeUnit | None, Number("i", kind=ClusterTimeUnit, null=NULL_INT32)]
Version = Annotated[int | None, Number("i", null=0)]
"""A version of a protocol or of a service: ``major << 16 | minor << 8 | patch``."""
Capacity = Annotated[int | None, Number("i", null=0)]
