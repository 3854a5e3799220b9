import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftline.report import fragment, script, stylesheet, write_report
from driftline.report._histories import ReportError
from driftline.report._page import render

VOID = {"meta", "link", "input", "br"}
_PAGE = ("html", "head", "meta", "link", "title", "style", "script", "body", "div", "header", "main", "footer")
_TEXT = (
    "section",
    "strong",
    "span",
    "h1",
    "h2",
    "h3",
    "p",
    "a",
    "b",
    "small",
    "bdi",
    "ul",
    "ol",
    "li",
    "pre",
    "code",
    "br",
)
_TABLES = ("table", "thead", "tbody", "tr", "th", "td", "details", "summary", "dl", "dt", "dd", "input", "label")
TAGS = {*_PAGE, *_TEXT, *_TABLES, "figure", "svg", "g", "path", "rect", "circle", "text", "desc"}
BARE = re.compile(r"<(style|script)>.*?</(style|script)>", re.S)
CASES = (
    "wide",
    "weekly",
    "several",
    "nothing",
    "joined, no record",
    "only the original",
    "one window",
    "all skipped",
    "no error bars",
    "around zero",
    "extreme",
    "long",
    "skipped at the end",
    "not a number",
)


class Page(HTMLParser):
    """Tags, attributes and text of a page whose elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).replace("\xa0", " ").split())

    def of(self, name):
        return [value for key, value in self.attributes if key == name]


@pytest.mark.parametrize("case", CASES)
def test_every_run_makes_a_page_that_needs_nothing_else(cases, case):
    assert set(CASES) == set(cases)
    text = render(cases[case])
    page = Page(text)
    assert set(page.tags) <= TAGS
    ids = page.of("id")
    assert len(ids) == len(set(ids))
    assert {*page.of("aria-labelledby"), *page.of("aria-describedby")} <= set(ids)
    assert {ref.removeprefix("#") for ref in page.of("href")} <= {*ids, "data:,"}
    assert not page.of("src")
    assert not re.search(r"url\(|@import|https?:", text)
    assert "default-src 'none'" in "".join(v for v in page.of("content") if v)
    assert not any(key.startswith("on") or key == "style" for key, _ in page.attributes)
    assert "nan" not in re.findall(r"[\w.]+", BARE.sub("", text))
    assert "inf" not in re.findall(r"[\w.]+", BARE.sub("", text))


def test_the_page_has_all_its_parts(runs):
    page = Page(render(runs.run(runs.weekly())))
    for words in (
        "Alarm since the week of 19 Jan 1998 (window 89)",
        "How far the data has moved",
        "tolerance, 0.1 nats",
        "alarm limit",
        "nothing measured (no rows, or too few)",
        "Step by step",
        "Which columns moved",
        "Budget",
        "Mean 0 then, 1.1 now (+1.10 standard deviations)",
        "missing: 0 % then, 6 % now",
        "but none of its rows",
        "What the weights are worth",
        "Now 172 of 336 rows (51 %)",
        "What to do",
        "driftline weights run.driftline current.csv --out weighted.csv",
        "All windows",
        "All 134 windows, the newest first.",
        "windows 40 to 42, 77 (4 in all): no rows",
        "came after their window had been closed and were left out: windows 5, 36, 67, 98, 129",
        "How to read the numbers",
        "tracker file /data/run.driftline",
    ):
        assert words in page.text.replace("77:", "77 :").replace("file/", "file /"), words
    assert page.tags.count("desc") == 2 * 3 + 2 * 5  # each chart in two widths; history and histogram of each column


def test_numbers_in_the_page_are_those_of_the_records(runs):
    records = runs.weekly()
    page = Page(render(runs.run(records)))
    last = records[-1]
    assert f"{last.drift.value:.3f}" in page.text
    assert f"{last.drift.low:.3f} to {last.drift.high:.3f}" in page.text
    assert sum(f"Window {r.window}" in page.text or f"(window {r.window})" in page.text for r in records) == len(
        records
    )


def test_a_fragment_needs_no_inline_style_handler_or_script(cases):
    for case in cases.values():
        text = fragment(case)
        page = Page(text)
        assert not {"html", "head", "body", "style", "script", "link"} & set(page.tags)
        assert not any(key.startswith("on") or key == "style" for key, _ in page.attributes)
        assert text in render(case)


def test_the_policy_allows_the_pages_own_style_and_script_alone(runs):
    page = Page(render(runs.run([])))
    policy = next(value for value in page.of("content") if value and "default-src" in value)
    for kind, text in (("style", stylesheet()), ("script", script())):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_every_column_and_every_window_is_there(runs):
    run = runs.wide(200, 200)
    text = render(run)
    page = Page(text)
    assert len(text.encode()) < 2_000_000
    assert all(f"feature_{k:03}" in page.text for k in range(200))
    assert text.count('class="column"') == 200
    rows = re.findall(r'<tr><th scope="row">(\d+)', text)
    assert sorted(map(int, rows)) == list(range(200))
    assert "quiet windows: 10 to " in page.text
    # those that moved stand before the others; only these are said to have moved
    names = re.findall(r"<bdi>(feature_\d+)</bdi>", text[text.index('class="columns moved"') :])
    moved = [m.column for m in run.records[-1].columns]
    assert names[: len(moved)] == moved
    assert "Its test is silent in the last measured window" in page.text
    assert "feature_010 with feature_011" in page.text
    assert "1 pair that did in earlier windows, and no longer" in page.text


def test_columns_that_were_not_tested_are_not_called_quiet(runs):
    run = runs.wide(16, 20)
    last = replace(run.records[-1], columns=(), pairs=(), marginals={}, notes=("columns were not tested: rows repeat",))
    first = replace(run.originals[0], ledger=object())
    page = Page(render(replace(run, records=(*run.records[:-1], last), originals=(first,))))
    assert "Columns were not tested in the last measured window, so it is not known which of them moved" in page.text
    assert "No column moved" not in page.text
    assert "whose own test is silent now" not in page.text


def test_without_summaries_it_says_so(runs):
    run = runs.run(runs.weekly(20), then={}, now={})
    assert "This run has no histograms, since it keeps no summaries." in Page(render(run)).text


def test_names_are_harmless(runs):
    text = render(runs.extreme())
    assert text.count("<script") == 1  # its own
    assert "\x00" not in text
    assert '<script>alert("x")</script>&' in "".join(Page(text).words)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=30), st.sampled_from(["<", ">", '"', "'", "&", "--><b>", "</style><b>", "]]>"]))
def test_any_text_is_harmless(runs, text, spice):
    name = text + spice
    record = runs.record(1, 0.5, columns=runs.moved(0.5, (0.7,), (name,)), notes=(name,), reason=name)
    then = {name: {"kind": "categorical", "values": [name], "shares": [0.9], "other": 0.1, "missing": 0.0}}
    record, first = (replace(r, original=name) for r in (record, runs.original()))
    originals, texts = [runs.Original(name, 0, 336, None, then)], {"source": name, "path": name, "created": name}
    skipped = {"skipped": {name: name}}
    text = render(runs.run([first, record], then=then, now=then, originals=originals, encoder=skipped, **texts))
    page = Page(text)
    assert set(page.tags) <= TAGS
    assert not any(key.startswith("on") for key, _ in page.attributes)
    text.encode()


def test_several_originals_have_tabs_and_one_can_be_chosen(runs, tmp_path):
    run = runs.several()
    both = Page(render(run))
    assert both.tags.count("input") == 2
    assert both.of("checked") == [None]
    assert "Drift from winter <1997>" in both.text
    write_report(tmp_path / "one.html", run, "winter <1997>")
    one = Page((tmp_path / "one.html").read_text(encoding="utf-8"))
    assert "input" not in one.tags
    assert "No alarm in 49 windows" in one.text
    assert "Alarm since" not in one.text


def test_a_thousand_windows_make_a_small_page_that_hides_no_peak(runs):
    records = runs.long()
    text = render(runs.run(records, runs.ROWS))
    assert len(text) < 800_000
    assert "1,000 windows are too many to draw one by one" in text
    peak = records[503].drift.value
    wide = re.search(r'<div class="wide"><svg.*?</svg>', text, re.S)[0]
    heights = [
        float(y) for line in re.findall(r'd="M([^"]*)" class="line"', wide) for y in re.findall(r" ([\d.]+)", line)
    ]
    zero = float(re.search(r'd="M[\d.]+ ([\d.]+)H[\d.]+" class="zero"', wide)[1])
    tolerance = float(re.search(r'd="M[\d.]+ ([\d.]+)H[\d.]+" class="tolerance"', wide)[1])
    # two lines whose values are known give the scale; coordinates have one decimal
    drawn = (zero - min(heights)) / (zero - tolerance) * 0.1
    assert drawn == pytest.approx(peak, rel=0.02)
    short = render(runs.run(records[:100], runs.ROWS))
    assert "too many to draw" not in short


def test_a_wild_limit_does_not_hide_the_divergence(runs):
    records = [runs.original(), *(runs.record(w, 0.2, alarm_limit=1e4 if w == 5 else 0.15) for w in range(1, 10))]
    wide = re.search(r'<div class="wide"><svg.*?</svg>', render(runs.run(records)), re.S)[0]
    line = re.search(r'd="M([^"]*)" class="line"', wide)[1]
    limit = re.search(r'd="M([^"]*)" class="limit"', wide)[1]
    tolerance = float(re.search(r'd="M[\d.]+ ([\d.]+)H[\d.]+" class="tolerance"', wide)[1])
    heights = [float(y) for y in re.findall(r" ([\d.]+)", limit)]
    assert tolerance - float(re.search(r" ([\d.]+)", line)[1]) > 50
    assert min(heights) == 24.0  # cut at the top of the plot


def test_a_bad_path_or_name_is_a_clear_error(runs, tmp_path):
    run = runs.run([runs.original()])
    with pytest.raises(ReportError, match="is a directory: name a file"):
        write_report(tmp_path, run)
    with pytest.raises(ReportError, match="cannot be written: No such file or directory"):
        write_report(tmp_path / "none" / "report.html", run)
    with pytest.raises(ReportError, match="original 'b' is not in this run: it has 'original'"):
        write_report(tmp_path / "report.html", run, "b")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_replaced_as_a_whole(runs, tmp_path):
    path = tmp_path / "report.html"
    write_report(path, runs.run(runs.weekly(20)))
    assert len(path.read_bytes()) > 20_000
    write_report(path, runs.run([runs.original()]))
    assert "Tracing began" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_lower_bound_is_drawn_open_above(runs):
    page = render(runs.run(runs.bounds()))
    wide = re.search(r'<div class="wide"><svg.*?</svg>', page, re.S)[0]
    shaded = re.search(r'd="M([^"]*)Z" class="open"', wide)[1]
    heights = [float(y) for y in re.findall(r" ([\d.]+)", shaded)]
    assert heights.count(24.0) == len(heights) / 2  # from the lower ends to the top of the plot
    assert wide.count('class="open-end"') == 4
    assert "lower bound: open above" in page
    assert "at least" in page
    assert "∞" not in page  # some divergences are bounded
    quiet = render(runs.run(runs.weekly(9)))
    assert 'class="open"' not in quiet
    assert "lower bound" not in quiet
