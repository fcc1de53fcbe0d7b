"""The page of ``everlog spark stats --report`` as a browser shows it: the marks are where the numbers are, texts can be
read, nothing is loaded and nothing runs."""

from __future__ import annotations

import numpy as np
import pytest

from everlog.nats_streaming.family import NATS_STREAMING
from everlog.pipelines.stats.fold import Buckets, Records, StreamFold
from everlog.pipelines.stats.rows import GAP, StreamName, detail_rows, fold_rows
from everlog.spark import report
from everlog.spark.statistics.stats import Stats, stats_of_parts
from tests.spark.statistics import chromium

SECOND, MINUTE = 10**9, 60 * 10**9
START = 1_700_000_040 * SECOND
"""2023-11-14 22:14:00 UTC."""
HOSTILE = '<img src="https://example.org/x" onerror="alert(1)"></text><script>alert(2)</script>'
PER_MINUTE = (10, 20, 0, 5, 200, 10, 10, 10)


def _fold(name, minutes, sizes=100, missing=None):
    fold = StreamFold(by_time=Buckets(MINUTE), by_position=Buckets(4096), missing=missing)
    times = [START + minute * MINUTE + n * 10**6 for minute, count in enumerate(minutes) for n in range(count)]
    addresses = np.arange(1, len(times) + 1)
    addresses[30:] += 7 if missing else 0
    sizes = np.full(len(times), sizes, np.int64)
    fold.add(Records(addresses=addresses, lengths=sizes, times=np.array(times), timed=np.ones(len(times), bool)))
    gaps = [{"after": str(g.after), "before": str(g.before), "missing": g.missing} for g in fold.gaps]
    gaps = [gap | {"after_ns": g.after_ns, "before_ns": g.before_ns} for gap, g in zip(gaps, fold.gaps, strict=True)]
    return [*fold_rows(name, fold), *detail_rows(name, GAP, gaps)]


def _timeless(name):
    fold = StreamFold(by_time=Buckets(MINUTE), by_position=Buckets(4096))
    ones = np.ones(400, np.int64)
    fold.add(Records(addresses=np.arange(400) * 64, lengths=ones * 32, times=ones * 0, timed=np.zeros(400, bool)))
    return list(fold_rows(name, fold))


@pytest.fixture(scope="module")
def page(spark, tmp_path_factory):
    """The page about a few streams that are known by hand."""
    import pyarrow as pa

    batches = [
        *_fold(StreamName("/data/a", "nats-streaming", "orders"), PER_MINUTE, missing=NATS_STREAMING.missing_between),
        *_fold(StreamName("/data/b", "jlog", "journal"), (3, 3, 3), 5000),
        *_fold(StreamName("/data/a", "nats-streaming", HOSTILE), (1, 0, 1)),
        *_timeless(StreamName("/data/c", "aeron-archive", "0")),
    ]
    made = stats_of_parts(
        spark, spark.createDataFrame(pa.Table.from_batches(batches)).persist(), bucket_ns=MINUTE, may_join=False
    )
    fault = {"store": "/data/c", "family": "aeron-archive", "stream": "0", "code": "torn-frame", "severity": "fault"}
    fault |= {"file": "0-0.rec", "offset": 12800, "address": "12800", "found": HOSTILE, "loses": "one message"}
    segments = {"store": "/data/b", "family": "jlog", "stream": "journal", "files": 3, "bytes": 600}
    whole = Stats(
        bucket_ns=MINUTE,
        buckets=made.buckets,
        streams=made.streams,
        gaps=made.gaps,
        faults=[fault],
        segments=[segments | {"strip": [100, 200, 300], "files_in_a_part": 1}],
        stores=[{"store": f"/data/{name}", "family": "", "error": None} for name in "abc"],
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    report(whole, "A title & more").save(path)
    return path


@pytest.fixture(scope="module")
def browser():
    try:
        program = chromium.find()
    except chromium.Missing as missing:
        pytest.skip(str(missing))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def show(browser, page):
    """``show("dark")`` gives the page and what it asked for or complained of."""
    opened = []

    def open_page(scheme="light"):
        tab = browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme=scheme)
        events = []
        tab.on("request", lambda request: events.append(request.url))
        tab.on("console", lambda message: events.append(message.text))
        tab.on("pageerror", lambda error: events.append(str(error)))
        tab.on("dialog", lambda dialog: events.append("dialog") or dialog.dismiss())
        tab.goto(page.as_uri())
        opened.append(tab)
        return tab, events

    yield open_page
    for tab in opened:
        tab.close()


MARKS = """title => {
    const heading = [...document.querySelectorAll('h2')].find(h => h.textContent.startsWith(title));
    const svg = heading.nextElementSibling.querySelector('svg'), frame = svg.getBoundingClientRect();
    const box = e => { const b = e.getBoundingClientRect();
                       return {x: b.x, y: b.y, w: b.width, h: b.height, x2: b.right, y2: b.bottom}; };
    return {frame: box(svg), inside: [...svg.querySelectorAll('*')].every(e => { const b = e.getBoundingClientRect();
                return b.width === 0 || (b.left >= frame.left - 1 && b.right <= frame.right + 1); }),
            marks: [...svg.querySelectorAll('path[aria-label]')].map(e => ({says: e.querySelector('title').textContent,
                fill: getComputedStyle(e).fill, ...box(e)})),
            texts: [...svg.querySelectorAll('text')].filter(e => getComputedStyle(e).opacity !== '0' && e.textContent)
                .map(e => ({text: e.textContent, ...box(e)}))};
}"""


