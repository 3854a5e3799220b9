"""The dashboard in a real browser: a window appears without a reload, nothing complains, anyone can read it."""

import shutil
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from driftline import Monitor
from tests.server import made
from tests.server.conftest import until

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine (apt-get install chromium)"),
    pytest.mark.skipif(find_spec("playwright") is None, reason="playwright is not installed"),
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def visit(browser):
    """Function that opens a page, and a list of all that the browser complained about."""
    said, contexts = [], []

    def open_page(url, width=1300, scheme="light", **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
        page.goto(url)
        return page

    yield open_page, said
    for context in contexts:
        context.close()


def linked(page):
    page.locator("body.linked").wait_for()  # no function to evaluate: the policy of the page allows none


def test_a_new_window_appears_without_a_reload(serving, folder, visit):
    client, (open_page, said) = serving(), visit
    page = open_page(client.server.url)
    linked(page)
    page.evaluate("window.loadedOnce = true")
    card = page.locator(".stream[data-name=quiet]")
    assert "No alarm" in card.inner_text().replace("NO ALARM", "No alarm")
    assert "window 11" in card.inner_text()
    made.append(folder / "quiet.driftline", [made.record(12, 0.4)])
    card.get_by_text("window 12").wait_for()
    assert "alarm" in page.locator(".stream[data-name=quiet]").get_attribute("class")
    assert page.evaluate("window.loadedOnce")
    assert said == []


def test_a_stream_stays_where_its_reader_was(serving, folder, visit):
    client, (open_page, said) = serving(), visit
    key = next(s["key"] for s in client.get("/api/streams").json() if s["name"] == "quiet")
    page = open_page(f"{client.server.url}streams/{key}")
    linked(page)
    page.locator("summary", has_text="Notes").first.click()
    page.evaluate("window.scrollTo(0, 700)")
    was = page.evaluate("window.scrollY")
    assert was > 300
    made.append(folder / "quiet.driftline", [made.record(12, 0.4)])
    page.locator("h1", has_text="Alarm since").wait_for()
    assert page.evaluate("window.scrollY") == was
    assert page.locator("details", has_text="Notes").first.get_attribute("open") is not None
    assert said == []


def test_search_is_kept_as_windows_come(serving, folder, visit):
    for name in "abcdef":
        made.write(folder / f"other-{name}.driftline", made.quiet(3))
    client, (open_page, said) = serving(), visit
    page = open_page(client.server.url)
    linked(page)
    page.fill("#find", "QUI")
    shown = page.locator(".stream:visible")
    assert shown.count() == 1
    made.append(folder / "quiet.driftline", [made.record(12, 0.4)])
    page.locator(".stream[data-name=quiet]").get_by_text("window 12").wait_for()
    assert shown.count() == 1
    assert page.input_value("#find") == "QUI"
    assert said == []


def test_a_run_is_read_as_it_is_written(serving, folder, visit):
    rng, names = np.random.default_rng(0), ["amount", "age", "alike", "beta", "gamma", "delta"]

    def frames(count, shift=0.0):
        for _ in range(count):
            rows = rng.normal(size=(400, len(names)))
            yield pd.DataFrame(rows + shift * (np.arange(len(names)) == 0), columns=names)

    with Monitor(folder / "real.driftline", window=400, model="linear") as monitor:
        assert len(list(monitor.watch(frames(8)))) == 8
        client, (open_page, said) = serving(), visit
        key = next(s["key"] for s in client.get("/api/streams").json() if s["name"] == "real")
        page = open_page(f"{client.server.url}streams/{key}")
        linked(page)
        page.get_by_label("Search columns").fill("A")
        page.get_by_label("Order of columns").select_option("name")
        chart = page.locator(".wide svg.chart").first
        chart.scroll_into_view_if_needed()
        plot, box = chart.locator("svg.plot"), chart.bounding_box()
        wide = float(plot.get_attribute("viewBox").split()[2])
        page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 0.5 * box["height"], steps=5)
        page.mouse.up()
        assert float(plot.get_attribute("viewBox").split()[2]) < 0.7 * wide  # dragging zooms
        assert len(list(monitor.watch(frames(1, shift=2.0)))) == 1
        page.locator("h1", has_text="Alarm since").wait_for()
    assert page.get_by_label("Search columns").input_value() == "A"
    assert page.get_by_label("Order of columns").input_value() == "name"
    shown = page.locator(".column:not([hidden]) summary bdi").all_inner_texts()
    assert shown[0] == "amount"  # it moved; the others follow by name
    assert shown[1:] == sorted(name for name in names[1:] if "a" in name)
    moved = page.locator(".column", has=page.get_by_text("amount", exact=True)).first
    if moved.get_attribute("open") is None:
        moved.locator("summary").click()
    assert moved.locator("svg.chart").is_visible()  # its history
    assert said == []


def test_the_selector_goes_from_page_to_page(serving, visit):
    client, (open_page, _) = serving(), visit
    page = open_page(client.server.url)
    page.fill("#until", "2025-01-08")
    page.get_by_role("button", name="apply").click()
    page.wait_for_url("**until=2025-01-08*")
    page.get_by_role("link", name="quiet").click()
    page.wait_for_url("**/streams/quiet-*")
    assert page.input_value("#until") == "2025-01-08"
    assert "8 Jan 2025" in page.inner_text("#live")
    assert "9 Jan 2025" not in page.inner_text("#live")


def test_a_lost_connection_is_said(serving, visit):
    client, (open_page, _) = serving(), visit
    page = open_page(client.server.url)
    linked(page)
    client.server.stop()
    page.locator("body.lost").wait_for()
    assert page.inner_text("#link") == "connection lost"


def test_a_script_in_a_name_is_text(serving, visit):
    client, (open_page, said) = serving(), visit
    page = open_page(client.server.url)
    for stream in client.get("/api/streams").json():
        page.goto(f"{client.server.url}streams/{stream['key']}")
        linked(page)
        assert page.locator("script:not([src])").count() == 0
    assert said == []


def test_a_browser_logs_in(serving, visit):
    from driftline.server import Address

    client, (open_page, _) = serving(address=Address(port=0, token="a token of some length")), visit
    page = open_page(client.server.url)
    page.fill("#token", "a token of some length")
    page.get_by_role("button").click()
    page.get_by_text("5 streams").wait_for()
    linked(page)  # the events need the cookie, too


@pytest.mark.parametrize(("width", "scheme"), [(1300, "light"), (390, "dark")])
def test_nothing_is_wider_than_the_screen_and_axe_finds_nothing_serious(serving, visit, width, scheme):
    if find_spec("axe_playwright_python") is None:
        pytest.skip("axe-playwright-python is not installed")
    from axe_playwright_python.sync_playwright import Axe

    client, (open_page, said) = serving(), visit
    key = next(s["key"] for s in client.get("/api/streams").json() if s["name"] == "alarm")
    for path in ("", f"streams/{key}", "login"):
        # axe itself is an inline script, which our policy does not let in
        page = open_page(f"{client.server.url}{path}", width, scheme, bypass_csp=True)
        until(lambda page=page: page.evaluate("document.readyState") == "complete")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page).response["violations"]
        grave = [v for v in found if v["impact"] in ("serious", "critical")]
        assert grave == [], [(v["id"], [node["html"][:200] for node in v["nodes"][:3]]) for v in grave]
    assert said == []
