"""Stores in an S3-compatible object store on loopback, read by Spark through fsspec."""

from __future__ import annotations

import json

import pytest

from everlog.discovery import find_stores

SECRET = "sesame-open-7431"
CASES = {
    "archive": "aeron/archive-basic/archive",
    "journal": "jlog/broken_base/log",
    "channels": "nats_streaming/basic_sigterm",
}


@pytest.fixture(scope="module")
def server(golden, fsspec_folder):
    """The URL of a server's bucket that holds golden stores, and its files. fsspec finds server and keys in its
    settings, here and in Spark's workers."""
    from fsspec.config import conf
    from moto.server import ThreadedMotoServer
    from s3fs import S3FileSystem

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    settings = {"endpoint_url": f"http://{host}:{port}", "key": "reader", "secret": SECRET}
    (fsspec_folder / "everlog.json").write_text(json.dumps({"s3": settings}))
    conf["s3"] = settings
    files = S3FileSystem(skip_instance_cache=True)  # what it remembers is not what everlog's knows
    files.mkdir("records")
    for name, case in CASES.items():
        folder = golden(case)
        top = next(folder.iterdir())
        for path in (p for p in top.rglob("*") if p.is_file()):
            files.pipe_file(f"records/{name}/{path.relative_to(top)}", path.read_bytes())
    yield "s3://records", files
    del conf["s3"]
    (fsspec_folder / "everlog.json").unlink()
    moto.stop()


@pytest.fixture
def bucket(server):
    return server[0]


def test_stores_are_found_below_a_bucket(bucket):
    found = {(store.path, store.family) for store in find_stores((bucket,))}
    assert {family for _, family in found} == {"aeron-archive", "jlog", "nats-streaming"}
    assert all(path.startswith("s3://records/") for path, _ in found)
    assert [store.family for store in find_stores(("s3://records/jour*",))] == ["jlog"]


@pytest.mark.long
def test_spark_reads_the_same_from_s3_as_from_the_disk(spark, bucket, golden):
    columns = "family,stream,address,length,payload"
    local = [str(golden(case)) for case in CASES.values()]
    here = spark.read.format("everlog").option("columns", columns).load(local).collect()
    there = spark.read.format("everlog").option("columns", columns).load(bucket).collect()
    assert sorted(there, key=repr) == sorted(here, key=repr)
    assert len(there) > 100


@pytest.mark.long
def test_keys_of_the_object_store_show_nowhere(spark, bucket, capfd):
    frame = spark.read.format("everlog").load(f"{bucket}/journal")
    frame.explain(True)
    with pytest.raises(Exception, match="no-such-bucket") as error:
        spark.read.format("everlog").load("s3://no-such-bucket/journal").count()
    out, err = capfd.readouterr()
    assert SECRET not in out + err + str(error.value)
    assert "everlog" in out


@pytest.mark.long
def test_what_another_process_adds_is_read_by_the_next_query(spark, server, tmp_path):
    """fsspec remembers listings as long as a process lives."""
    from everlog import jlog
    from everlog.spark import scan

    def put(name: str, count: int) -> None:
        if not (tmp_path / name).exists():
            jlog.create(tmp_path / name, segment_bytes=4096)
        with jlog.Writer(tmp_path / name) as writer:
            writer.append_many([b"x" * 100] * count)
        for file in (tmp_path / name).iterdir():
            files.pipe_file(f"records/grows/{name}/{file.name}", file.read_bytes())

    url, files = server
    found = []
    for name, count in (("a", 30), ("a", 5), ("a", 100), ("b", 7)):
        put(name, count)
        read = spark.read.format("everlog").option("columns", "payload").load(f"{url}/grows")
        found.append((read.count(), scan(spark, f"{url}/gro*", columns="payload").count()))
    assert found == [(30, 30), (35, 35), (135, 135), (142, 142)]
    files.rm("records/grows", recursive=True)
