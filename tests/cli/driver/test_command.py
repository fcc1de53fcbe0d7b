"""``everlog driver`` beside the output of Aeron's own tools on the same folder, and on folders made by hand."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import re
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

import tests
from everlog.cli.app import run
from everlog.cli.driver import VERBS, driver
from everlog.testing.contract import snapshot
from tests.aeron.transport.folder.driver_folder import cnc, folder, frame, log_buffer, losses, stream_key

ROOT = tests.ROOT
GOLDEN = ROOT / "tests" / "golden" / "aeron" / "transport"
LOGS = ["publications/9", "publications/10", "publications/12", "publications/13", "publications/14"]
LOGS += ["images/11", "images/20", "images/21"]
STATS = {"stat": "AeronStat", "loss-stat": "LossStat", "error-stat": "ErrorStat", "stream-stat": "StreamStat"}
STATS |= {"backlog-stat": "BacklogStat"}
CNC_PATH = "/dev/shm/aeron-gold-transport/cnc.dat"


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


Call = Callable[..., Done]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """One command line in this process; the goldens were printed in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def run_it(*arguments: object) -> Done:
        out, err = io.BytesIO(), io.StringIO()
        text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", text)
            patch.setattr(sys, "stderr", err)
            code = run(["driver", *(str(argument) for argument in arguments)])
            text.flush()
        return Done(code, out.getvalue().decode(), err.getvalue())

    return run_it


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver")
    with tarfile.open(GOLDEN / "aeron-dir.tar.gz") as tar:
        tar.extractall(path, filter="data")
    return path / "aeron-dir"


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Path]:
    """A folder made by hand; ``files`` replace or add some."""

    def make(**files: bytes) -> Path:
        names = {"cnc": "cnc.dat", "loss": "loss-report.dat", "log": "publications/9.logbuffer"}
        for name, data in (folder() | {names[key]: data for key, data in files.items()}).items():
            target = tmp_path / "driver" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        return tmp_path / "driver"

    return make


def expected(name: str) -> list[str]:
    path = GOLDEN / name
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    return text.splitlines()


@pytest.mark.parametrize(("verb", "tool"), STATS.items())
def test_lines_are_those_of_the_original(call: Call, golden: Path, verb: str, tool: str) -> None:
    done = call(golden, verb)
    assert (done.code, done.err) == (0, "")
    lines = [line.replace(CNC_PATH, f"{golden}/cnc.dat") for line in expected(f"{tool}.txt")]
    if verb == "stat":  # time of day, and how long ago the driver's heartbeat was
        assert re.fullmatch(
            r"\d\d:\d\d:\d\d - Aeron Stat \(CnC v0\.2\.0\), pid 17613, heartbeat age \d+ms", done.lines[0]
        )
        assert done.lines[1:] == lines[1:]
    else:
        assert done.lines == lines


