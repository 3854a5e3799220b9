"""Errors made of fields: one template gives the words of Python, and those of the command line.

A message that names an option holds it as a field, so nobody has to look for it in the text:

>>> error = OptionError("column {column!r} is text: choose {schema}", column="age", schema=Option("schema", "lenient"))
>>> str(error)
"column 'age' is text: choose schema='lenient'"
>>> error.fields["schema"]
Option(name='schema', value='lenient')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from string import Formatter
from typing import Any, Final, Self

__all__ = ["DriftlineError", "Message", "Option", "OptionError", "Value", "Words"]


class _NotGiven:
    """Stands for the value of an option that is only named."""

    def __repr__(self) -> str:
        return "not given"

    def __reduce__(self) -> str:
        return "_NOT_GIVEN"  # one object, also in copies


_NOT_GIVEN: Final = _NotGiven()


@dataclass(frozen=True)
class Option:
    """An option in a message: only its name, or its name with a value."""

    name: str
    value: Any = _NOT_GIVEN


@dataclass(frozen=True)
class Value:
    """A value in a message, without the name of the option that it belongs to."""

    name: str
    value: Any


class Words:
    """Spelling of options: here that of Python; another language of options is a subclass.

    >>> words = Words()
    >>> words.named("run_length"), words.given("every", "1d"), words.value("every", "1d")
    ('run_length', "every='1d'", "'1d'")
    """

    def named(self, name: str) -> str:
        """Spell an option without a value."""
        return name

    def given(self, name: str, value: Any) -> str:
        """Spell an option with its value."""
        return f"{name}={self.value(name, value)}"

    def value(self, name: str, value: Any) -> str:
        """Spell the value of an option whose name has been mentioned."""
        return str(value) if isinstance(value, Real) else repr(value)  # NumPy's numbers as plain ones


class Message:
    """Text with fields; those that are options, values or messages are spelt in the words that are asked for.

    Arguments:
        template: text with fields in braces, as for :meth:`str.format`; taken as it is if there are no fields.
        fields: what stands in the braces.

    >>> str(Message("{option} must be a number, not {other!r}", option=Option("top", "x"), other="x"))
    "top='x' must be a number, not 'x'"
    >>> str(Message("{braces} in the name of a file"))
    '{braces} in the name of a file'
    """

    def __init__(self, template: str, /, **fields: Any) -> None:
        self.template = template
        self.fields: Mapping[str, Any] = fields

    def __str__(self) -> str:
        return self.in_words(Words())

    def in_words(self, words: Words) -> str:
        """Return the text, with options spelt in these words."""
        return _Speller(words).vformat(self.template, (), self.fields) if self.fields else self.template

    @classmethod
    def join(cls, separator: str, parts: Iterable[Message]) -> Self:
        """Join messages with text between them.

        >>> str(Message.join("; ", [Message("a"), Message("{b}", b=2)]))
        'a; 2'
        """
        fields = {f"part_{i}": part for i, part in enumerate(parts)}
        return cls(separator.join(f"{{{name}}}" for name in fields), **fields)


class _Speller(Formatter):
    """Formatter of templates that spells options in given words."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Message):
            return value.in_words(self._words)
        if isinstance(value, Value):
            return self._words.value(value.name, value.value)
        if isinstance(value, Option):
            named = value.value is _NOT_GIVEN
            return self._words.named(value.name) if named else self._words.given(value.name, value.value)
        return format(value, format_spec)


class DriftlineError(ValueError):
    """Error whose message is a template with fields, see :class:`Message`; its text is in the words of Python.

    Attributes:
        message: template and fields.
    """

    def __init__(self, template: str, /, **fields: Any) -> None:
        self.message = Message(template, **fields)
        super().__init__(str(self.message))

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of the message, such as options, columns, numbers and advice."""
        return self.message.fields

    def in_words(self, words: Words) -> str:
        """Return the message, with options spelt in these words."""
        return self.message.in_words(words)

    def replaced(self, **fields: Any) -> Self:
        """Return the same error with other values in these fields; those that it does not have are left out.

        >>> error = DriftlineError("{file}: unknown format; {advice}", file="a.xls", advice="say which")
        >>> str(error.replaced(advice="name it .csv", column="x"))
        'a.xls: unknown format; name it .csv'
        """
        known = {name: value for name, value in fields.items() if name in self.fields}
        return type(self)(self.message.template, **{**self.fields, **known})


class OptionError(DriftlineError):
    """Option with a value that cannot be right, or that does not go with the others."""
