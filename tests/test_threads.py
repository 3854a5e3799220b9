"""BLAS threads: limited inside, restored outside, whatever happens in between and in however many Python threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from driftline import inference, recursion
from driftline._threads import allowed_threads, limited_threads
from driftline.recursion import Policy, StepSettings, _steps

VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def threads() -> set[int]:
    return {int(library["num_threads"]) for library in ThreadpoolController().select(user_api="blas").info()}


def set_threads(libraries: list[Any], numbers: list[int]) -> None:
    for library, number in zip(libraries, numbers, strict=True):
        library.set_num_threads(number)
        library.clear_controlling_thread()  # a thread of a test may want to set them too


@pytest.fixture(autouse=True)
def several(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let BLAS have three threads outside, and the environment say nothing."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [library.get_num_threads() for library in libraries]
    set_threads(libraries, [3] * len(libraries))
    if threads() != {3}:
        pytest.skip("this BLAS has only one thread")
    yield
    set_threads(libraries, before)


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ({}, 1),
        ({"OMP_NUM_THREADS": "4"}, 4),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"MKL_NUM_THREADS": "2"}, 2),
        ({"OPENBLAS_NUM_THREADS": "3", "MKL_NUM_THREADS": "2"}, 3),
        ({"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "5"}, 2),
        ({"OMP_NUM_THREADS": "", "OPENBLAS_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": "many"}, 1),
        ({"OMP_NUM_THREADS": "0"}, 1),
    ],
)
def test_first_variable_counts(given: dict[str, str], allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert allowed_threads() == allowed


def test_limited_inside_restored_outside() -> None:
    with limited_threads():
        assert threads() == {1}
        with limited_threads():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {3}


def test_what_the_user_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with limited_threads():
        assert threads() == {2}
    assert threads() == {3}
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    with limited_threads():
        assert threads() == {3}  # a limit never adds threads


def test_restored_after_an_error() -> None:
    @limited_threads()
    def fails() -> None:
        assert threads() == {1}
        raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            fails()
        assert threads() == {3}


def test_last_thread_lifts_the_limit() -> None:
    first_left, may_leave, inside = threading.Event(), threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def second() -> None:
        with limited_threads():
            inside.set()
            first_left.wait(10)
            seen.append(threads())
            may_leave.wait(10)

    other = threading.Thread(target=second)
    with limited_threads():
        other.start()
        assert inside.wait(10)
    first_left.set()
    assert threads() == {1}  # the other one is still at work
    may_leave.set()
    other.join()
    assert seen == [{1}]
    assert threads() == {3}


def test_many_threads() -> None:
    wrong: list[set[int]] = []

    def work() -> None:
        for _ in range(20):
            with limited_threads():
                if threads() != {1}:
                    wrong.append(threads())

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert threads() == {3}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_limited() -> None:
    with limited_threads():
        child = os.fork()
        if child == 0:  # without the rest of pytest
            os._exit(0 if threads() == {3} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert threads() == {1}


def test_limits_of_the_caller_stay() -> None:
    with threadpool_limits(2, user_api="blas"):
        with limited_threads():
            assert threads() == {1}
        assert threads() == {2}
    assert threads() == {3}


def test_steps_and_questions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, set[int]] = {}

    def spied(where: Any, name: str) -> None:
        real = getattr(where, name)

        def spy(*args: Any, **kwargs: Any) -> Any:
            seen[name] = threads()
            return real(*args, **kwargs)

        monkeypatch.setattr(where, name, spy)

    spied(_steps, "fit_standardizer")
    spied(_steps, "log_linear_step")
    spied(inference, "read_divergence")
    rng = np.random.default_rng(0)
    settings = StepSettings(model="auto", seed=0)
    state = recursion.start(rng.normal(size=(500, 4)), settings)
    state, _ = recursion.step(state, {"original": rng.normal(0.3, 1.0, (500, 4))}, settings, Policy())
    recursion.divergence(state.tracks["original"], "reverse_kl", 0.95, of_step=False)
    assert seen == {"fit_standardizer": {1}, "log_linear_step": {1}, "read_divergence": {1}}
    assert threads() == {3}
