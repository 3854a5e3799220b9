"""Pages and API over a real socket: what they show, and what of the data they escape."""

import re
from html.parser import HTMLParser

import httpx
import pytest

from driftline.server import create_app
from tests.schema import validate
from tests.server import made
from tests.server.conftest import until


class Elements(HTMLParser):
    """Elements of a page, each with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def keys(client):
    return {stream["name"]: stream["key"] for stream in client.get("/api/streams").json()}


def test_the_overview_shows_every_stream_the_worst_first(serving):
    page = serving().get("/").text
    assert "5 streams: 1 broken, 1 in alarm and 3 without alarm" in page
    cards = re.findall(r'class="stream state (\w+)" data-name="([^"]*)"', page)
    assert cards[0] == ("alarm", "broken")  # as red as an alarm
    assert cards[1] == ("alarm", "alarm")
    assert {state for state, _ in cards[2:]} == {"normal"}
    assert page.count('class="spark"') == 5
    assert "not a driftline tracker file" in page
    assert "written " in page
    assert ": median from 2 to " in page  # what of the column moved that the alarm is about


def test_a_page_is_one_request_besides_its_assets(serving):
    client = serving()
    for path in ("/", f"/streams/{keys(client)['alarm']}"):
        for tag, attributes in Elements(client.get(path).text).found:
            loaded = attributes.get("src") or (attributes.get("href") if tag == "link" else None)
            assert loaded is None or loaded == "data:," or loaded.startswith("/assets/")
    for name in ("report.css", "dashboard.css", "report.js", "dashboard.js"):
        found = client.get(f"/assets/{name}")
        assert found.status_code == 200
        assert "max-age=31536000" in found.headers["cache-control"]
    assert client.get("/assets/no.js").status_code == 404
    assert client.get("/assets/..%2f_app.py").status_code == 404


def test_a_stream_has_the_report_and_its_originals_side_by_side(serving):
    client = serving()
    page = client.get(f"/streams/{keys(client)['alarm']}").text
    assert "Originals side by side" in page
    assert "from <bdi>later</bdi>" in page
    assert "How far the data has moved" in page
    quiet = client.get(f"/streams/{keys(client)['quiet']}").text
    assert "Originals side by side" not in quiet
    assert client.get("/streams/none").status_code == 404
    broken = client.get(f"/streams/{keys(client)['broken']}")
    assert broken.status_code == 200
    assert "nothing is known of its stream" in broken.text
    assert 'class="verdict state alarm"' in broken.text


def test_one_span_for_everything(serving):
    client = serving()
    key, span = keys(client)["quiet"], "since=2025-01-08&until=2025-01-09"
    assert f'href="/streams/{key}?{span.replace("&", "&amp;")}"' in client.get(f"/?{span}").text
    page = client.get(f"/streams/{key}?{span}").text
    assert f"/streams/{key}/fragment?{span.replace('&', '&amp;')}" in page
    assert f"/streams/{key}/snapshot?{span.replace('&', '&amp;')}" in page
    assert 'value="2025-01-08"' in page
    shown = client.get(f"/api/streams/{key}?{span}").json()
    assert [point["first"] for point in shown["points"]["original"]] == [2, 3]
    assert client.get(f"/api/streams/{key}/records?{span}").json()["total"] == 2
    saved = client.get(f"/streams/{key}/snapshot?{span}").text
    assert "(window 3)" in saved
    assert "(window 11)" not in saved
    assert "since is not a time" in client.get("/?since=soon").text
    untimed = client.get(f"/?{span}").text
    assert "Windows of untimed have no time" in untimed


def test_the_snapshot_is_the_report_file(serving):
    client = serving()
    found = client.get(f"/streams/{keys(client)['alarm']}/snapshot")
    assert found.headers["content-disposition"] == 'attachment; filename="alarm-window-3.html"'
    assert "sandbox" in found.headers["content-security-policy"]
    assert found.text.startswith("<!DOCTYPE html>")
    assert "Alarm since" in found.text
    assert client.get(f"/streams/{keys(client)['broken']}/snapshot").status_code == 404


def test_the_api_gives_numbers_and_records(serving):
    client = serving()
    streams = {stream["name"]: stream for stream in client.get("/api/streams").json()}
    alarm, broken = streams["alarm"], streams["broken"]
    assert (alarm["outcome"], broken["outcome"], broken["originals"]) == ("alarm", "broken", [])
    first = alarm["originals"][0]
    assert (first["windows"], first["rows"], first["last"]["window"]) == (4, 2000, 3)
    assert first["last"]["drift"] == pytest.approx(0.5)
    records = client.get(f"/api/streams/{alarm['key']}/records?limit=4").json()
    assert (records["total"], records["next"], len(records["records"])) == (6, 4, 4)
    for record in records["records"]:
        validate(record)
    later = client.get(f"/api/streams/{alarm['key']}/records?original=later").json()
    assert [record["window"] for record in later["records"]] == [2, 3]
    assert client.get("/api/streams/none").status_code == 404
    assert client.get(f"/api/streams/{broken['key']}/records").status_code == 409


def test_withheld_intervals_are_null_and_open_ones_say_so(serving, tmp_path):
    made.write(tmp_path / "b.driftline", [made.began(), made.bound(1)])
    made.write(tmp_path / "w.driftline", [made.began(), made.bare(1)])
    client = serving([tmp_path / "b.driftline", tmp_path / "w.driftline"])
    bound, withheld = (s["originals"][0] for s in client.get("/api/streams").json())
    assert (bound["last"]["high"], bound["last"]["open_above"], bound["outcome"]) == (None, True, "alarm")
    assert (withheld["last"]["low"], withheld["last"]["open_above"], withheld["outcome"]) == (None, False, "blind")


@pytest.mark.parametrize(
    "query",
    ["since=soon", "until=2025-99-01", "last=0", "last=-3", "last=many", "since=" + "2" * 50, "since="],
)
def test_wrong_questions_are_refused(serving, query):
    client = serving()
    assert client.get(f"/api/streams?{query}").status_code == 422
    assert client.get(f"/api/streams/{keys(client)['quiet']}?points=5000").status_code == 422
    assert client.get(f"/api/streams/{keys(client)['quiet']}/records?limit=5000").status_code == 422


@pytest.mark.parametrize("last", ["0", "-5", "1e20", "10000000", "many"])
def test_a_page_says_that_it_cannot_show_so_many_windows(serving, last):
    client = serving()
    path, wrong = f"/streams/{keys(client)['quiet']}", "last is not a number of windows: write 1 to 999,999"
    assert wrong in client.get(f"{path}?last={last}").text
    assert wrong in client.get(f"/?last={last}").text
    for fine in ("", "last=", "last=3", "last=999999"):
        assert wrong not in client.get(f"{path}?{fine}").text


def test_nothing_from_data_becomes_markup(serving):
    """Names of a file, a column, a source and a cause hold a script element."""
    client = serving()
    key = keys(client)["alarm"]
    pages = [client.get(path).text for path in ("/", f"/streams/{key}", f"/streams/{key}?last=%3Cscript%3E")]
    pages += [client.get(path).text for path in ("/login?next=%22%3E%3Cscript%3E", "/streams/%3Cscript%3E")]
    pages.append(client.get("/?since=%22%3E%3Cscript%3E").text)
    for page in pages:
        assert "<script>" not in page
        for tag, attributes in Elements(page).found:
            assert tag != "script" or attributes["src"].startswith("/assets/")
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert "&lt;script&gt;alert(1)&lt;script&gt;" in pages[0]  # the name of the file
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages[1]  # the name of the column


def test_a_page_that_is_not_escaped_would_be_noticed():
    assert ("script", {}) in Elements("<p><script>alert(1)</script>").found


def test_health_and_readiness(serving):
    client = serving()
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}


def test_it_is_not_ready_until_all_has_been_read(folder):
    import anyio

    async def ask():
        app = create_app([folder])  # nobody has begun to look
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return (await client.get("/readyz")).status_code, (await client.get("/")).text

    code, page = anyio.run(ask)
    assert code == 503
    assert "still reading" in page


def test_a_tracker_that_breaks_while_it_is_looked_at(serving, folder):
    client = serving()
    key = keys(client)["quiet"]
    data = (folder / "quiet.driftline").read_bytes()
    (folder / "quiet.driftline").write_bytes(data[:3000])
    for path in (f"/streams/{key}", f"/streams/{key}/fragment", "/"):
        assert client.get(path).status_code == 200
    until(lambda: 'data-name="quiet"' in client.get("/").text and client.get("/").text.count(">Broken<") == 2)
    assert 'driftline_up{stream="quiet"} 0.0' in client.get("/metrics").text
