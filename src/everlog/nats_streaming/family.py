"""NATS Streaming's file stores, as everlog knows them."""

from __future__ import annotations

from everlog.core.family.record import Family, StoreOption
from everlog.core.option_kinds import FILE, FLAG, NUMBER, TEXT

KEY_VARIABLE = "NATS_STREAMING_ENCRYPTION_KEY"
"""Environment variable from which the original server takes its key."""


def missing_between(before: int, after: int) -> int:
    """Sequences number the records of a channel."""
    return max(after - before - 1, 0)


NATS_STREAMING = Family(
    name="nats-streaming",
    title="NATS Streaming store",
    store="everlog.nats_streaming.store.NatsStreamingStore",
    usual_file="server.dat",
    options=(
        StoreOption(
            field="encryption_key_file",
            kind=FILE,
            flag="--encryption-key-file",
            spark="encryptionKeyFile",
            help=f"NATS Streaming: file with the key (or set {KEY_VARIABLE}).",
        ),
        StoreOption(
            field="encryption_key",
            kind=TEXT,
            flag="--encryption-key",
            help="NATS Streaming: the key; it shows in process lists.",
            warning=f"--encryption-key shows in process lists; --encryption-key-file and {KEY_VARIABLE} do not",
        ),
        StoreOption(field="encryption_key_env", kind=TEXT, spark="encryptionKeyEnv"),
        StoreOption(
            field="crc_poly",
            kind=NUMBER,
            flag="--crc-poly",
            spark="crcPoly",
            help="NATS Streaming: CRC-32 polynomial, reversed form, such as 0xEDB88320.",
        ),
        StoreOption(
            field="max_msgs",
            kind=NUMBER,
            flag="--max-msgs",
            spark="maxMsgs",
            help="NATS Streaming: the server's limit of messages a channel.",
        ),
        StoreOption(
            field="max_bytes",
            kind=TEXT,
            flag="--max-bytes",
            spark="maxBytes",
            help="NATS Streaming: the server's limit of bytes a channel: 64MB, ...",
        ),
        StoreOption(
            field="max_age",
            kind=TEXT,
            flag="--max-age",
            spark="maxAge",
            help="NATS Streaming: the server's limit of age: 24h, ...",
        ),
        StoreOption(
            field="include_bak",
            kind=FLAG,
            flag="--include-bak",
            spark="includeBak",
            help="NATS Streaming: read archived .bak slices too.",
        ),
    ),
    colour="#e69f00",
    follower="everlog.nats_streaming.following.ChannelFollower",
    overview="everlog.nats_streaming.overview.overview",
    missing_between=missing_between,
)
