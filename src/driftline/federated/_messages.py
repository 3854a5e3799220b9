"""Messages between a coordinator and its sites: arrays under a JSON header, checked in every part. No pickle.

A message is the bytes of a safetensors file (:mod:`driftline.files`). A question says all that a site needs to know;
an answer names the question by its digest, so that it can belong to no other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from driftline._codec import flatten, restore
from driftline._inputs import Floats
from driftline.files import Array, StateFileError, pack, unpack
from driftline.recursion import (
    ANSWERS,
    Answer,
    Basis,
    Question,
    check_answer,
    check_question,
    join,
    sizes_of,
)

__all__ = [
    "VERSION",
    "Asked",
    "MessageError",
    "fingerprint",
    "merge",
    "read_answer",
    "read_question",
    "relay",
    "write_answer",
    "write_question",
]

VERSION = 4
"""Version of the messages; those of another one are refused."""
_QUESTION, _ANSWER = "driftline-question", "driftline-answer"


class MessageError(ValueError):
    """Error raised for a message that is damaged, of another version, or not what it should be."""


class Asked(NamedTuple):
    """A question as a site receives it: with the round, the names of columns and its digest."""

    question: Question
    round: int
    columns: int
    names: tuple[str, ...] | None
    digest: str


def fingerprint(basis: Basis | None) -> str:
    """Return a short name of the functions that are summed up, the same wherever they are the same."""
    total = hashlib.sha256()
    for name, value in sorted(_flat(basis).items()):
        total.update(f"{name} {value.shape} ".encode() + np.ascontiguousarray(value).tobytes())
    return total.hexdigest()[:16]


def _flat(basis: Basis | None) -> dict[str, Array]:
    """Return the arrays of a basis by name."""
    return {} if basis is None else flatten(basis)[0]


def write_question(question: Question, number: int, columns: int, names: tuple[str, ...] | None) -> bytes:
    """Return a question, the one of this number in its step, as bytes."""
    given = {f"given.{name}": np.asarray(value, dtype=np.float64) for name, value in question.given.items()}
    meta = {
        "format": _QUESTION,
        "version": VERSION,
        "kind": question.kind,
        "round": number,
        "parameters": question.parameters,
        "lag": question.lag,
        "columns": columns,
        "names": None if names is None else list(names),
        "model": fingerprint(question.basis),
        "layout": None if question.basis is None else flatten(question.basis)[1],
    }
    return pack({**_flat(question.basis), **given}, meta)


def read_question(data: bytes) -> Asked:
    """Return the question that bytes hold; raise :class:`MessageError` unless all of it is as it should be."""
    arrays, meta = _unpacked(data, _QUESTION, "the question")
    kind, lag, names = (meta.get(name) for name in ("kind", "lag", "names"))
    number, parameters, columns = (_count(meta, name) for name in ("round", "parameters", "columns"))
    if kind not in ANSWERS:
        raise MessageError(f"the question is of the unknown kind {kind!r}")
    if not (lag is None or lag == 0):
        raise MessageError(f"the question has the unknown lag {lag!r}")
    if names is not None and not (_is_words(names) and len(names) == columns):
        raise MessageError(f"the question does not name its {columns} columns")
    if any(np.isnan(value).any() for name, value in arrays.items() if not name.startswith("given.heap")):
        raise MessageError("the question holds values that are no numbers")
    given = {name.removeprefix("given."): value for name, value in arrays.items() if name.startswith("given.")}
    described = {name: value for name, value in arrays.items() if not name.startswith("given.")}
    basis = None if meta.get("layout") is None else _basis(described, columns, meta["layout"])
    if basis is None and described:
        raise MessageError("the question holds more than it should")
    if meta.get("model") != fingerprint(basis):
        raise MessageError("the question is not about the model that it names")
    if basis is not None and parameters < basis.features.size + 1:
        raise MessageError(f"the question names {parameters} parameters for {basis.features.size} features")
    question = Question(kind, parameters, basis, given, lag)
    try:
        check_question(question, columns)
    except ValueError as error:
        raise MessageError(str(error)) from None
    return Asked(question, number, columns, None if names is None else tuple(names), _digest(data))


def _basis(arrays: Mapping[str, Array], columns: int, layout: Any) -> Basis:
    """Return the basis in a question's arrays."""
    try:
        basis: Basis = restore(Basis, arrays, layout)
    except (ValueError, TypeError) as error:
        raise MessageError(f"the question is wrong: {error}") from None
    if len(basis.standardizer.mean) != columns or not (basis.features.scale > 0.0).all():
        raise MessageError(f"the question has no standardisation of {columns} columns")
    return basis


def write_answer(answer: Answer, asked: Asked, site: str) -> bytes:
    """Return a site's answer as bytes."""
    meta = {
        "format": _ANSWER,
        "version": VERSION,
        "kind": answer.kind,
        "rows": answer.rows,
        "site": site,
        "round": asked.round,
        "model": fingerprint(asked.question.basis),
        "question": asked.digest,
    }
    return pack(answer.sums, meta)


def read_answer(data: bytes, question: bytes, site: str | None = None) -> Answer:
    """Return the answer that bytes hold; raise :class:`MessageError` unless all of it is as it should be.

    Arguments:
        question: bytes of the question that it must belong to.
        site: name of the site that it must be from; None for any.
    """
    asked = read_question(question)
    arrays, meta = _unpacked(data, _ANSWER, "the answer")
    wanted = {
        "question": asked.digest,
        "kind": asked.question.kind,
        "round": asked.round,
        "model": fingerprint(asked.question.basis),
        "site": meta.get("site") if site is None else site,
    }
    for name, value in wanted.items():
        if meta.get(name) != value:
            raise MessageError(f"the answer has {name} {meta.get(name)!r}, and {value!r} was asked")
    answer = Answer(asked.question.kind, _count(meta, "rows"), arrays)
    try:
        check_answer(answer, sizes_of(asked.question, asked.columns))
    except ValueError as error:
        raise MessageError(f"the answer is wrong: {error}") from None
    return answer


def merge(question: bytes, answers: Mapping[str, bytes]) -> Answer:
    """Return the joined answer of sites, in the order of their names: sums over the rows of all of them."""
    names = sorted(answers)
    found = [read_answer(answers[name], question, name) for name in names]
    joined = _marked(found[0], 0)
    for place, further in enumerate(found[1:], 1):
        joined = join(joined, _marked(further, place))
    return joined


def relay(question: bytes, answers: Mapping[str, bytes], site: str) -> bytes:
    """Return the answers of several sites as that of one, for whoever stands between them and a coordinator."""
    return write_answer(merge(question, answers), read_question(question), site)


def _marked(answer: Answer, place: int) -> Answer:
    """Return the answer with the site's place in what names a row."""
    if "outlier" not in answer.sums:
        return answer
    outlier: Floats = answer.sums["outlier"].copy()
    outlier[-1] = place
    return replace(answer, sums={**answer.sums, "outlier": outlier})


def _unpacked(data: bytes, form: str, what: str) -> tuple[dict[str, Array], dict[str, Any]]:
    if not isinstance(data, bytes):
        raise MessageError(f"{what} is not bytes, but {type(data).__name__}")
    try:
        return unpack(data, form, VERSION, what)
    except StateFileError as error:
        raise MessageError(str(error)) from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _count(meta: Mapping[str, Any], name: str) -> int:
    """Return a count of at least 1 from a header."""
    value = meta.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**53:
        raise MessageError(f"the message has {name} {value!r}, which is not a count")
    return value


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)
