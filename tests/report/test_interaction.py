"""The page in the hands of a reader, in a real browser: point, drag, keys, search, order, open; then swap it."""

import importlib.util
import re
import shutil

import pytest

from driftline.report import fragment, render

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HAS = importlib.util.find_spec("playwright") is not None
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine"),
    pytest.mark.skipif(not HAS, reason="playwright is not installed"),
]
WIDE = (1300, 900)
PHONE = (390, 844)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        found = tool.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


@pytest.fixture
def show(browser, tmp_path):
    """Return a function that shows a page; when the test ends, the console must have been silent."""
    said, contexts = [], []

    def shown(text, size=WIDE, **options):
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield shown
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture(scope="module")
def many(runs):
    return runs.wide(40, 60)


def chart(page):
    return page.locator(".wide svg.chart").first


def view(page):
    return [float(v) for v in chart(page).locator("svg.plot").get_attribute("viewBox").split()]


def dragged(page, start, end):
    box = chart(page).bounding_box()
    y = box["y"] + 0.5 * box["height"]
    page.mouse.move(box["x"] + start * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], y, steps=5)
    page.mouse.up()


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        (WIDE, "light"),
        (PHONE, "dark"),
        pytest.param(WIDE, "dark", marks=pytest.mark.slow),
        pytest.param(PHONE, "light", marks=pytest.mark.slow),
    ],
)
def test_no_sideways_scrolling(show, cases, many, size, scheme):
    for run in (many, cases["extreme"], cases["several"]):
        page = show(render(run), size, color_scheme=scheme)
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_pointing_says_the_numbers(show, many):
    page = show(render(many))
    box = chart(page).bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.5 * box["height"])
    said = page.locator(".tip").inner_text()
    window = int(re.match(r"Window (\d+): ", said)[1])
    assert f"{many.records[window].drift.value:.3f}"[:4] in said
    page.mouse.move(2, 2)
    assert page.locator(".tip").is_hidden()


def test_dragging_zooms_all_charts_and_a_double_click_shows_all(show, many):
    page = show(render(many))
    before, label = view(page), chart(page).locator(".ticks text").all_inner_texts()
    dragged(page, 0.4, 0.7)
    after = view(page)
    assert after[2] < 0.4 * before[2]
    views = page.locator("svg.plot").evaluate_all(
        "all => all.map(e => e.viewBox.baseVal.width / e.width.baseVal.value)"
    )
    assert max(views) - min(views) < 1e-6  # every chart, also those of columns, shows the same windows
    assert chart(page).locator(".ticks text").all_inner_texts() != label
    # what is pointed at in the middle of the zoomed chart is in the middle of what was dragged
    box = chart(page).bounding_box()
    page.mouse.move(box["x"] + 0.52 * box["width"], box["y"] + 0.5 * box["height"])
    window = int(re.match(r"Window (\d+)", page.locator(".tip").inner_text())[1])
    assert abs(window - 0.52 * 60) < 4
    chart(page).dblclick()
    assert view(page) == before
    assert chart(page).locator(".ticks text").all_inner_texts() == label


def test_keys_read_zoom_and_reset(show, many):
    page = show(render(many))
    chart(page).focus()
    page.keyboard.press("End")
    last = page.locator(".tip").inner_text()
    assert last.startswith("Window 59: ")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".tip").inner_text().startswith("Window 58: ")
    before = view(page)
    page.keyboard.press("+")
    assert view(page)[2] < before[2]
    assert page.get_by_role("button", name="Show all windows").is_visible()
    page.keyboard.press("Escape")
    assert view(page) == before
    assert page.locator(".reset").is_hidden()


def test_search_finds_quiet_columns_too(show, many):
    page = show(render(many))
    quiet = page.locator(".all-columns > .quiet")
    assert quiet.get_attribute("open") is None
    page.get_by_label("Search columns").fill("TURE_03")
    shown = page.locator(".column:visible summary bdi").all_inner_texts()
    assert sorted(shown) == [f"feature_03{k}" for k in range(10)]
    assert page.locator(".count").inner_text() == "10 of 40 columns"
    page.get_by_label("Search columns").fill("")
    assert page.locator(".column:not([hidden])").count() == 40


