"""A driver's configuration from property files, the environment and the command line. Defaults are those that the
real driver 1.51.0 prints with aeron.print.configuration=true (tests/golden)."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.aeron.transport.driver.commands.publication_logs import SocketLengths
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.settings.keywords import SettingKeywords
from everlog.aeron.transport.driver.settings.properties import (
    REFUSED,
    WITHOUT_EFFECT,
    environment_name,
    load,
    read_properties,
)
from everlog.aeron.transport.driver.settings.property_values import (
    parse_boolean,
    parse_duration_ns,
    parse_inferable,
    parse_int,
    parse_length,
    parse_milliseconds,
    parse_port_range,
    parse_size,
)
from everlog.aeron.transport.driver.settings.settings import ThreadingMode
from everlog.aeron.transport.driver.socket_lengths import check_socket_lengths, system_socket_lengths
from everlog.errors import EverlogError, StoreUnavailable, UsageError, WrongType

GOLDEN = tests.GOLDEN / "aeron" / "driver-configuration.txt"
JAVA_NAMES = {
    "dir_warn_if_exists": "warnIfDirectoryExists",
    "unicast_flow_control_rrwm": "unicastFlowControlRetransmitReceiverWindowMultiple",
    "multicast_flow_control_rrwm": "multicastFControlRetransmitReceiverWindowMultiple",
}
DIFFERENT = {"dir", "threading_mode", "print_configuration_on_start", "term_buffer_sparse_file"}
"""The folder is of the user; all agents share a thread here, where Java's have one each; it was told to print; log
buffers have their blocks from the start, as the C driver's."""


def java_name(name: str) -> str:
    return JAVA_NAMES.get(name) or re.sub("_(.)", lambda found: found[1].upper(), name)


def java_text(value: Any) -> set[str]:
    """The texts that Java may print for a value."""
    if value is None:
        return {"null", "'null'", "INFER"}
    return {str(value).lower() if isinstance(value, bool) else str(value)}


def refusal(*given: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(given=given)
    return str(caught.value)


def test_defaults_are_those_that_the_real_driver_prints() -> None:
    printed = dict(line.split("=", 1) for line in GOLDEN.read_text().splitlines())
    configuration = Configuration()
    compared = {
        name: getattr(configuration, name)
        for name in (setting.name for setting in fields(Configuration))
        if name not in DIFFERENT and java_name(name) in printed and not name.endswith("_idle_strategy")
    }
    assert len(compared) >= 60
    assert {name for name, value in compared.items() if printed[java_name(name)] not in java_text(value)} == set()
    assert "alias=backoff" in printed["conductorIdleStrategy"]
    assert configuration.conductor_idle_strategy == "backoff"


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("1408", 1408), ("64k", 65536), ("64K", 65536), ("16m", 16 << 20), ("1G", 1 << 30), ("007k", 7 << 10)],
)
def test_a_size_is_a_number_and_a_unit(text: str, value: int) -> None:
    assert parse_size(text, "p") == value


@pytest.mark.parametrize(
    "text", ["", "k", "-1", "1t", "1 k", "1.5m", "١k", "k1", "1kk", "9" * 20, "9223372036854775807k"]
)
def test_what_is_no_size_is_refused_by_the_name_of_its_property(text: str) -> None:
    with pytest.raises(UsageError, match=r"^the\.property must be (a size such as|at most)"):
        parse_size(text, "the.property")


def test_a_length_fits_into_an_int() -> None:
    assert parse_length("2147483647", "p") == 2147483647
    with pytest.raises(UsageError, match="at most 2147483647"):
        parse_length("2g", "p")


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("5ns", 5), ("5us", 5_000), ("5MS", 5_000_000), ("5s", 5_000_000_000), ("0s", 0), ("10S", 10**10)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, value: int) -> None:
    assert parse_duration_ns(text, "p") == value


