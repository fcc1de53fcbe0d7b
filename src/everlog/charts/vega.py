"""The charts as Vega-Lite specifications, and their rendering to SVG.

The colours are Okabe and Ito's, which people with colour blindness can distinguish, and every colour's meaning is also
given by a shape or a text. Colours of text, lines and background are variables of the page's styles, so that they
follow dark mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from everlog.errors import MissingDependency
from everlog.stores import FAMILIES

Spec = dict[str, Any]
Row = dict[str, Any]

BLUE, ORANGE, VERMILLION, PURPLE, SKY = "#0072b2", "#e69f00", "#d55e00", "#cc79a7", "#56b4e9"
COLOURS = {family.name: family.colour for family in FAMILIES.values()}
"""The colour of each family."""
INK, FAINT, GROUND = "#1f2328", "#8a9199", "#fffffe"
"""Placeholder colours of the drawing, which the page's own replace."""
_STYLES = {INK: f"var(--ev-ink, {INK})", FAINT: f"var(--ev-faint, {FAINT})", GROUND: f"var(--ev-ground, {GROUND})"}

WIDTH, ROW = 640, 20
PADDING = {"left": 330, "right": 150, "top": 8, "bottom": 44}
"""Fixed, since a text's width is known only where it is displayed. This also aligns the charts with each other."""
SI = "format(datum.value, '~s')"
_LABELLED = re.compile(r'(<path aria-label="([^"]*)"[^>]*?)(?:/>|></path>)')


_FAMILY_COLOUR = {
    "field": "family",
    "type": "nominal",
    "scale": {"domain": list(COLOURS), "range": list(COLOURS.values())},
    "legend": None,
}
_CONFIG = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": FAINT,
        "gridOpacity": 0.35,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "text": {"color": INK, "fontSize": 12},
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12},
}


def svg(spec: Spec, title: str) -> str:
    """Render a chart as SVG. A mark's description becomes its tooltip; ``title`` labels the whole drawing."""
    import vl_convert

    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": None,
        "padding": PADDING,
        "autosize": "none",
        "config": _CONFIG,
        **spec,
    }
    drawn = vl_convert.vegalite_to_svg(json.dumps(whole))
    drawn = _LABELLED.sub(r"\1><title>\2</title></path>", drawn)
    for colour, style in _STYLES.items():
        drawn = drawn.replace(f'"{colour}"', f'"{style}"')
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def rows_over(
    cells: list[Row],
    marks: list[Row],
    names: list[str],
    notes: list[str],
    axis: Spec,
    *,
    domain: Sequence[float],
    temporal: bool,
) -> Spec:
    """A row for each name, with a bar for each of its cells whose height is ``share`` (0 to 1) of the row, and
    ``marks`` on top. ``row`` is the row's number, ``x`` and ``x2`` the cell's bounds, ``says`` its description; a
    mark's ``what`` selects its shape. ``notes`` are written at the right."""
    scale = {"domain": list(domain), "nice": False, "zero": False} | ({"type": "utc"} if temporal else {})
    x = {"field": "x", "type": "temporal" if temporal else "quantitative", "scale": scale, "axis": axis}
    rows: Spec = {"type": "quantitative", "scale": {"domain": [len(names), 0], "nice": False}, "axis": None}
    for cell in cells:
        cell["low"], cell["high"] = cell["row"] + 0.95, cell["row"] + 0.95 - max(cell["share"], 0.06) * 0.85
    lines = [{"at": number + 0.95} for number in range(len(names))]
    layers: list[Spec] = [
        {
            "data": {"values": lines},
            "mark": {"type": "rule", "color": FAINT, "opacity": 0.5, "aria": False},
            "encoding": {"y": rows | {"field": "at"}},
        },
        {
            "data": {"values": cells},
            "mark": {"type": "rect", "clip": True},
            "encoding": {
                "x": x,
                "x2": {"field": "x2"},
                "y": rows | {"field": "high"},
                "y2": {"field": "low"},
                "color": _FAMILY_COLOUR,
                "description": {"field": "says"},
            },
        },
        *_side(names, "end", -8, rows),
        *_side(notes, "start", WIDTH + 8, rows),
    ]
    if marks:
        layers.append(_marks(marks, x, rows))
    return {"width": WIDTH, "height": ROW * len(names), "layer": layers, "resolve": {"scale": {"color": "independent"}}}


MARKS = {"gap": "diamond", "damage": "cross", "burst": "triangle-up"}
_SHAPES = {"domain": list(MARKS), "range": list(MARKS.values())}
_MARK_COLOURS = {"domain": list(MARKS), "range": [VERMILLION, VERMILLION, PURPLE]}


def _marks(marks: list[Row], x: Spec, rows: Spec) -> Spec:
    return {
        "data": {"values": marks},
        "mark": {"type": "point", "filled": True, "size": 90, "stroke": GROUND, "strokeWidth": 1, "opacity": 1},
        "encoding": {
            "x": x,
            "y": rows | {"field": "at"},
            "shape": {"field": "what", "type": "nominal", "scale": _SHAPES, "legend": None},
            "color": {"field": "what", "type": "nominal", "scale": _MARK_COLOURS, "legend": None},
            "description": {"field": "says"},
        },
    }


