"""Metrics, alert rules and dashboard: read by Prometheus's own tools, and by a real Prometheus that scrapes a run."""

import json
import math
import re
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from driftline import Signal
from driftline.inference import Doubt, DoubtCode
from tests.server import made
from tests.server.conftest import until

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
with_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool on this machine (apt-get install prometheus)")
with_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on this machine (apt-get install it)")


def samples(text):
    """Return the value of each sample by name and labels."""
    return {
        (
            sample.name,
            *(sample.labels.get(name) for name in ("stream", "original") if name in sample.labels),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_numbers_of_the_last_window(serving):
    found = samples(serving().get("/metrics").text)
    of = lambda name, original="original": found[f"driftline_{name}", "alarm", original]  # noqa: E731
    assert (of("drift"), of("drift_low"), of("drift_high")) == pytest.approx((0.5, 0.46, 0.54))
    assert of("drift_floor") == pytest.approx(0.5 / 3)
    assert (of("step"), of("step_seconds"), of("tolerance"), of("alarm_limit")) == (0.01, 0.25, 0.1, 0.15)
    assert (of("signal"), of("signal", "later"), of("undecided"), of("unsure")) == (2, 0, 0, 0)
    assert (of("windows_total"), of("rows_total"), of("rows_total", "later")) == (4, 2000, 1000)
    assert of("effective_rows") == pytest.approx(500 * math.exp(-0.5))
    assert 0 <= of("last_window_age_seconds") < 600
    assert of("last_window_end_timestamp_seconds") == made.DAY.timestamp() + 4 * 86400
    assert found["driftline_rows_left_out_total", "quiet", "original"] == 3
    assert found["driftline_up", "alarm"] == 1
    assert found["driftline_up", "broken"] == 0
    assert not [key for key in found if "broken" in key and key[0] != "driftline_up"]
    assert math.isnan(found["driftline_last_window_end_timestamp_seconds", "untimed", "original"])
    assert found["driftline_drift", "<script>alert(1)<script>", "original"] < 0.1


def test_what_was_withheld_is_not_a_number_and_never_normal(serving, tmp_path):
    made.write(tmp_path / "bound.driftline", [made.began(), made.bound(1)])
    made.write(tmp_path / "bare.driftline", [made.began(), made.bare(1)])
    made.write(tmp_path / "new.driftline", [made.began()])
    found = samples(serving([tmp_path / f"{name}.driftline" for name in ("bound", "bare", "new")]).get("/metrics").text)
    of = lambda name, stream: found[f"driftline_{name}", stream, "original"]  # noqa: E731
    assert of("drift_high", "bound") == math.inf
    assert of("signal", "bound") == 2
    for stream in ("bare", "new"):
        assert math.isnan(of("drift_low", stream))
        assert math.isnan(of("drift_high", stream))
        assert math.isnan(of("signal", stream))
        assert of("undecided", stream) == 1
    assert of("drift", "bare") == 0.04
    assert math.isnan(of("drift", "new"))
    assert of("windows_total", "new") == 1


def test_windows_that_were_not_measured_are_undecided_and_counted(serving, tmp_path):
    quiet = [made.began(), made.record(1, 0.02)]
    small = [replace(made.record(w, 0.02), status="skipped", rows=5, divergences={}, step=None) for w in range(2, 32)]
    for name, many in (("none", 0), ("one", 1), ("all", 30)):
        made.write(tmp_path / f"{name}.driftline", [*quiet, *small[:many]])
    client = serving([tmp_path / f"{name}.driftline" for name in ("none", "one", "all")])
    found = samples(client.get("/metrics").text)
    of = lambda name, stream: found[f"driftline_{name}", stream, "original"]  # noqa: E731
    assert [of("windows_unmeasured", s) for s in ("none", "one", "all")] == [0, 1, 30]
    assert [of("undecided", s) for s in ("none", "one", "all")] == [0, 0, 1]
    assert [of("unsure", s) for s in ("none", "one", "all")] == [0, 1, 0]
    assert (of("signal", "none"), of("signal", "one")) == (0, 0)
    assert math.isnan(of("signal", "all"))
    streams = {stream["name"]: stream for stream in client.get("/api/streams").json()}
    assert {name: each["outcome"] for name, each in streams.items()} == {
        "none": "normal",
        "one": "unsure",
        "all": "blind",
    }
    assert streams["all"]["originals"][0]["windows_unmeasured"] == 30
    assert "the last 30 windows (150 rows) were not measured" in streams["all"]["originals"][0]["sentence"]
    page = client.get(f"/streams/{streams['all']['key']}").text
    assert "Undecided" in page
    assert "Nothing casts doubt" not in page


def test_a_warning_in_doubt_is_unsure(serving, tmp_path):
    doubt = Doubt(DoubtCode.DEPENDENT_ROWS, "rows depend on each other")
    warned = made.record(1, 0.02, signal=Signal.WARNING)
    made.write(tmp_path / "plain.driftline", [made.began(), warned])
    made.write(tmp_path / "doubted.driftline", [made.began(), replace(warned, doubts=(doubt,))])
    found = samples(serving([tmp_path / "plain.driftline", tmp_path / "doubted.driftline"]).get("/metrics").text)
    assert [found["driftline_signal", name, "original"] for name in ("plain", "doubted")] == [1, 1]
    assert [found["driftline_unsure", name, "original"] for name in ("plain", "doubted")] == [0, 1]


def promtool(*arguments, **options):
    return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True, cwd=DEPLOY, **options)


@with_promtool
def test_promtool_has_nothing_to_say_about_the_metrics(serving):
    done = promtool("check", "metrics", input=serving().get("/metrics").text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert promtool("check", "metrics", input="Bad-Name 1\n").returncode != 0


@with_promtool
def test_rules_are_valid_and_do_what_they_say():
    for arguments in (("check", "rules", "alerts.yml"), ("test", "rules", "alerts_test.yml")):
        done = promtool(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
    done = promtool("check", "config", "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def queries():
    """Return all queries of the dashboard, for all streams, with the panel they belong to."""
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    found = []
    for panel in board["panels"]:
        for target in panel["targets"]:
            text = target["expr"].replace("$stream", ".*").replace("$original", ".*")
            found.append((panel["title"], text.replace("$__rate_interval", "1m")))
    return found


def names_in(text):
    return set(re.findall(r"driftline_\w+", text))


def test_dashboard_and_rules_ask_for_metrics_that_exist(serving):
    known = {name for name, *_ in samples(serving().get("/metrics").text)}
    asked = names_in((DEPLOY / "grafana-dashboard.json").read_text()) | names_in((DEPLOY / "alerts.yml").read_text())
    assert len(asked) > 12
    assert asked <= known
    boxes = [panel["gridPos"] for panel in json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)


@pytest.mark.full
@with_prometheus
def test_a_real_prometheus_scrapes_a_run_and_answers_the_dashboard(serving, folder, tmp_path):
    client = serving()
    target, port = client.base_url.netloc.decode(), free_port()
    config = (DEPLOY / "prometheus.yml").read_text().replace("127.0.0.1:8377", target)
    config = config.replace("30s", "1s").replace("alerts.yml", str(DEPLOY / "alerts.yml"))
    (tmp_path / "prometheus.yml").write_text(config)
    options = [f"--config.file={tmp_path / 'prometheus.yml'}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([PROMETHEUS, *options, f"--web.listen-address=127.0.0.1:{port}"], stderr=log)
    try:
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        until(lambda: prometheus.value('driftline_signal{stream="quiet"}') == 0, 60)
        until(lambda: prometheus.value('count_over_time(driftline_rows_total{stream="quiet"}[1m])') >= 2, 60)
        made.append(folder / "quiet.driftline", [made.record(12, 0.4)])
        until(lambda: prometheus.value('driftline_signal{stream="quiet"}') == 2, 60)
        lacking = [(title, text) for title, text in queries() if not prometheus.ask(text)]
        assert lacking == []
        until(lambda: {"alarm", "quiet"} <= prometheus.firing("DriftlineAlarm"), 60)
        assert prometheus.value('driftline_up{stream="broken"}') == 0
    finally:
        process.terminate()
        process.wait(30)


class Prometheus:
    """Questions to a Prometheus."""

    def __init__(self, url):
        self.url = url

    def ask(self, query):
        try:
            found = httpx.get(f"{self.url}/api/v1/query", params={"query": query})
        except httpx.HTTPError:
            return []  # not there yet
        if found.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return []  # still starting
        answer = found.json()
        assert answer["status"] == "success", answer
        return answer["data"]["result"]

    def value(self, query):
        found = self.ask(query)
        return float(found[0]["value"][1]) if found else math.nan

    def firing(self, name):
        alerts = httpx.get(f"{self.url}/api/v1/alerts").json()["data"]["alerts"]
        return {a["labels"]["stream"] for a in alerts if a["labels"]["alertname"] == name and a["state"] == "firing"}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
