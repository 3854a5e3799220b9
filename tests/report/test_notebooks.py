"""What values show of themselves in notebooks, and the two functions that a notebook calls."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from driftline import ContinualDensityRatio, DriftAlarm, Monitor
from driftline.inference import Doubt, DoubtCode, Estimate
from driftline.report import ReportError, write


class Text(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.said = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"scope"}

    def handle_data(self, data):
        self.said += data


PLAIN = {"div", "strong", "table", "tr", "th", "td", "ul", "li"}
NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def monitor():
    rng = np.random.default_rng(1000)
    windows = [pd.DataFrame(rng.normal(0.5 * (t > 2), 1.0, (600, 2)), columns=[NASTY, "b"]) for t in range(5)]
    found = Monitor(window=600, tolerance=0.02)
    list(found.watch(windows))
    return found


def test_an_estimate_shows_its_interval_and_its_doubts():
    doubt = Doubt(DoubtCode.FEW_ROWS, f"{NASTY} are few")
    shown = Text(Estimate(1.25, 0.1, 1.054, 1.446, 0.95, doubts=(doubt,))._repr_html_())
    assert shown.tags <= PLAIN
    assert "1.25 ± 0.1 (95% interval 1.054 to 1.446)" in shown.said
    assert f"few_rows: {NASTY} are few" in shown.said


def test_records_monitor_and_alarm(monitor):
    last = monitor.records[-1]
    for value in (last, monitor, DriftAlarm(tolerance=0.1)):
        assert Text(value._repr_html_()).tags <= PLAIN
    said = Text(last._repr_html_()).said
    assert f"Record of window 4 from 'original': {last.signal}" in said
    assert str(last.drift) in said
    assert f"moved: {NASTY}" in said
    assert f"alarm, drift {last.drift}" in Text(monitor._repr_html_()).said
    assert "normal after 0 windows" in Text(DriftAlarm(tolerance=0.1)._repr_html_()).said
    assert "no window yet" in Text(Monitor(window=500)._repr_html_()).said


def test_write(monitor, tmp_path):
    write(monitor, tmp_path / "page.html")
    first = (tmp_path / "page.html").read_text(encoding="utf-8")
    write(monitor.run, tmp_path / "page.html")
    assert first == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Alarm since window 3" in first


@pytest.mark.figures
def test_plot_draws_monitors_and_estimators(monitor):
    from driftline.report import plot

    assert len(plot(monitor).axes) == 3
    rng = np.random.default_rng(1000)
    names = [NASTY, "$x_1$", "c"]
    estimator = ContinualDensityRatio(random_state=0).fit(pd.DataFrame(rng.normal(size=(500, 3)), columns=names))
    estimator.partial_fit(pd.DataFrame(rng.normal(0.3, 1.0, (500, 3)), columns=names))
    figure = plot(estimator)
    figure.canvas.draw()
    values, parts = figure.axes
    drawn = [bar.get_width() for bar in values.patches]
    assert drawn == [estimator.divergence(kind).value for kind in ("reverse_kl", "kl", "js")]
    assert {label.get_text() for label in parts.get_yticklabels()} == set(names)
    with pytest.raises(ReportError, match="nothing to draw"):
        plot(Monitor(window=500))


def test_nothing_from_data_is_markup(monitor):
    for value in (monitor.records[-1], monitor):
        assert not re.search(r"<script", value._repr_html_())
