"""Flags: made from settings, so that a new setting is written in one place."""

import inspect
import subprocess
import sys

import pytest

from driftline.cli._commands import compare, watch
from driftline.cli._options import OPTIONS, FailOn, Plan, WebhookOn, configured
from driftline.monitor import Settings, settings_of

TOML = {
    int: "7",
    float: "0.5",
    str: '"word"',
    bool: "true",
    tuple: '["a", "b"]',
    FailOn: '"alarm"',
    WebhookOn: '"alarm"',
}

PATIENCE = """
import sys
from dataclasses import dataclass
from pathlib import Path
from driftline.monitor import _settings
from driftline.monitor._fields import Panel, at_least, setting

@dataclass(frozen=True)
class Settings(_settings.Settings):
    patience: int = setting(
        3, help="Windows to wait.", panel=Panel.ALARMS, metavar="WINDOWS", check=at_least(1), changeable=True
    )

_settings.Settings = Settings

from driftline.cli import run
from driftline.cli._options import plan_of
from driftline.monitor import Monitor

assert run(["watch", "--help"]) == 0
assert run(["compare", "--help"]) == 0
assert run(["watch", "a.csv", "--window", "300", "--patience", "0"]) == 2
config = Path(sys.argv[1])
config.write_text("patience = 'long'")
assert run(["watch", "a.csv", "--window", "300", "--config", str(config)]) == 2
config.write_text("patience = 5")
settings = plan_of({"source": "a.csv", "window": 300}, str(config)).settings
assert settings == {"window": 300, "patience": 5}
assert Monitor(**settings).settings.patience == 5
"""


def python(code, *arguments):
    """Run the code in a process of its own, which has imported nothing; return what it printed, and its errors."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("command", "settings", "own"),
    [
        (watch, OPTIONS, {"config"}),
        (
            compare,
            {name: each for name, each in settings_of(Settings).items() if not each.for_streams},
            {"a", "b", "format", "json", "fail_on"},
        ),
    ],
)
def test_a_command_has_a_flag_for_each_setting(command, settings, own):
    found = dict(inspect.signature(command).parameters)
    assert set(found) == {*settings, *own}
    for name, each in settings.items():
        assert found[name].annotation == (list[str] if each.type is tuple else each.type) | None
        assert found[name].default.default is None  # the file, or else the field, fills it in
        assert found[name].default.help == each.full_help


def test_settings_and_options_have_names_of_their_own():
    assert not set(settings_of(Settings)) & set(settings_of(Plan))


@pytest.mark.parametrize("each", OPTIONS.values(), ids=lambda each: each.name)
def test_a_file_has_a_key_for_each_setting(tmp_path, each):
    path = tmp_path / "a.toml"
    path.write_text(f"{each.flag[2:]} = {TOML[each.type]}")
    value = configured(path)[each.name]
    assert type(value) is each.type
    path.write_text(f"{each.name} = 1979-05-27")
    with pytest.raises(ValueError, match=f"{each.name} = .* must be "):
        configured(path)


def test_a_new_setting_is_written_in_one_place(tmp_path):
    """Its flag, its key in TOML files, its checks and its place in messages come from the field alone."""
    out, err = python(PATIENCE, tmp_path / "a.toml")
    lines = [line.strip("│ ") for line in out.splitlines() if "patience" in line]
    assert [line.split() for line in lines[:1]] == [
        ["--patience", "WINDOWS", "Windows", "to", "wait.", "(default:", "3)"]
    ]
    assert len(lines) == 2  # in both commands
    assert err.splitlines() == [
        "driftline: --patience 0 must be a whole number of at least 1",
        f'driftline: {tmp_path / "a.toml"}: patience = "long" must be a whole number',
    ]


def test_help_does_not_wait_for_large_packages():
    code = (
        "import sys; from driftline.cli import run\n"
        "for command in ([], ['watch'], ['compare']): assert run([*command, '--help']) == 0\n"
        "found = {'torch', 'scipy', 'sklearn', 'pyarrow', 'matplotlib'} & set(sys.modules); assert not found, found"
    )
    python(code)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("--model quad", "quadratic"),
        ("--divergences kl,hel", "kl,hellinger"),
        ("--format par", "parquet"),
        ("--fail-on al", "alarm"),
    ],
)
def test_known_values_are_completed(monkeypatch, capsys, words, completed):
    from driftline.cli import run

    monkeypatch.setenv("_DRIFTLINE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"driftline watch {words}")
    monkeypatch.setenv("COMP_CWORD", "3")
    with pytest.raises(SystemExit):
        run([])
    assert completed in capsys.readouterr().out.split()
