"""The page in a real browser: no console errors, nothing wider than the screen, light and dark."""

import html
import re
import shutil
import subprocess

import pytest

from driftline.report._page import render

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.full, pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")]
DARK = "--blink-settings=preferredColorScheme=0"


def browse(folder, text, *options):
    """Return the browser's console messages about a page, and the page after it was shown."""
    page = folder / "page.html"
    page.write_text(text, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"]
    base = [BROWSER, *flags, f"--user-data-dir={folder / 'profile'}", "--window-size=1200,900"]
    done = subprocess.run(
        [*base, *options, page.as_uri()], capture_output=True, text=True, timeout=120, check=True, encoding="utf-8"
    )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return said, done.stdout


def shown(folder, text, *options):
    said, _ = browse(folder, text, f"--screenshot={folder / 'shot.png'}", *options)
    assert said == []
    from matplotlib.image import imread

    return imread(folder / "shot.png")


@pytest.fixture(scope="module")
def pages(cases):
    return {name: render(run) for name, run in cases.items()}


def test_the_console_is_heard(tmp_path):
    assert browse(tmp_path, "<script>console.error('hello')</script>", "--dump-dom")[0]


@pytest.mark.figures
def test_light_and_dark_without_console_errors(pages, tmp_path):
    light = shown(tmp_path, pages["several"])
    dark = shown(tmp_path, pages["several"], DARK)
    assert light.shape[:2] == dark.shape[:2] == (900, 1200)
    assert light[:5, :5, :3].min() > 0.9  # the page behind everything
    assert dark[:5, :5, :3].max() < 0.15
    # text and lines stand out from the background
    assert light[..., :3].min() < 0.2
    assert dark[..., :3].max() > 0.85


MEASURE = """
const rows = [...document.querySelectorAll('iframe')].map(f => {
  const d = f.contentDocument, seen = e => e.getClientRects().length > 0;
  const many = name => [...d.querySelectorAll(name)].filter(seen).length;
  const beyond = [...d.querySelectorAll('body *')].filter(
    e => seen(e) && !e.closest('.scroll, pre, svg, .tab') && e.getBoundingClientRect().right > f.clientWidth + 1);
  const shown = () => [...d.querySelectorAll('.panel')].filter(seen).map(e => e.id || 'only').join('+');
  const row = [d.documentElement.scrollWidth, many('.wide'), many('.narrow'), beyond.length, shown()];
  const last = [...d.querySelectorAll('label')].pop();
  if (last) last.click();
  return [...row, shown()].join(' ');
});
document.body.setAttribute('data-found', rows.join(','));
"""


def measured(folder, texts):
    """Show pages in frames and measure each: width of its content, numbers of wide and narrow charts and of elements
    beyond the edge, panels shown first, and panels shown by the last tab.
    """
    frames = "".join(
        f'<iframe srcdoc="{html.escape(text)}" style="width:{width}px;height:600px;border:0"></iframe>'
        for text, width in texts
    )
    page = f"<!DOCTYPE html><body>{frames}<script>window.onload = () => {{{MEASURE}}}</script>"
    # what the console says is asked of whole pages above: in a frame, chromium now and then blocks a style of its own
    _, dom = browse(folder, page, "--dump-dom", "--virtual-time-budget=5000")
    rows = re.search(r'data-found="([^"]*)"', dom)[1].split(",")
    return [(*map(int, row.split(" ")[:4]), *row.split(" ")[4:]) for row in rows]


def test_nothing_is_wider_than_the_screen_and_tabs_work(pages, tmp_path):
    texts = [(text, 400) for text in pages.values()] + [(pages[name], 1100) for name in ("weekly", "extreme")]
    found = measured(tmp_path, texts)
    for name, row in zip(pages, found, strict=False):
        assert (name, row[0], row[1], row[3]) == (name, 400, 0, 0)
    assert [row[:4] for row in found[-2:]] == [(1100, 3, 0, 0), (1100, 3, 0, 0)]
    by_name = dict(zip(pages, found, strict=False))
    assert by_name["weekly"][2:] == (3, 0, "only", "only")
    assert by_name["several"][2:] == (3, 0, "p0", "p1")


def test_a_page_that_is_too_wide_would_be_noticed(pages, tmp_path):
    text = pages["weekly"].replace("<main>", '<main><hr width="700">')
    (reach, _, _, beyond, *_), *_ = measured(tmp_path, [(text, 400)])
    assert reach > 400
    assert beyond > 0


def test_it_prints(pages, tmp_path):
    said, _ = browse(tmp_path, pages["several"], f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    assert said == []
    data = (tmp_path / "page.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert len(re.findall(rb"/Type /Page\b", data)) >= 4  # both originals