@pytest.mark.parametrize("number", [0, 1])
def test_counters_of_a_cluster_nodes_driver_are_those_of_the_original(call: Call, tmp_path: Path, number: int) -> None:
    golden = GOLDEN.parent / "cluster-3node"
    with tarfile.open(golden / f"aeron-dir-cnc-node{number}.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    done = call(tmp_path / f"aeron-dir-node{number}", "stat")
    assert (done.code, done.err) == (0, "")
    lines = gzip.decompress((golden / f"AeronStat-node{number}.txt.gz").read_bytes()).decode().splitlines()
    assert done.lines[1:] == lines[1:]
    assert len(lines) == [160, 189][number]


def test_process_and_summary_are_those_of_drivertool(call: Call, golden: Path) -> None:
    assert call(golden, "pid").lines == expected("DriverTool-pid.txt")
    done, lines = call(golden).lines, expected("DriverTool.txt")
    assert done[0] == lines[0].replace(CNC_PATH, f"{golden}/cnc.dat")
    assert done[1] == lines[1]
    assert done[2][8:] == lines[2][8:]  # behind the time of day
    assert len(done) == 3


@pytest.mark.parametrize("name", LOGS)
def test_log_buffers_are_printed_as_loginspector_does(call: Call, golden: Path, name: str) -> None:
    lines = expected(f"LogInspector-{name.replace('/', '-')}.txt.gz")
    done = call(golden, "log-inspect", name)
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(r"\w{3} \w{3} \d\d [\d:]{8} UTC \d{4} Inspection dump for (.*)", done.lines[1])
    assert done.lines[1].endswith(f"{golden}/{name}.logbuffer")
    assert [*done.lines[:1], *done.lines[2:]] == [*lines[:1], *lines[2:]]


def test_without_a_name_all_log_buffers_are_printed(call: Call, golden: Path) -> None:
    done = call(golden, "log-inspect", "--limit", 0)
    printed = [line.partition("Inspection dump for ")[2] for line in done.lines if "Inspection dump" in line]
    assert printed == [f"{golden}/{name}.logbuffer" for name in LOGS]


def test_inspecting_takes_limits_ascii_and_room_without_frames(call: Call, made: Callable[..., Path]) -> None:
    hostile = log_buffer({0: frame(0, b"Hi\x1b[2J\xff") + bytes(64) + frame(128, b"there")}, 9)
    path = made(log=hostile)
    lines = call(path, "log-inspect", "publications/9.logbuffer", "--limit", 2).lines
    assert lines[lines.index("Index 0 Term Data") + 3] == "4869"
    done = call(
        path, "log-inspect", "publications/9", "--format", "ascii", "--scan-over-zeroes", "--skip-default-header"
    )
    start = done.lines.index("Index 0 Term Data") + 2
    assert done.lines[start + 1] == "Hi\\x1b[2J\\x00"
    assert [line.partition(":")[0] for line in done.lines[start + 2 : start + 5]] == ["64", "96", "128"]
    assert done.lines[start + 5] == "there"
    assert "default DATA" not in done.out


def test_an_overrunning_frame_is_a_warning_not_a_crash(call: Call, made: Callable[..., Path]) -> None:
    data = frame(0, b"x")
    data = (1 << 30).to_bytes(4, "little") + data[4:]
    done = call(made(log=log_buffer({0: data}, 9)), "log-inspect", "publications/9", "--limit", 4)
    assert done.code == 1
    assert "frame-length=1073741824" in done.out
    assert "frame length 1073741824; expected a frame within its term" in done.err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_log_buffer_that_can_not_be_read_keeps_none_of_the_others(
    call: Call, made: Callable[..., Path], form: list[str]
) -> None:
    path = made()
    (path / "publications" / "8.logbuffer").write_bytes(b"cut")
    (path / "publications" / "10.logbuffer").symlink_to("nowhere")
    done = call(path, "log-inspect", "--limit", 0, *form)
    assert (done.code, done.out.count("publications/9.logbuffer")) == (1, 1)
    cut, dangling = done.err.splitlines()
    assert cut.startswith("everlog: warning: publications/8.logbuffer at offset 0: ")
    assert dangling.startswith("everlog: warning: ")
    assert "publications/10" in dangling
    done = call(path, "log-inspect", "publications/9", "publications/11")
    assert (done.code, len(done.err.splitlines())) == (2, 1)


def test_json_says_what_the_lines_say(call: Call, golden: Path) -> None:
    truth = json.loads(gzip.decompress((GOLDEN / "cnc-truth.json.gz").read_bytes()))
    (stat,) = call(golden, "stat", "--json").objects
    assert [(c["counter_id"], c["value"], c["label"]) for c in stat["counters"]] == [
        (c["id"], c["value"], c["label"]) for c in truth["counters"]
    ]
    (errors,) = call(golden, "error-stat", "--json").objects
    assert [error["text"] for error in errors["errors"]] == [error["text"] for error in truth["errors"]]
    (lost,) = call(golden, "loss-stat", "--json").objects
    assert [loss["total_bytes_lost"] for loss in lost["losses"]] == [32256, 1664, 1824]
    (streams,) = call(golden, "stream-stat", "--json").objects
    lines = expected("StreamStat.txt")[1:]
    assert len(streams["streams"]) == len(lines)
    for stream, line in zip(streams["streams"], lines, strict=True):
        positions = "".join(f" {p['name']}:{p['registration_id']}:{p['value']}" for p in stream["positions"])
        head = f"sessionId={stream['session_id']} streamId={stream['stream_id']} channel={stream['channel']} :"
        assert head + positions == line
    (backlog,) = call(golden, "backlog-stat", "--json").objects
    first = backlog["streams"][0]
    assert first["receiver"] == {"registration_id": 21, "position": 57600, "high_water_mark": 57600}
    assert first["subscribers"] == [{"registration_id": 5, "position": 57600}]
    assert call(golden, "pid", "--json").objects == [{"pid": 17613}]
    (summary,) = call(golden, "--json").objects
    assert (summary["version"], summary["pid"], summary["live"]) == ("0.2.0", 17613, False)
    log, *frames = call(golden, "log-inspect", "images/20", "--json").objects
    assert (log["kind"], log["stream"], log["term_length"]) == ("log", "images/20", 131072)
    printed = expected("LogInspector-images-20.txt.gz")
    lines = [line for line in printed if re.match(r"\d+: DATA", line)]
    assert len(frames) == 600 == len([line for line in lines if "frame-length=0" not in line])
    for frame_object, line in zip(frames, lines, strict=False):
        assert frame_object["payload_hex"].upper() == printed[printed.index(line) + 1]


def test_counters_are_picked_by_patterns_as_in_aeronstat(call: Call, golden: Path) -> None:
    def ids(*options: str) -> list[int]:
        return [int(line.partition(":")[0]) for line in call(golden, "stat", *options).lines[2:-1]]

    assert ids("--type", "^(6|7)$") == [46, 49, 51, 53, 63]
    assert ids("--type", "^0$", "--identity", "^4$") == [4]
    assert ids("--type", "^4$", "--session", "777") == [81]
    assert ids("--type", "^12$", "--stream", "[35]") == [76, 82]
    assert ids("--type", "^[67]$", "--channel", "alias=mdc") == [63]
    # A counter that has no session is shown whatever the pattern.
    assert {0, 48, 85} < set(ids("--session", "no such"))
    assert call(golden, "stat", "--type", "(").code == 2


def test_watching_looks_again(golden: Path) -> None:
    command = [sys.executable, "-m", "everlog", "driver", str(golden), "stat", "--watch", "0.05", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [json.loads(next(process.stdout)) for _ in range(3)]
        process.terminate()
    assert lines[0]["counters"] == lines[2]["counters"]
    assert lines[0]["time_ms"] < lines[1]["time_ms"] < lines[2]["time_ms"]


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["lines", "json"])
@pytest.mark.parametrize("verb", STATS)
def test_every_stat_can_be_watched_and_waits_for_a_driver_that_starts(
    call: Call, made: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, verb: str, options: list[str]
) -> None:
    path = made()
    if verb == "loss-stat":
        (path / "loss-report.dat").rename(path / "later")
    else:
        (path / "cnc.dat").write_bytes(cnc(cnc_version=0))
    slept: list[float] = []
    this_thread, sleep_really = threading.get_ident(), time.sleep

    def sleep(seconds: float) -> None:
        if threading.get_ident() != this_thread:  # of a library that another test used
            sleep_really(seconds)
            return
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt
        (path / "cnc.dat").write_bytes(cnc())
        (path / "loss-report.dat").write_bytes(losses())

    monkeypatch.setattr("everlog.cli.driver.sampling.time.sleep", sleep)
    done = call(path, verb, "--watch", *options)
    assert (done.code, slept) == (130, [1.0, 1.0, 1.0])
    assert done.err.startswith("everlog: ")
    assert len(done.err.split("\n\n")[0].splitlines()) == 1
    once = call(path, verb, *options)
    assert len(done.lines) == 2 * len(once.lines)
    if options:
        assert [set(seen) for seen in done.objects] == [set(*once.objects)] * 2


def test_what_is_damaged_is_left_out_with_a_warning(call: Call, made: Callable[..., Path]) -> None:
    whole = cnc()
    cut = call(made(cnc=whole[:4000]), "stat")
    assert (cut.code, "warning: cnc.dat: 4000 bytes of" in cut.err) == (1, True)
    assert cut.lines[-1] == "--"
    key = stream_key(9)
    broken = whole.replace(key, key[:16] + (200).to_bytes(4, "little") + key[20:], 1)
    for verb in ("stream-stat", "backlog-stat"):
        done = call(made(cnc=broken), verb)
        assert (done.code, "counter 1 has a damaged key and is left out" in done.err) == (1, True)
    lost = call(made(loss=losses()[:80]), "loss-stat")
    assert (lost.code, lost.lines[-1]) == (1, "0 loss entries")


@pytest.mark.parametrize("verb", [*STATS, "pid", "log-inspect", None])
def test_what_is_no_drivers_folder_is_one_line_and_exit_code_2(call: Call, tmp_path: Path, verb: str | None) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        done = call(path, *([verb] if verb else []))
        assert (done.code, done.out) == (2, "")
        assert len(done.err.splitlines()) == 1


def test_labels_and_errors_cannot_steer_a_terminal(call: Call, made: Callable[..., Path]) -> None:
    whole = cnc().replace(b"a user's", b"\x1b[2J\x07abc").replace(b"made up", b"\x1b]0;xy\x07")
    path = made(cnc=whole)
    for verb in STATS:
        assert "\x1b" not in call(path, verb).out
    assert "\\x1b[2J\\x07abc" in call(path, "stat").out
    assert "\n\tat Somewhere.java:1\n" in call(path, "error-stat").out


def test_every_verb_and_option_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    own = text.split("## everlog driver")[1].split("\n## ")[0]
    assert set(VERBS) == set(driver.list_commands(click.Context(driver)))
    for verb in VERBS:
        name = verb.replace("-", "_")
        command = getattr(importlib.import_module(f"everlog.cli.driver.{name}"), name)
        assert f"`{verb}" in own
        for option in (item for item in command.params if isinstance(item, click.Option)):
            assert option.help
            assert all(re.search(rf"`{flag}[ `]", own) for flag in option.opts), (verb, option.opts)


def test_looking_changes_no_byte(call: Call, golden: Path) -> None:
    before = snapshot(golden)
    for verb in VERBS:
        if verb != "terminate":
            assert call(golden, verb).code == 0
    assert snapshot(golden) == before


def test_a_driver_that_does_not_run_is_not_asked_to_end(call: Call, golden: Path) -> None:
    before = snapshot(golden)
    asked = call(golden, "terminate")
    assert asked.code == 2
    assert "no media driver runs in" in asked.err
    assert snapshot(golden) == before


def test_stat_imports_neither_stores_nor_kernels(golden: Path) -> None:
    script = (
        "import sys\nfrom everlog.cli.app import run\nrun(['driver', sys.argv[1], 'stat'])\n"
        "print(*(m for m in sys.modules if m.startswith('everlog.')), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(golden)], capture_output=True, check=True, text=True)
    modules = set(done.stderr.split())
    assert "everlog.aeron.transport.format.counters" in modules
    assert not modules & {"everlog.stores", "everlog.core.store", "everlog.kernel.columns", "rich"}
