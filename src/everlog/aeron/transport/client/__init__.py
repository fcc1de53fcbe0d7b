"""Client of a media driver: publications, subscriptions and counters. Start with :class:`Aeron`; this module has the
whole public API."""

from __future__ import annotations

from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.appending.appenders import (
    ADMIN_ACTION,
    BACK_PRESSURED,
    CLOSED,
    MAX_POSITION_EXCEEDED,
    NOT_CONNECTED,
    BufferClaim,
)
from everlog.aeron.transport.client.counter import Counter
from everlog.aeron.transport.client.counters_reader import CounterRecord, CountersReader
from everlog.aeron.transport.client.errors import (
    BackPressured,
    ChannelEndpointFailed,
    ClientTimeout,
    DriverTimeout,
    MaxPositionExceeded,
    NotConnected,
    RegistrationRefused,
)
from everlog.aeron.transport.client.image import Image
from everlog.aeron.transport.client.images.image_reader import (
    Action,
    ControlledFragmentAssembler,
    FragmentAssembler,
    Header,
    MessageColumns,
)
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.client.publication import ExclusivePublication, Publication, outcome_name
from everlog.aeron.transport.client.registration import Registration
from everlog.aeron.transport.client.subscription import Subscription
from everlog.aeron.transport.format.error_codes import ErrorCode
from everlog.errors import Closed

__all__ = [
    "ADMIN_ACTION",
    "BACK_PRESSURED",
    "CLOSED",
    "MAX_POSITION_EXCEEDED",
    "NOT_CONNECTED",
    "Action",
    "Aeron",
    "BackPressured",
    "BufferClaim",
    "ChannelEndpointFailed",
    "ClientOptions",
    "ClientTimeout",
    "Closed",
    "ControlledFragmentAssembler",
    "Counter",
    "CounterRecord",
    "CountersReader",
    "DriverTimeout",
    "ErrorCode",
    "ExclusivePublication",
    "FragmentAssembler",
    "Header",
    "Image",
    "MaxPositionExceeded",
    "MessageColumns",
    "NotConnected",
    "Publication",
    "Registration",
    "RegistrationRefused",
    "Subscription",
    "outcome_name",
]