def _overlap(one, other):
    width = min(one["x2"], other["x2"]) - max(one["x"], other["x"])
    height = min(one["y2"], other["y2"]) - max(one["y"], other["y"])
    return width > 1 and height > 3


@pytest.mark.long
def test_bars_are_as_high_as_the_rates_and_where_the_minutes_are(show):
    tab, _ = show()
    found = tab.evaluate(MARKS, "Records over time: 2023-11-14 22:14:00 to 22:21:59")
    bars = [mark for mark in found["marks"] if mark["says"].startswith("a / orders, ")]
    counts = {minute: count for minute, count in enumerate(PER_MINUTE) if count}
    assert len(bars) == len(counts)
    bars.sort(key=lambda bar: bar["x"])
    highest = max(bar["h"] for bar in bars)
    for bar, (minute, count) in zip(bars, counts.items(), strict=True):
        assert f"22:{14 + minute}:00: {count} records" in bar["says"]
        assert bar["x"] - bars[0]["x"] == pytest.approx(minute * 80, abs=1), "640 pixels for 8 minutes"
        assert bar["w"] == pytest.approx(80, abs=1)
        assert bar["h"] / highest == pytest.approx(max(count / 200, 0.06), abs=0.03)
    assert highest > 12
    assert any(text["text"].startswith("3.33/s") for text in found["texts"]), "200 in a minute"


@pytest.mark.long
def test_gaps_bursts_and_damage_have_their_marks(show):
    tab, _ = show()
    over_time = tab.evaluate(MARKS, "Records over time")["marks"]
    (gap,) = (mark for mark in over_time if "7 missing between 30 and 38" in mark["says"])
    (burst,) = (mark for mark in over_time if mark["says"].startswith("burst: "))
    bars = {
        mark["says"].split(" ")[4].rstrip(":"): mark for mark in over_time if mark["says"].startswith("a / orders, ")
    }
    # The 31st record is the first of the minute 3; the burst's minute is 4.
    assert gap["x"] + gap["w"] / 2 == pytest.approx(bars["22:17:00"]["x"], abs=2)
    assert bars["22:18:00"]["x"] < burst["x"] < bars["22:18:00"]["x2"]
    assert gap["fill"] != burst["fill"]
    along = tab.evaluate(MARKS, "Records by position")["marks"]
    (damage,) = (mark for mark in along if "torn-frame at 12800" in mark["says"])
    bars = [mark for mark in along if "records" in mark["says"]]
    left, right = min(bar["x"] for bar in bars), max(bar["x2"] for bar in bars)
    # 400 frames of 64 bytes are in 7 buckets of 4096: 28,672.
    assert damage["x"] + damage["w"] / 2 == pytest.approx(left + (right - left) * 12800 / 28672, abs=2)


@pytest.mark.long
def test_sizes_times_segments_and_faults_are_drawn(show):
    tab, _ = show()
    says = {
        name: tab.evaluate(MARKS, name)["marks"]
        for name in ("Payload", "Times", "Segments", "Faults", "Bytes a second")
    }
    assert any(mark["says"].startswith("b / journal: 5,000 B to 5,000 B") for mark in says["Payload"])
    assert any("orders: 1 ms to " in mark["says"] for mark in says["Times"])
    widths = [mark["w"] for mark in sorted(says["Segments"], key=lambda mark: mark["x"])]
    assert [width / sum(widths) for width in widths] == pytest.approx([1 / 6, 2 / 6, 3 / 6], abs=0.01)
    assert [mark["says"] for mark in says["Faults"]] == ["torn-frame: 1"]
    assert all(mark["h"] > 0 for mark in says["Bytes a second"])


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_are_inside_do_not_overlap_and_stand_out(show, scheme):
    tab, _ = show(scheme)
    titles = tab.evaluate("[...document.querySelectorAll('figure')].map(f => f.previousElementSibling.textContent)")
    assert len(titles) == 7
    for title in titles:
        found = tab.evaluate(MARKS, title)
        assert found["inside"], title
        texts = found["texts"]
        assert len(texts) > 3
        for number, one in enumerate(texts):
            for other in texts[number + 1 :]:
                assert not _overlap(one, other), (title, one["text"], other["text"])
    colours = tab.evaluate(
        "[getComputedStyle(document.querySelector('svg text')).fill,"
        " getComputedStyle(document.querySelector('.everlog')).backgroundColor]"
    )
    assert _contrast(*colours) >= 7
    for mark in tab.evaluate(MARKS, "Records over time")["marks"]:
        assert _contrast(mark["fill"], colours[1]) >= 2


def _contrast(*colours):
    def light(text):
        values = [int(part) / 255 for part in text[4:-1].split(", ")]
        linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
        return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    dark, bright = sorted(map(light, colours))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.long
def test_nothing_is_loaded_nothing_runs_and_names_are_only_text(show, page):
    tab, events = show()
    assert events == [page.as_uri()]
    assert tab.title() == "A title & more"
    assert tab.evaluate("document.querySelectorAll('script, img, link, iframe, object').length") == 0
    assert HOSTILE in tab.inner_text("body"), "in the table of faults"


def test_a_notebook_shows_the_same_without_a_page_around_it(page):
    text = page.read_text()
    assert text.count("<body>") == 1
    inner = text[text.index("<body>") + 6 : text.index("</body>")].strip()
    assert inner.startswith('<div class="everlog">')
    assert inner.endswith("</div>")
