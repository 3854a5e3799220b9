"""Settings: each is written once, and documentation, checks and arguments agree with it.

``python tests/monitor/test_settings.py`` renews the table in docs/monitor.md.
"""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from driftline.monitor import Monitor, Settings, settings_of

PAGE = Path(__file__).parents[2] / "docs" / "monitor.md"
BEGIN, END = "<!-- begin settings -->\n", "<!-- end settings -->\n"
SETTINGS = settings_of(Settings)


def table():
    """Return the rows of the documentation's table, in the order of the help."""
    yield "| setting | default | meaning | may change |"
    yield "|---|---|---|---|"
    for each in sorted(SETTINGS.values(), key=lambda each: each.panel.value):
        words = (marked(each.default_in_words) or "–", marked(each.help), "yes" if each.changeable else "no")
        yield f"| `{each.flag}` | {' | '.join(words)} |"


def marked(text):
    """Return the text with its flags as code."""
    return re.sub(r"--[a-z-]+", r"`\g<0>`", text)


def renewed(page):
    """Return the page with the table that the fields give."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n" + "".join(f"{row}\n" for row in table()) + "\n" + END + after


def test_the_page_has_the_table_that_the_fields_give():
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), "renew it: python tests/monitor/test_settings.py"


def test_every_field_is_a_setting():
    assert list(SETTINGS) == [field.name for field in fields(Settings)]


@pytest.mark.parametrize("each", SETTINGS.values(), ids=lambda each: each.name)
def test_a_setting_is_complete(each):
    assert each.help.endswith(".")
    assert each.panel is not None
    assert each.metavar is not None or each.type is bool
    assert each.default is None or type(each.default) is each.type
    assert f"        {each.name}: " in Settings.__doc__
    chosen = each.default if each.type is tuple else () if each.default is None else (each.default,)
    assert not each.known or set(chosen) <= set(each.known)


def test_arguments_of_a_monitor_are_the_settings():
    settings = Settings(window=300, drop=("a",))
    assert Monitor(**settings.to_dict()).settings == settings
    with pytest.raises(ValueError, match=f"'size' is not a setting: known are {', '.join(SETTINGS)}$"):
        Monitor(window=300, size=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"level": None}, "level=None must lie between 0 and 1"),
        ({"level": 1.0}, "level=1.0 must lie between 0 and 1"),
        ({"top": -1}, "top=-1 must be a whole number of at least 0"),
        ({"seed": 0.5}, "seed=0.5 must be a whole number of at least 0"),
        ({"schema": None}, "schema: None is unknown, choose from strict, lenient"),
        ({"datetime": ["hour", "year"]}, "datetime: 'year' is unknown, choose from hour, weekday, day, month"),
        ({"divergences": ()}, "divergences is empty: the alarm looks at the first one"),
        ({"columns": ("a", 1)}, r"columns=\('a', 1\) must be names"),
        (
            {"numeric": "a", "categorical": "a"},
            "column 'a' cannot be in both numeric and categorical: leave it out of one",
        ),
        ({"columns": "a", "drop": "a"}, "column 'a' cannot be in both columns and drop: leave it out of one"),
        ({"every": "1d"}, "window=300 rows and windows by time exclude each other"),
        ({"tolerance": -1.0}, "tolerance=-1.0 must be a number of nats"),
        ({"tolerance": None}, "tolerance=None must be a number"),
        ({"run_length": "x"}, "run_length='x' must be a number"),
        ({"summaries": "no"}, "summaries='no' must be true or false"),
        ({"lateness": 3}, "lateness=3 must be text"),
        ({"top": True}, "top=True must be a whole number"),
        ({"drop": 3}, "drop=3 must be names"),
        ({"divergences": None}, "divergences=None must be names"),
    ],
)
def test_a_value_that_cannot_be_right_is_refused(given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        Settings(**{"window": 300} | given)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
