"""ClusterTool and everlog change the same recording logs: the same bytes and lines; it reads what everlog leaves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from everlog.aeron.cluster.format.recording_log import SNAPSHOT, STANDBY_SNAPSHOT, encode_entry
from everlog.cli.cluster import cluster
from tests.interop.archive.java_archive import cluster_tool

LOG = "recording.log"
SORT, SEED, INVALIDATE = "sort-recording-log", "seed-recording-log-from-snapshot", "invalidate-latest-snapshot"


def recording_log(rng: random.Random, *, standby: bool) -> bytes:
    """Terms that follow each other, each with whole snapshots of some services, all in any order."""
    out, at, services = [], 0, rng.randrange(4)
    term_count = rng.randint(1, 5)
    for term in range(term_count):
        end = at + 4096 * rng.randint(1, 3)
        common = {"leadership_term_id": term, "term_base_log_position": at, "timestamp": rng.randrange(1 << 40)}
        out.append(encode_entry(recording_id=0, log_position=-1 if term == term_count - 1 else end, **common))
        for position in sorted(rng.sample(range(at + 32, end, 32), rng.randrange(3))):
            is_standby = standby and rng.random() < 0.5
            endpoint = "h" * rng.choice([1, 12, 13, 76, 77, 4044]) if is_standby else ""
            out += [
                encode_entry(
                    recording_id=rng.randrange(1, 1 << 40),
                    log_position=position,
                    service_id=service,
                    type=STANDBY_SNAPSHOT if is_standby else SNAPSHOT,
                    archive_endpoint=endpoint,
                    **common,
                )
                for service in range(services - 1, -2, -1)
            ]
        at = end
    if rng.random() < 0.8:
        rng.shuffle(out)
    return b"".join(out)


def folder(path: Path, data: bytes) -> Path:
    path.mkdir()
    (path / LOG).write_bytes(data)
    return path


def original(jar: Path, path: Path, verb: str) -> tuple[int, str]:
    done = cluster_tool(jar, path, verb)
    return done.exit_code, done.stdout


def ours(path: Path, verb: str) -> tuple[int, str]:
    done = CliRunner().invoke(cluster, [str(path), verb, "--no-backup"], standalone_mode=False)
    assert done.exception is None, done.exception
    return int(done.return_value or 0), done.stdout


@pytest.mark.parametrize("seed", range(8))
def test_both_leave_the_same_bytes_and_print_the_same_lines(aeron_jar: Path, tmp_path: Path, seed: int) -> None:
    data = recording_log(random.Random(seed), standby=False)
    for verb in (SORT, INVALIDATE, SEED):
        theirs, own = folder(tmp_path / f"java-{verb}", data), folder(tmp_path / f"own-{verb}", data)
        code, out = original(aeron_jar, theirs, verb)
        if not (theirs / LOG).exists():
            continue  # no snapshot to seed from: the original deletes the file, and everlog refuses
        assert ours(own, verb) == (min(code, 1), out), verb
        assert (own / LOG).read_bytes() == (theirs / LOG).read_bytes(), verb
        bak = [(path / f"{LOG}.bak").exists() for path in (own, theirs)]
        assert bak[0] == bak[1] or (own / LOG).read_bytes() == data, verb


@pytest.mark.parametrize("seed", range(100, 106))
def test_the_original_reads_what_everlog_leaves_of_standby_snapshots(
    aeron_jar: Path, tmp_path: Path, seed: int
) -> None:
    data = recording_log(random.Random(seed), standby=True)
    for verb in (SORT, INVALIDATE):
        theirs, own = folder(tmp_path / f"java-{verb}", data), folder(tmp_path / f"own-{verb}", data)
        original(aeron_jar, theirs, verb)
        ours(own, verb)
        assert original(aeron_jar, own, "recording-log") == original(aeron_jar, theirs, "recording-log"), verb
