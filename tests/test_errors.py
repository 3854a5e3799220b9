"""Errors with fields: one template, two spellings, and nothing lost on the way."""

import ast
import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

from driftline._errors import DriftlineError, Message, Option, OptionError, Value, Words
from driftline.monitor import Settings
from driftline.sources import SourceError
from driftline.tables import TableError

SOURCE = Path(__file__).parents[1] / "src" / "driftline"


class Shouted(Words):
    def named(self, name):
        return name.upper()


@pytest.mark.parametrize("kind", [DriftlineError, OptionError, SourceError, TableError])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))])
def test_a_copy_of_an_error_keeps_its_fields(kind, again):
    advice = Message("choose {schema} or name {columns}", schema=Option("schema", "lenient"), columns=Option("columns"))
    error = again(kind("column {column!r}: {advice}", column="{odd}", advice=advice))
    assert type(error) is kind
    assert isinstance(error, ValueError)
    assert str(error) == "column '{odd}': choose schema='lenient' or name columns"
    assert error.args == (str(error),)
    assert error.in_words(Shouted()) == "column '{odd}': choose schema='lenient' or name COLUMNS"
    assert error.fields["column"] == "{odd}"
    assert error.fields["advice"].fields["schema"] == Option("schema", "lenient")


def test_text_without_fields_is_not_a_template():
    for text in ("{file}.csv is empty", 'not a JSON object such as {"a": 1}', "{", "{0}"):
        assert str(SourceError(text)) == text
        assert SourceError(text).in_words(Shouted()) == text
        assert str(SourceError(text).replaced(advice="none")) == text


def test_fields_are_not_templates():
    error = SourceError("{file}: {advice}", file="{advice}", advice="{file}")
    assert str(error) == "{advice}: {file}"
    assert str(error.replaced(advice="rename it")) == "{advice}: rename it"


def test_numbers_are_plain():
    given = Option("run_length", np.float64(0.5)), Option("top", np.int64(3)), Value("level", float("nan"))
    error = OptionError("{a}, {b}, {c}, {d:.2f}", a=given[0], b=given[1], c=given[2], d=1 / 3)
    assert str(error) == "run_length=0.5, top=3, nan, 0.33"


def test_a_wrong_setting_can_be_asked_for():
    with pytest.raises(OptionError) as caught:
        Settings(window=300, level=95)
    assert caught.value.fields["option"] == Option("level", 95)
    with pytest.raises(OptionError) as caught:
        Settings(window=300, persistence=9, run_length=3.0)
    assert caught.value.fields["persistence"] == Option("persistence", 9)


def test_a_template_with_fields_is_not_an_f_string():
    """A name with braces in it would be taken for a field."""
    kinds, found = {"DriftlineError", "Message", "OptionError", "SourceError", "TableError"}, 0
    for path in SOURCE.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
        for call in calls:
            if isinstance(call.func, ast.Name) and call.func.id in kinds and call.keywords:
                assert not isinstance(call.args[0], ast.JoinedStr | ast.BinOp), f"{path.name}:{call.lineno}"
                found += 1
    assert found > 20