@pytest.mark.parametrize("text", ["", "s", "-1s", "5m", "5 s", "5sec", "1.5s", "9223372037s", "5nss"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="p"):
        parse_duration_ns(text, "p")


def test_the_drivers_timeout_is_in_milliseconds_unless_it_has_a_unit() -> None:
    assert [parse_milliseconds(text, "p") for text in ("500", "500ms", "2s")] == [500, 500, 2000]


def test_numbers_may_be_hexadecimal_and_have_javas_limits() -> None:
    assert [parse_int(text, "p") for text in ("-1", "0x10", "-2147483648")] == [-1, 16, -(1 << 31)]
    for text in ("2147483648", "1_0", "", "x", "0x", "9" * 50):
        with pytest.raises(UsageError):
            parse_int(text, "p")


def test_truth_is_true_or_false_and_may_be_left_to_be_inferred() -> None:
    assert [parse_boolean(text, "p") for text in ("true", "FALSE")] == [True, False]
    assert [parse_inferable(text, "p") for text in ("infer", "true", "false")] == [None, True, False]
    with pytest.raises(UsageError, match="p must be true or false, not 'yes'"):
        parse_boolean("yes", "p")


def test_a_range_of_ports_is_two_numbers() -> None:
    assert parse_port_range("20000  20100", "p") == (20000, 20100)
    for text in ("", "1", "2 1", "1 65536", "a b", "1 2 3"):
        with pytest.raises(UsageError):
            parse_port_range(text, "p")


def test_a_command_line_wins_over_the_environment_and_that_over_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a.properties", tmp_path / "b.properties"
    first.write_text("aeron.mtu.length=4096\naeron.term.buffer.length=1m\naeron.dir=/a\naeron.max.resend=1\n")
    second.write_text("aeron.mtu.length = 2048\naeron.term.buffer.length:2m\naeron.dir /b\n")
    environment = {"AERON_TERM_BUFFER_LENGTH": "4m", "AERON_DIR": "/c", "PATH": "/bin"}
    loaded = load([str(first), str(second)], environment, ["aeron.dir=/d"])
    found = loaded.configuration
    assert (found.max_resend, found.mtu_length, found.publication_term_buffer_length, found.dir) == (
        1,
        2048,
        4 << 20,
        "/d",
    )
    assert loaded.warnings == ()


def test_files_are_as_java_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "driver.properties"
    path.write_bytes(
        b"# a comment\n! another \\\n\n  aeron.dir = /dev/shm/\\\n     with\\ blank\r\n"
        b"a\\=b=c\\td\naeron.x:\\u00e9\nempty\nlatin=\xe9\nend=\\"
    )
    assert read_properties(str(path)) == [
        ("aeron.dir", "/dev/shm/with blank"),
        ("a=b", "c\td"),
        ("aeron.x", "é"),
        ("empty", ""),
        ("latin", "é"),
        ("end", ""),
    ]


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"no such file or directory: .*missing\.properties"):
        load([str(tmp_path / "missing.properties")])
    (tmp_path / "bad").write_text("aeron.dir=\\u12")
    with pytest.raises(UsageError, match=r"bad: expected four hexadecimal digits after \\u, not"):
        load([str(tmp_path / "bad")])


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("aeron.threading.mode=DEDICATED", "threading_mode", ThreadingMode.DEDICATED),
        ("aeron.sender.idle.strategy=org.agrona.concurrent.BusySpinIdleStrategy", "sender_idle_strategy", "spin"),
        ("aeron.shared.idle.strategy=sleep-ns", "shared_idle_strategy", "sleep-ns"),
        ("aeron.shared.idle.strategy=yielding", "shared_idle_strategy", "yield"),
        (
            "aeron.multicast.flow.control.strategy=io.aeron.driver.MinMulticastFlowControl",
            "multicast_flow_control",
            "min",
        ),
        (
            "aeron.multicast.FlowControl.supplier=io.aeron.driver.TaggedMulticastFlowControlSupplier",
            "multicast_flow_control",
            "tagged",
        ),
        (
            "aeron.multicast.FlowControl.supplier=aeron_min_flow_control_strategy_supplier",
            "multicast_flow_control",
            "min",
        ),
        (
            "aeron.CongestionControl.supplier=io.aeron.driver.ext.CubicCongestionControlSupplier",
            "congestion_control",
            "cubic",
        ),
        (
            "aeron.driver.termination.validator=io.aeron.driver.DefaultAllowTerminationValidator",
            "termination_validator",
            "allow",
        ),
        ("aeron.receiver.group.consideration=true", "receiver_group_consideration", True),
        ("aeron.receiver.group.tag=-9223372036854775808", "receiver_group_tag", -(1 << 63)),
        ("aeron.untethered.linger.timeout=2s", "untethered_linger_timeout_ns", 2_000_000_000),
        ("aeron.sender.wildcard.port.range=1000 2000", "sender_wildcard_port_range", (1000, 2000)),
        ("aeron.driver.timeout=2s", "driver_timeout_ms", 2000),
    ],
)
def test_values_are_read_as_aeron_reads_them(given: str, name: str, value: object) -> None:
    loaded = load(given=[given])
    assert (getattr(loaded.configuration, name), loaded.warnings) == (value, ())


