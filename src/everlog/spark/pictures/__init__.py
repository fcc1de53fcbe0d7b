"""Statistics as a page with pictures: plain SVG that Vega draws here, so that the page needs no script and no network,
and looks the same in a browser, in a notebook and on paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from everlog.errors import MissingDependency

if TYPE_CHECKING:
    from everlog.spark.pictures.page import Report
    from everlog.spark.pipelines.stats import Stats


def report(stats: Stats, title: str = "What the streams hold") -> Report:
    """A page about ``stats``, shown by a notebook as it is; ``.save(path)`` writes it. Raises
    :class:`MissingDependency` without the extra ``plot``."""
    check_library()
    from everlog.spark.pictures.page import make_report

    return make_report(stats, title)


def check_library() -> None:
    """Raises :class:`MissingDependency` where nothing can be drawn."""
    try:
        import vl_convert  # noqa: F401
    except ImportError as error:
        hint = "pip install 'everlog[plot]'"
        raise MissingDependency("pictures", found="vl-convert-python not installed", hint=hint) from error
