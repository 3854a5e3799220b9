"""Take the pictures of README and docs from the running program, at two pixels per CSS pixel: ``make screenshots``.

The report is the demo's; the dashboard shows it beside three made-up streams. Needs chromium
(``apt-get install chromium``).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console

from driftline import Monitor
from driftline.cli._demo import run, tracker_of
from driftline.server import Address, Background
from driftline.synthetic import Shop

FIGURES = Path(__file__).parent / "figures"


def main() -> None:
    """Write every picture to docs/figures."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no chromium on this machine: apt-get install chromium")
    # in a folder of its own: the pages show the paths they were given
    with tempfile.TemporaryDirectory() as name, chdir(name), sync_playwright() as playwright:
        make_streams(Path("streams"))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        take_report(browser, Path("driftline-demo/report.html").resolve().as_uri())
        with Background([Path("streams")], Address(port=0)) as server:
            for width, height in ((1300, 800), (390, 800)):
                for scheme in ("light", "dark"):
                    take_dashboard(browser, server.url, (width, height), scheme)
        browser.close()


def make_streams(streams: Path) -> None:
    """Run the demo and two made-up streams; put their trackers and one broken file into the folder."""
    streams.mkdir()
    run("driftline-demo", Shop(), Console(file=StringIO()))
    shutil.copy(tracker_of("driftline-demo"), streams / "shop.driftline")
    (streams / "returns.driftline").write_bytes(b"not a database" * 100)
    rng = np.random.default_rng(0)
    for name, drift in (("sensors", 0.02), ("sign-ups", 0.0)):
        with Monitor(streams / f"{name}.driftline", window=2000, tolerance=0.1) as monitor:
            frames = (pd.DataFrame(rng.normal(drift * t, 1.0, (2000, 4)), columns=list("abcd")) for t in range(26))
            for _ in monitor.watch(frames):
                pass


def take_report(browser: Browser, url: str) -> None:
    """Take the first screen of the report, and one column's history."""
    with opened(browser, url, (1040, 945), "light") as page:
        save(page.screenshot(), "report-page")
        column = page.locator("details.column", has_text="amount").first
        column.evaluate("element => { element.open = true }")
        save(column.screenshot(), "report-column")


def take_dashboard(browser: Browser, url: str, size: tuple[int, int], scheme: str) -> None:
    """Take the overview and the page of one stream."""
    with opened(browser, url, size, scheme) as page:
        stream = page.locator("a[href*='streams/shop']").first
        stream.wait_for()
        save(page.screenshot(), f"serve-overview-{size[0]}-{scheme}")
        stream.click()
        page.locator("body.linked").wait_for()
        page.get_by_role("heading").first.wait_for()
        save(page.screenshot(), f"serve-stream-{size[0]}-{scheme}")


@contextmanager
def opened(browser: Browser, url: str, size: tuple[int, int], scheme: str) -> Iterator[Page]:
    """Open a page in a window of this size."""
    viewport = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, device_scale_factor=2)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    yield page
    context.close()


def save(png: bytes, name: str) -> None:
    """Write a picture with 256 colours, a third of the bytes at the same looks."""
    image = Image.open(BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(FIGURES / f"{name}.png", optimize=True)
    print(f"docs/figures/{name}.png")


if __name__ == "__main__":
    main()
