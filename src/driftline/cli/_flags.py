"""Flags of commands, made from settings. All default to None, so that files and defaults can fill them in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import typer

from driftline.monitor import Setting

__all__ = ["with_flags"]


def with_flags(settings: Iterable[Setting]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command a flag for each of the settings, by panel; they arrive in its ``**given``."""
    ordered = sorted(settings, key=lambda each: (0,) if each.panel is None else each.panel.value)

    def with_them(command: Callable[..., int]) -> Callable[..., int]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        # typer reads the parameters of a command from its signature
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[each.replace(kind=each.KEYWORD_ONLY) for each in (*map(_parameter, ordered), *own)]
        )
        return command

    return with_them


def _parameter(each: Setting) -> inspect.Parameter:
    parser = _parser(each) if each.type in (int, float) else None
    kind: Any = list[str] if each.type is tuple else each.type
    shown: dict[str, Any] = {"help": each.full_help, "metavar": each.metavar, "show_default": False}
    if each.panel is None:
        info: Any = typer.Argument(None, **shown)
    else:
        names = [f"{each.flag}/--no-{each.flag[2:]}" if each.type is bool else each.flag]
        names += [] if each.alias is None else [f"--{each.alias}"]
        known = each.known or each.suggested
        completion = _one_of(known) if known else None
        info = typer.Option(
            None, *names, rich_help_panel=each.panel.heading, autocompletion=completion, parser=parser, **shown
        )
    return inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind | None)


def _parser(each: Setting) -> Callable[[str], Any]:
    """Return a function that turns what was typed into a number, or says what it must be."""

    def parse(text: str) -> Any:
        try:
            return each.type(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} must be {each.type_in_words}") from None

    return parse


def _one_of(known: tuple[str, ...]) -> Any:
    """Complete one of these words, or the last of several."""

    def complete(incomplete: str) -> list[str]:
        done, comma, begun = incomplete.rpartition(",")
        return [f"{done}{comma}{word}" for word in known if word.startswith(begun)]

    return complete
