"""Take the pictures of README and docs from the running program, at two pixels per CSS pixel: ``make screenshots``.

The report is the demo's; the dashboard shows it beside three made-up streams. Needs chromium
(``apt-get install chromium``).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import httpx
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
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        streams = make_streams(Path(name))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        take_report(browser, (Path(name) / "shop" / "report.html").as_uri())
        with Background([streams], Address(port=0)) as server:
            for width, height in ((1300, 800), (390, 800)):
                for scheme in ("light", "dark"):
                    take_dashboard(browser, server.url, (width, height), scheme)
        browser.close()


def make_streams(folder: Path) -> Path:
    """Run the demo and two made-up streams; return the folder with their trackers and one broken file."""
    streams = folder / "streams"
    streams.mkdir()
    run(folder / "shop", Shop(), Console(quiet=True))
    shutil.copy(tracker_of(folder / "shop"), streams / "shop.driftline")
    (streams / "returns.driftline").write_bytes(b"not a database" * 100)
    rng = np.random.default_rng(0)
    for name, drift in (("sensors", 0.02), ("sign-ups", 0.0)):
        with Monitor(streams / f"{name}.driftline", window=2000, tolerance=0.1) as monitor:
            frames = (pd.DataFrame(rng.normal(drift * t, 1.0, (2000, 4)), columns=list("abcd")) for t in range(26))
            for _ in monitor.watch(frames):
                pass
    return streams


def take_report(browser: Browser, url: str) -> None:
    """Take the first screen of the report, and one column's history."""
    with opened(browser, url, (1300, 900), "light") as page:
        save(page.screenshot(), "report-page")
        column = page.locator("details.column", has_text="amount").first
        column.locator("summary").click()
        save(column.screenshot(), "report-column")


def take_dashboard(browser: Browser, url: str, size: tuple[int, int], scheme: str) -> None:
    """Take the overview and the page of one stream."""
    httpx.get(f"{url}/readyz").raise_for_status()
    for name, path in (("overview", "/"), ("stream", "/streams/shop")):
        with opened(browser, url + path, size, scheme) as page:
            page.locator("body.linked").wait_for()
            save(page.screenshot(), f"serve-{name}-{size[0]}-{scheme}")


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
