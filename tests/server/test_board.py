"""The board: what is made once for all who ask."""

import threading
import time

from driftline.server._board import Texts


def test_a_text_is_made_once_however_many_ask_at_a_time():
    texts, made, found = Texts(), [], []

    def make():
        made.append(1)
        time.sleep(0.1)
        return "text"

    threads = [threading.Thread(target=lambda: found.append(texts.get("key", make))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["text"] * 20
    assert len(made) == 1


def test_only_the_last_are_kept_and_an_error_is_not():
    texts = Texts(most=2)
    for key in "abc":
        assert texts.get(key, lambda key=key: key) == key
    assert texts.get("c", lambda: "other") == "c"
    assert texts.get("a", lambda: "again") == "again"

    def fail():
        raise OSError("gone")

    for _ in range(2):
        try:
            texts.get("d", fail)
        except OSError:
            continue
        raise AssertionError("the error was lost")
    assert texts.get("d", lambda: "back") == "back"