def test_order(show, many):
    page = show(render(many))
    page.locator(".all-columns > .quiet > summary").click()

    def ordered(name):
        page.get_by_label("Order of columns").select_option(name)
        return page.locator(".quiet .column summary bdi").all_inner_texts()

    last = many.records[-1]
    moved = {m.column for m in last.columns}
    quiet = {name: m for name, m in last.marginals.items() if name not in moved}
    assert ordered("name") == sorted(quiet)
    drifts = [quiet[name].drift for name in ordered("own divergence")]
    assert drifts == sorted(drifts, reverse=True)
    chances = [quiet[name].chance for name in ordered("least likely (p-value)")]
    assert chances == sorted(chances)
    # those that moved stay together, in front
    assert set(page.locator(".columns.moved bdi").all_inner_texts()) == moved


def test_a_columns_history_opens(show, many):
    page = show(render(many))
    page.get_by_label("Search columns").fill("feature_020")
    row = page.locator(".column:visible")
    assert row.locator("svg.chart").is_hidden()
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    assert row.locator("svg.chart").is_visible()
    assert row.locator("svg.bins").is_visible()
    row.locator("svg.chart").focus()
    page.keyboard.press("End")
    said = page.locator(".tip").inner_text()
    assert said.startswith("Window 59: ")
    assert "its test is silent" in said
    assert "missing 29.5 %" in said
    assert "missing, up to 30 %" in row.locator("svg.chart").text_content().replace("\xa0", " ")


def test_without_script_everything_is_there(show, many):
    page = show(render(many), java_script_enabled=False)
    assert page.locator(".column").count() == 40
    assert page.locator("select").count() == 0
    page.locator(".all-columns > .quiet > summary").click()
    page.locator(".quiet .column summary").first.click()
    assert page.locator(".quiet .column svg.chart").first.is_visible()


def test_what_was_chosen_survives_a_swap(show, runs, many):
    page = show(render(many))
    page.get_by_label("Search columns").fill("feature_02")
    page.get_by_label("Order of columns").select_option("name")
    page.locator(".column:visible summary").last.click()
    dragged(page, 0.4, 0.7)
    before = view(page)
    swap = """text => {
      document.querySelector("main").parentElement.innerHTML = text;
      driftline.enhance(document);
      driftline.enhance(document);
    }"""
    page.evaluate(swap, fragment(many))
    assert page.locator(".tools").count() == 1
    assert page.get_by_label("Search columns").input_value() == "feature_02"
    assert page.locator(".column:visible").count() == 10
    assert page.locator(".column:visible[open] bdi").all_inner_texts() == ["feature_029"]
    assert view(page) == pytest.approx(before, rel=1e-6)


def test_names_are_never_read_as_markup(show, runs):
    page = show(render(runs.extreme()))
    page.evaluate("() => { window.alert = () => console.error('alert'); }")
    page.get_by_label("Search columns").fill("<script")
    assert page.locator(".column:visible").count() == 1
    for svg in page.locator("svg.chart:visible").all()[:4]:
        svg.focus()
        page.keyboard.press("End")
    assert page.locator("script").count() == 1


@pytest.mark.parametrize(
    ("size", "scheme"), [(WIDE, "light"), (PHONE, "dark"), pytest.param(WIDE, "dark", marks=pytest.mark.slow)]
)
def test_axe_finds_no_serious_problem(show, runs, size, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    # the page's policy keeps other scripts out; axe needs to be one
    page = show(render(runs.run(runs.weekly(40))), size, color_scheme=scheme, bypass_csp=True)
    found = axe.Axe().run(page).response["violations"]
    grave = [
        (v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found if v["impact"] in ("serious", "critical")
    ]
    assert grave == []


def test_axe_would_find_one(show, runs):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    text = render(runs.run([runs.original()])).replace("<main>", '<main><img src="data:,">')
    found = axe.Axe().run(show(text, bypass_csp=True)).response["violations"]
    assert "image-alt" in {v["id"] for v in found}
