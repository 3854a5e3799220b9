import time

import pytest

from tests.server import made


@pytest.fixture
def folder(tmp_path):
    """Folder of five trackers: quiet, in alarm with two originals, without times, broken, and one with a bad name."""
    made.write(tmp_path / "quiet.driftline", made.quiet())
    alarm = [made.began(), made.record(1, 0.02), made.record(2, 0.4), made.began(2, "later")]
    alarm += [made.record(3, 0.5), made.record(3, 0.02, original="later")]
    made.write(tmp_path / "alarm.driftline", alarm, ("original", "later"))
    made.write(tmp_path / "untimed.driftline", made.quiet(timed=False))
    made.write(tmp_path / f"{made.NASTY.replace('/', '')}.driftline", made.quiet(5))
    (tmp_path / "broken.driftline").write_bytes(b"this is not a database" * 50)
    return tmp_path


def until(condition, seconds=20.0):
    """Wait until a condition holds; return what it returned."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@pytest.fixture
def serving(folder):
    """Function that serves the folder, on a real socket, and returns a client of it."""
    import httpx

    from driftline.server import Address, Background

    opened = []

    def start(places=(folder,), address=None, **options):
        server = Background(list(places), address or Address(port=0), poll=0.05)
        server.__enter__()
        client = httpx.Client(base_url=server.url, timeout=30.0, **options)
        opened.extend([client.close, server.stop])
        client.server = server
        until(lambda: client.get("/readyz").status_code == 200)
        return client

    yield start
    for close in opened:
        close()