@pytest.mark.parametrize(
    ("given", "where", "rest"),
    [
        ("aeron.term.buffer.length=65535", "aeron.term.buffer.length", "must be from 65536 to 1073741824, not 65535"),
        (
            "aeron.ipc.term.buffer.length=100000",
            "aeron.ipc.term.buffer.length",
            "must be a power of two, not 100000",
        ),
        ("aeron.mtu.length=1409", "aeron.mtu.length", "must be a multiple of 32, not 1409"),
        ("aeron.mtu.length=65536", "aeron.mtu.length", "must be from 64 to 65504, not 65536"),
        (
            "aeron.mtu.length=8k aeron.rcv.initial.window.length=4k",
            "aeron.rcv.initial.window.length",
            "must be at least 8192 (aeron.mtu.length), not 4096",
        ),
        (
            "aeron.rcv.initial.window.length=1m",
            "aeron.socket.so_rcvbuf",
            "must be at least 1048576 (aeron.rcv.initial.window.length), not 131072",
        ),
        ("aeron.socket.so_sndbuf=1k", "aeron.socket.so_sndbuf", "must be at least 1408 (aeron.mtu.length), not 1024"),
        (
            "aeron.client.liveness.timeout=15s",
            "aeron.publication.unblock.timeout",
            "must be more than 15000000000 ns (aeron.client.liveness.timeout), not 15000000000",
        ),
        (
            "aeron.timer.interval=10s",
            "aeron.client.liveness.timeout",
            "must be more than 10000000000 ns (aeron.timer.interval), not 10000000000",
        ),
        (
            "aeron.untethered.linger.timeout=1s",
            "aeron.untethered.linger.timeout",
            "must be more than 1000000000 ns (aeron.timer.interval), not 1000000000",
        ),
        (
            "aeron.publication.reserved.session.id.high=-2",
            "aeron.publication.reserved.session.id.high",
            "must be at least -1 (aeron.publication.reserved.session.id.low) and less than 2^31 above it, not -2",
        ),
        (
            "aeron.conductor.buffer.length=1049345",
            "aeron.conductor.buffer.length",
            "must be a power of two plus 768, not 1049345",
        ),
        (
            "aeron.clients.buffer.length=1048576",
            "aeron.clients.buffer.length",
            "must be from 1048704 to 2147483647, not 1048576",
        ),
        (
            "aeron.counters.buffer.length=500m",
            "aeron.counters.buffer.length",
            "must be a length that keeps cnc.dat below 2 GiB, not 524288000",
        ),
        ("aeron.nak.unicast.delay=999", "aeron.nak.unicast.delay", "must be from 1000 to 9223372036854775807, not 999"),
        ("aeron.file.page.size=6k", "aeron.file.page.size", "must be a power of two, not 6144"),
        (
            "aeron.sender.idle.strategy=com.example.Mine",
            "aeron.sender.idle.strategy",
            "must be one of backoff, controllable, noop, sleep-ms, sleep-ns, spin, yield, "
            "or Aeron's own class or function for one of them, not 'com.example.Mine'",
        ),
        ("aeron.dir=", "aeron.dir", "must be a non-empty text, not ''"),
        ("aeron.dir", "property on the command line", "must be NAME=VALUE, not 'aeron.dir'"),
        (
            "aeron.SendChannelEndpoint.supplier=x.Y",
            "aeron.SendChannelEndpoint.supplier",
            "is not supported (Java classes can't run here)",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_the_name_of_its_property(given: str, where: str, rest: str) -> None:
    assert refusal(*given.split(" ")) == f"{where} {rest}"


def test_a_choice_from_python_is_checked_as_one_from_text_is() -> None:
    with pytest.raises(UsageError, match=r"aeron\.CongestionControl\.supplier must be .* or 'cubic', not 'cubik'"):
        Configuration(congestion_control="cubik")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"termination\.validator must be 'deny' or 'allow', not 'maybe'"):
        Configuration(termination_validator="maybe")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"mtu_length": "1408"}, "aeron.mtu.length must be a whole number, not '1408'"),
        ({"mtu_length": True}, "aeron.mtu.length must be a whole number, not True"),
        ({"dir": None}, "aeron.dir must be a str, not None"),
        ({"reliable_stream": 1}, "aeron.reliable.stream must be True or False, not 1"),
        ({"threading_mode": "SHARED"}, "aeron.threading.mode must be a ThreadingMode, not 'SHARED'"),
        ({"receiver_group_tag": "7"}, "aeron.receiver.group.tag must be a whole number or None, not '7'"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_before_it_is_compared(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WrongType) as caught:
        Configuration(**values)
    assert str(caught.value) == sentence


def test_keywords_are_the_settings_with_their_types() -> None:
    assert {setting.name: setting.type for setting in fields(Configuration)} == {
        name: kind.__forward_arg__ for name, kind in SettingKeywords.__annotations__.items()
    }


def test_what_has_no_effect_is_said() -> None:
    given = ["aeron.term.bufer.length=1m", "aeron.use.windows.high.res.timer=true", "aeron.archive.dir=/x", "other=1"]
    assert load(given=given).warnings == (
        "aeron.term.bufer.length (command line) is unknown and has no effect; did you mean aeron.term.buffer.length?",
        "aeron.use.windows.high.res.timer (command line) has no effect: it applies to Windows only",
        "aeron.archive.dir (command line) is not a property of the media driver",
        "other (command line) is not a property of the media driver",
    )


def test_a_file_may_be_shared_with_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "all.properties"
    path.write_text("aeron.archive.dir=/x\naeron.cluster.id=1\naeron.client.name=me\njava.library.path=/y\naeron.y=1\n")
    assert load([str(path)]).warnings == (f"aeron.y ({path}) is unknown and has no effect",)


def test_variables_of_other_programs_are_no_concern() -> None:
    environment = {"AERON_ARCHIVE_DIR": "/x", "AERON_LICENSE": "y", "AERON_USE_WINDOWS_HIGH_RES_TIMER": "true"}
    (warning,) = load(environment=environment).warnings
    assert "it applies to Windows only" in warning
    assert "AERON_USE_WINDOWS_HIGH_RES_TIMER" in warning
    assert (
        load(environment={"AERON_DRIVER_NAME_RESOLVER_THRESHOLD": "1s"}).configuration.name_resolver_threshold_ns
        == 10**9
    )


def test_lines_give_the_same_configuration_again() -> None:
    configuration = Configuration(
        dir="/x y",
        threading_mode=ThreadingMode.DEDICATED,
        receiver_group_consideration=False,
        sender_wildcard_port_range=(1, 2),
        untethered_linger_timeout_ns=3_000_000_000,
        multicast_flow_control="min",
    )
    assert load(given=list(configuration.lines())).configuration == configuration


def test_each_property_has_one_meaning() -> None:
    names = [name for setting in fields(Configuration) for name in setting.metadata["names"]]
    everything = [*names, *REFUSED, *WITHOUT_EFFECT]
    assert len({environment_name(name) for name in everything}) == len(everything)


def test_a_wrong_configuration_from_python_is_refused_too() -> None:
    with pytest.raises(EverlogError, match=r"aeron\.mtu\.length"):
        Configuration(mtu_length=33)


def test_socket_buffers_are_held_against_what_the_system_gives() -> None:
    warnings: list[str] = []
    system = SocketLengths(default_sndbuf=1000, max_sndbuf=300_000, default_rcvbuf=200_000, max_rcvbuf=400_000)
    wanted = Configuration(socket_sndbuf_length=300_001, socket_rcvbuf_length=400_000)
    check_socket_lengths(wanted, system, warnings.append)
    assert warnings == ["aeron.socket.so_sndbuf is 300001, but the system allows at most 300000 bytes"]
    with pytest.raises(UsageError, match=r"so_sndbuf must be at least 1408 \(aeron\.mtu\.length\), not 1000"):
        check_socket_lengths(Configuration(), system, warnings.append)
    large = Configuration(socket_sndbuf_length=2000, socket_rcvbuf_length=0, initial_window_length=200_001)
    with pytest.raises(
        UsageError, match=r"so_rcvbuf must be at least 200001 \(aeron\.rcv\.initial\.window\.length\), not 200000"
    ):
        check_socket_lengths(large, system, warnings.append)


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's own limits")
def test_the_system_tells_its_own_limits() -> None:
    # Linux keeps twice what is asked for, and tells that; Java's driver tells half of what Linux does.
    limits = {name: int(Path("/proc/sys/net/core", name).read_text()) for name in ("rmem_default", "rmem_max")}
    found = system_socket_lengths()
    assert (found.default_rcvbuf, found.max_rcvbuf) == (limits["rmem_default"] // 2, limits["rmem_max"])
