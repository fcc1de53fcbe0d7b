"""Where stores are found."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from everlog import discovery
from everlog.core.concurrent_map import concurrent_map
from everlog.discovery import FoundStore, find_stores
from everlog.errors import NotAStore, StoreUnavailable, UsageError

ROW = (1, None, None, b"x")


@pytest.fixture
def folder(toy, tmp_path):
    """Stores ``one``, ``deep/two`` and ``deep/three``, and a folder that is none."""
    for name in ("one", "deep/two", "deep/three"):
        toy(name, {"s": [ROW]})
    (tmp_path / "empty").mkdir()
    return tmp_path


def names(folder, *paths):
    return [store.path.removeprefix(f"{folder}/") for store in find_stores(tuple(str(folder / p) for p in paths))]


def test_a_store_is_found_at_its_path(folder):
    assert find_stores((str(folder / "one"),)) == [FoundStore(str(folder / "one"), "toy")]


def test_a_folder_gives_all_stores_below_it(folder):
    assert sorted(names(folder, "")) == ["deep/three", "deep/two", "one"]


def test_a_pattern_gives_the_stores_that_match(folder):
    assert names(folder, "deep/t*") == ["deep/three", "deep/two"]
    assert names(folder, "**/two") == ["deep/two"]


def test_several_paths_with_commas_between_and_none_twice(folder):
    text = f"{folder}/one, {folder}/deep/two,{folder}/one"
    assert [s.path for s in find_stores((text,))] == [f"{folder}/one", f"{folder}/deep/two"]


@pytest.mark.parametrize("name", ["behind ", " before", "a, b", "[x]*", "new\nline", "100%?#"])
def test_a_folder_is_meant_as_it_is_called(folder, toy, name):
    toy(name, {"s": [ROW]})
    assert names(folder, name) == [name]
    assert [store.path for store in find_stores((f"file://{folder}/{name}",))] == [f"{folder}/{name}"]
    assert [store.path for store in find_stores((f" {folder}/one ",))] == [f"{folder}/one"]


def test_a_store_whose_name_is_no_text_is_one_clear_error(folder, monkeypatch):
    """A name in Latin-1, as Python tells of it; not every system takes one."""
    look, name = discovery._look, "caf\udce9"
    seen = {f"{folder}/deep": (None, [name]), f"{folder}/deep/{name}": ("toy", [])}
    monkeypatch.setattr(discovery, "_look", lambda path: seen.get(path) or look(path))
    with pytest.raises(StoreUnavailable, match=r"deep/caf\\udce9': a name that is not UTF-8"):
        names(folder, "deep")
    assert names(folder, "one") == ["one"]


def test_a_store_is_found_once_however_its_path_is_written(folder, monkeypatch):
    (folder / "alias").symlink_to(folder / "deep" / "two")
    ways = ("deep/two", "deep/two/", "deep//two", "./deep/./two", "one/../deep/two", "deep/t*", "alias", "deep")
    assert names(folder, *ways) == ["deep/two", "deep/three"]
    assert names(folder, "deep/two/") == names(folder, "deep//two") == ["deep/two"]
    paths = tuple(f"{folder}/{way}" for way in ways if "*" not in way and way != "deep")
    assert find_stores(paths, "toy") == [FoundStore(f"{folder}/deep/two", "toy")]
    monkeypatch.chdir(folder)
    assert [store.path for store in find_stores(("deep/two/", "./one", "one"))] == ["deep/two", "one"]


def test_a_file_url_is_a_local_path(folder):
    assert find_stores((f"file://{folder}/one",)) == find_stores((f"{folder}/one",))


def test_what_a_store_holds_is_not_searched_again(folder, toy):
    toy("one/inner", {"s": [ROW]})
    assert names(folder, "one") == ["one"]


def test_a_link_out_of_the_folder_is_not_followed(folder, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "s.toy").write_bytes(b"")
    (folder / "deep" / "link").symlink_to(outside)
    assert sorted(names(folder, "deep")) == ["deep/three", "deep/two"]


@pytest.mark.parametrize(
    ("path", "error"), [("empty", NotAStore), ("gone", StoreUnavailable), ("x*", StoreUnavailable)]
)
def test_a_path_that_leads_to_no_store_is_an_error(folder, path, error):
    with pytest.raises(error, match=path.rstrip("*")):
        find_stores((str(folder / path),))


def test_an_unknown_family_is_an_error(folder):
    with pytest.raises(UsageError, match="family"):
        find_stores((str(folder / "one"),), "kafka")


def test_a_family_chooses_stores_below_a_folder_and_forces_a_folder_that_is_none(folder, tmp_path_factory):
    every = find_stores((str(folder),))
    assert find_stores((str(folder),), "toy") == every
    with pytest.raises(NotAStore, match=r"no jlog store below .*, only toy"):
        find_stores((str(folder),), "jlog")
    blank = tmp_path_factory.mktemp("blank")
    for path in (blank, Path(every[0].path)):
        assert find_stores((str(path),), "jlog") == [FoundStore(str(path), "jlog")]


def test_what_a_pattern_matches_may_have_no_store_but_for_all_of_it(folder):
    every = find_stores((str(folder),))
    (folder / "lost+found").mkdir()
    assert {store.path for store in find_stores((f"{folder}/*",))} == {store.path for store in every}
    assert {store.path for store in find_stores((f"{folder}/**",))} == {store.path for store in every}
    with pytest.raises(NotAStore, match="lost"):
        find_stores((f"{folder}/lost*",))
    with pytest.raises(NotAStore, match="lost"):
        find_stores((f"{folder}/one", f"{folder}/lost+found"))


def test_a_store_behind_a_url_is_found(toy):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe("/lake/a/s.toy", b"")
    files.pipe("/lake/b/s.toy", b"")
    assert [s.path for s in find_stores(("memory://lake",))] == ["memory://lake/a", "memory://lake/b"]


def test_a_folder_that_could_not_be_looked_at_is_not_taken_for_one_without_stores(toy, monkeypatch, caplog):
    pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    files = MemoryFileSystem()
    for name in ("a", "b", "c"):
        files.pipe(f"/lagoon/{name}/s.toy", b"")
    whole = ["memory://lagoon/a", "memory://lagoon/b", "memory://lagoon/c"]
    listed = MemoryFileSystem.ls

    def fail_with(error: Exception) -> None:
        def ls(self, path, detail=True, **more):
            if path.rstrip("/").endswith("lagoon/b"):
                raise error
            return listed(self, path, detail, **more)

        monkeypatch.setattr(MemoryFileSystem, "ls", ls)

    others = [path for path in whole if not path.endswith("b")]
    assert [s.path for s in find_stores(("memory://lagoon",))] == whole
    fail_with(TimeoutError("no answer"))
    with pytest.raises(StoreUnavailable, match=r"lagoon/b.*no answer"):
        find_stores(("memory://lagoon",))
    fail_with(FileNotFoundError("gone"))
    assert [s.path for s in find_stores(("memory://lagoon",))] == others
    assert not caplog.records
    fail_with(PermissionError("not yours"))
    assert [s.path for s in find_stores(("memory://lagoon",))] == others
    assert "lagoon/b" in caplog.text
    files.rm("/lagoon", recursive=True)


def test_the_root_of_a_file_system_is_looked_through(toy):
    files = pytest.importorskip("fsspec").filesystem("memory")
    files.pipe("/ocean/a/s.toy", b"")
    for root in ("memory://", "memory:///"):
        assert f"{root}ocean/a" in [store.path for store in find_stores((root,))]
    files.rm("/ocean", recursive=True)


def test_a_file_system_that_can_not_be_had_is_one_clear_error(toy, tmp_path):
    pytest.importorskip("fsspec")
    url = f"zip://store::{tmp_path}/gone.zip"
    with pytest.raises(StoreUnavailable, match="no such file"):
        find_stores((url,))
    (tmp_path / "gone.zip").write_bytes(b"no archive")
    with pytest.raises(StoreUnavailable, match=r"gone\.zip: BadZipFile"):
        find_stores((url,))


def test_a_remote_store_is_found_once_with_and_without_a_slash(toy):
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/pond/a/s.toy", b"")
    assert [s.path for s in find_stores(("memory://pond/a/", "memory://pond/a", "memory://pond/"))] == [
        "memory://pond/a"
    ]


def test_a_pattern_of_urls_that_cannot_be_listed_is_one_clear_error(monkeypatch):
    fsspec = pytest.importorskip("fsspec")

    def refuse(url):
        raise OSError("no credentials")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    with pytest.raises(StoreUnavailable, match=r"memory://sea/\*: OSError: no credentials"):
        find_stores(("memory://sea/*",))


def test_remote_stores_are_looked_at_at_once_and_given_in_order():
    meeting = threading.Barrier(8, timeout=30)  # who looks at one after another never gets past it

    def look(number: int) -> int:
        meeting.wait()
        return number * 10

    assert list(concurrent_map(look, range(40), ["s3://far/away"])) == [number * 10 for number in range(40)]


def test_an_error_comes_in_its_turn_and_ends_the_looking():
    looked: list[int] = []

    def look(number: int) -> int:
        looked.append(number)
        if number == 2:
            raise NotAStore("two", found="nothing", expected="a store")
        return number

    given: list[int] = []
    with pytest.raises(NotAStore):
        given.extend(concurrent_map(look, range(10_000), ["s3://far"]))
    assert given == [0, 1]
    assert len(looked) < 1000


def test_stores_on_a_disk_are_looked_at_by_the_thread_that_asks():
    assert set(concurrent_map(lambda _: threading.get_ident(), range(5), ["/here"])) == {threading.get_ident()}
