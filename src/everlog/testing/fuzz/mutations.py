"""Ways to damage a file, chosen by a seeded generator: as crashes, bad disks and attackers do."""

from __future__ import annotations

import random

INTERESTING = (
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
)


def cut(data: bytes, rng: random.Random) -> bytes:
    """Cut the file short."""
    return data[: rng.randrange(len(data))]


def flip_bit(data: bytes, rng: random.Random) -> bytes:
    """Invert one bit."""
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def set_number(data: bytes, rng: random.Random) -> bytes:
    """Overwrite a field with a number that parsers often mishandle."""
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data)) & ~rng.choice((0, 3, 7))
    value = rng.choice(INTERESTING) & ((1 << 8 * width) - 1)
    return data[:at] + value.to_bytes(width, rng.choice(("little", "big"))) + data[at + width :]


def zero_range(data: bytes, rng: random.Random) -> bytes:
    """Zero a block, as if it had never reached the disk."""
    at = rng.randrange(len(data))
    length = min(rng.choice((8, 64, 512, 4096)), len(data) - at)
    return data[:at] + bytes(length) + data[at + length :]


def garbage_range(data: bytes, rng: random.Random) -> bytes:
    """Overwrite a block with random bytes."""
    at = rng.randrange(len(data))
    length = min(rng.choice((1, 8, 64, 512)), len(data) - at)
    return data[:at] + rng.randbytes(length) + data[at + length :]


def drop_range(data: bytes, rng: random.Random) -> bytes:
    """Delete some bytes."""
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 4, 16, 100)) :]


def repeat_range(data: bytes, rng: random.Random) -> bytes:
    """Insert a second copy of a block."""
    at = rng.randrange(len(data))
    length = rng.choice((1, 16, 64, 500))
    return data[: at + length] + data[at:]


def append_garbage(data: bytes, rng: random.Random) -> bytes:
    """Append zeros or random bytes."""
    return data + rng.choice((bytes(rng.randrange(1, 5000)), rng.randbytes(rng.randrange(1, 300))))


MUTATIONS = (cut, flip_bit, set_number, zero_range, garbage_range, drop_range, repeat_range, append_garbage)


def mutate(files: dict[str, bytes], rng: random.Random) -> tuple[dict[str, bytes], str]:
    """Return a copy of a folder's files with one to three damages, and a description of them."""
    files = dict(files)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        name = rng.choice(sorted(files))
        if rng.random() < 0.04:
            done.append(f"{name} removed")
            del files[name]
            if not files:
                break
        elif files[name]:
            change = rng.choice(MUTATIONS)
            files[name] = change(files[name], rng)
            done.append(f"{change.__name__} {name}")
    return files, ", ".join(done)