def _side(texts: list[str], align: str, at: float, rows: Spec) -> list[Spec]:
    values = [{"text": text, "at": number + 0.55} for number, text in enumerate(texts)]
    align = {"end": "right", "start": "left"}[align]
    return [
        {
            "data": {"values": values},
            "mark": {"type": "text", "align": align, "baseline": "middle", "aria": False},
            "encoding": {"x": {"value": at}, "y": rows | {"field": "at"}, "text": {"field": "text"}},
        }
    ]


def ranges(values: list[Row], names: list[str], axis: Spec, *, domain: Sequence[float], scale: Spec) -> Spec:
    """For each row a line from ``least`` to ``most``, with a bar at ``median`` and a dot at ``p99``."""
    rows: Spec = {
        "type": "quantitative",
        "scale": {"domain": [len(names), 0], "nice": False},
        "axis": None,
        "field": "at",
    }
    along = {"type": "quantitative", "scale": scale | {"domain": list(domain), "nice": False}, "axis": axis}
    data = {"values": values}
    says = {"description": {"field": "says"}}
    layers: list[Spec] = [
        {
            "data": data,
            "mark": {"type": "rule", "strokeWidth": 3, "color": FAINT},
            "encoding": {"x": along | {"field": "least"}, "x2": {"field": "most"}, "y": rows} | says,
        },
        {
            "data": data,
            "mark": {
                "type": "point",
                "shape": "stroke",
                "angle": 90,
                "size": 220,
                "strokeWidth": 3,
                "color": BLUE,
                "opacity": 1,
            },
            "encoding": {"x": along | {"field": "median"}, "y": rows} | says,
        },
        {
            "data": data,
            "mark": {
                "type": "point",
                "filled": True,
                "size": 60,
                "color": ORANGE,
                "stroke": GROUND,
                "strokeWidth": 1,
                "opacity": 1,
            },
            "encoding": {"x": along | {"field": "p99"}, "y": rows} | says,
        },
        *_side(names, "end", -8, {k: v for k, v in rows.items() if k != "field"}),
    ]
    return {"width": WIDTH, "height": ROW * len(names), "layer": layers}


def stacks(values: list[Row], axis: Spec, *, domain: Sequence[float], title: str) -> Spec:
    """Bytes per second over time, stacked by family."""
    present = [family for family in COLOURS if any(row["family"] == family for row in values)]
    return {
        "width": WIDTH,
        "height": 110,
        "data": {"values": values},
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": {
                "field": "x",
                "type": "temporal",
                "scale": {"domain": list(domain), "type": "utc", "nice": False},
                "axis": axis,
            },
            "x2": {"field": "x2"},
            "y": {"field": "low", "type": "quantitative", "axis": {"title": title, "labelExpr": SI, "tickCount": 4}},
            "y2": {"field": "high"},
            "color": {
                "field": "family",
                "type": "nominal",
                "scale": {"domain": present, "range": [COLOURS[name] for name in present]},
                "legend": {"title": None, "orient": "right"},
            },
            "description": {"field": "says"},
        },
    }


def strips(values: list[Row], names: list[str], notes: list[str]) -> Spec:
    """Each stream's segments in a row, their widths in proportion to their sizes."""
    rows: Spec = {"type": "quantitative", "scale": {"domain": [len(names), 0], "nice": False}, "axis": None}
    end = max(row["x2"] for row in values)
    bars = {
        "data": {"values": values},
        "mark": {"type": "rect", "stroke": GROUND, "strokeWidth": 0.5},
        "encoding": {
            "x": {
                "field": "x",
                "type": "quantitative",
                "scale": {"domain": [0, end], "nice": False},
                "axis": {"title": "bytes on disk", "labelExpr": SI, "tickCount": 6},
            },
            "x2": {"field": "x2"},
            "y": rows | {"field": "high"},
            "y2": {"field": "low"},
            "color": _FAMILY_COLOUR,
            "description": {"field": "says"},
        },
    }
    sides = [*_side(names, "end", -8, rows), *_side(notes, "start", WIDTH + 8, rows)]
    return {"width": WIDTH, "height": ROW * len(names), "layer": [bars, *sides]}


def counts(values: list[Row], names: list[str]) -> Spec:
    """The number of faults of each kind."""
    rows: Spec = {"type": "quantitative", "scale": {"domain": [len(names), 0], "nice": False}, "axis": None}
    most = max(row["count"] for row in values)
    bars = {
        "data": {"values": values},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {
                "field": "zero",
                "type": "quantitative",
                "scale": {"domain": [0, most], "nice": False},
                "axis": {"title": "number of faults", "tickMinStep": 1, "format": "d", "tickCount": min(most, 6)},
            },
            "x2": {"field": "count"},
            "y": rows | {"field": "high"},
            "y2": {"field": "low"},
            "color": {
                "field": "severity",
                "type": "nominal",
                "scale": {"domain": ["fault", "note"], "range": [VERMILLION, SKY]},
                "legend": {"title": None},
            },
            "description": {"field": "says"},
        },
    }
    return {"width": WIDTH, "height": ROW * len(names), "layer": [bars, *_side(names, "end", -8, rows)]}


def check_library() -> None:
    """Raise :class:`MissingDependency` if the library that draws charts is not installed."""
    try:
        import vl_convert  # noqa: F401
    except ImportError as error:
        hint = "pip install 'everlog[plot]'"
        message = "charts need vl-convert-python"
        raise MissingDependency(
            "charts", found="vl-convert-python not installed", message=message, hint=hint
        ) from error
