"""Where stores are found."""

from __future__ import annotations

import pytest

from everlog.errors import NotAStore, StoreUnavailable, UsageError
from everlog.spark.discovery import FoundStore, find_stores

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


def test_a_store_behind_a_url_is_found(toy):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe("/lake/a/s.toy", b"")
    files.pipe("/lake/b/s.toy", b"")
    assert [s.path for s in find_stores(("memory://lake",))] == ["memory://lake/a", "memory://lake/b"]
