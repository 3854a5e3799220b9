"""Messages: each part of them is checked, and nothing is believed that does not fit."""

import warnings

import numpy as np
import pytest
from safetensors.numpy import load

from driftline import ContinualDensityRatio, UntrustedEstimateWarning
from driftline.federated import VERSION, Coordinator, MessageError, Site, SiteError, merge
from driftline.federated._messages import read_answer, read_question, write_answer, write_question
from driftline.files import pack, unpack
from driftline.recursion import ANSWERS, Answer, RowsWithheldError, answer, join

LEARNING = ("levels", "look", "rest", "near", "level")  # kinds that only auto asks


@pytest.fixture(scope="module")
def exchanged():
    """Questions and answers of an original and a step, by kind; the frame moves, so that all kinds are there."""
    rng, found = np.random.default_rng(0), {}

    def ways(x):
        site = Site(x, "all")

        def way(question):
            sent = site.answer(question)
            found[read_question(question).question.kind] = question, sent
            return sent

        return {"all": way}

    rows = rng.normal(size=(2000, 2))
    rows[:700] += 7.0  # clusters, which auto has features of
    rows[:, 1] = np.exp(0.2 * rows[:, 1])  # and a column far from normal
    rng.shuffle(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UntrustedEstimateWarning)
        fixed = ContinualDensityRatio(model="auto", keep="sums", random_state=0).fit(rows)
        Coordinator.of(fixed).begin(ways(rows)).step(ways(rows + 0.1))
        run = Coordinator(2, "quadratic").begin(ways(rng.normal(size=(2000, 2))))
        learning = {kind: found[kind] for kind in LEARNING}
        assert read_question(learning["look"][0]).question.basis.features.others
        run.step(ways(rng.normal(1.3, 1.0, (2000, 2))))
    return {**found, **learning}


def test_every_kind_of_message_is_sent_and_documented(exchanged):
    from pathlib import Path

    assert set(exchanged) == set(ANSWERS)
    page = (Path(__file__).parents[2] / "docs" / "federated.md").read_text(encoding="utf-8")
    for kind, fields in ANSWERS.items():
        assert f"| `{kind}` |" in page
        for name, field in fields.items():
            if not name.startswith(("all_", "step_")):
                assert f"`{name}`" in page, (kind, name)
            assert field.what


@pytest.mark.parametrize("kind", ANSWERS)
def test_messages_are_plain_arrays_under_a_plain_header(exchanged, kind):
    question, sent = exchanged[kind]
    assert set(load(sent)) == set(ANSWERS[kind])
    assert read_answer(sent, question, "all").rows == 2000
    asked = read_question(question)
    again = write_question(asked.question, asked.round, asked.columns, asked.names)
    assert again == question
    assert write_answer(read_answer(sent, question), asked, "all") == sent


@pytest.mark.parametrize("kind", ANSWERS)
def test_answers_that_do_not_fit_are_refused(exchanged, kind):
    question, sent = exchanged[kind]
    arrays, meta = unpack(sent, "driftline-answer", VERSION, "x")
    other = next(exchanged[name] for name in ANSWERS if name != kind)[0]
    name = next(iter(arrays))
    wrong = {
        "a digest of another question": ({}, {"question": "0" * 64}),
        "site": ({}, {"site": "other"}),
        "round": ({}, {"round": 99}),
        "model": ({}, {"model": "0" * 16}),
        "kind": ({}, {"kind": "nonsense"}),
        "rows": ({}, {"rows": 0}),
        "no number of rows": ({}, {"rows": "many"}),
        "version": ({}, {"version": VERSION + 1}),
        "format": ({}, {"format": "other"}),
        "shape": ({name: np.zeros((3, 1, 4))}, {}),
        "not finite": ({name: np.full_like(arrays[name], np.inf)}, {}),
        "type": ({name: arrays[name].astype(np.float32)}, {}),
        "further": ({"more": np.zeros(1)}, {}),
    }
    for parts, header in wrong.values():
        with pytest.raises(MessageError):
            read_answer(pack({**arrays, **parts}, {**meta, **header}), question, "all")
    with pytest.raises(MessageError):
        read_answer(sent, other, "all")
    with pytest.raises(MessageError):
        read_answer(pack({k: v for k, v in arrays.items() if k != name}, meta), question, "all")
    read_answer(pack(arrays, meta), question, "all")  # as it is, it is right


@pytest.mark.parametrize(
    ("kind", "name", "change", "words"),
    [
        ("window", "gram", lambda x: x * 1.01, "no one at its end"),
        ("window", "gram", lambda x: x + np.triu(np.full_like(x, 0.1), 1), "not symmetric"),
        (
            "sums",
            "gram",
            lambda x: np.where(np.eye(len(x), k=0) * (np.arange(len(x)) == 0), -1.0, x),
            "mean of squares",
        ),
        ("window", "cells", lambda x: x + 1.0, "do not count 2000 rows"),
        ("window", "off", lambda x: x - 3000.0, "not counts of 2000 rows"),
        ("moments", "square", lambda x: -x, "square is negative"),
        ("slope", "gram", lambda x: -x, "not a curvature"),
        ("scores", "counts", lambda x: x * 3000.0, "not counts"),
    ],
)
def test_sums_that_contradict_each_other_are_noticed(exchanged, kind, name, change, words):
    question, sent = exchanged[kind]
    arrays, meta = unpack(sent, "driftline-answer", VERSION, "x")
    with pytest.raises(MessageError, match=words):
        read_answer(pack({**arrays, name: change(arrays[name])}, meta), question, "all")


def test_gradients_that_differ_between_rounds_are_noticed():
    rng = np.random.default_rng(1)

    def ways(x, wrong=False):
        site = Site(x, "all")

        def way(question):
            sent = site.answer(question)
            if not wrong or read_question(question).question.kind != "scores":
                return sent
            arrays, meta = unpack(sent, "driftline-answer", VERSION, "x")
            return pack({**arrays, "plain": 1.01 * arrays["plain"]}, meta)

        return {"all": way}

    run = Coordinator(2).begin(ways(rng.normal(size=(2000, 2))))
    before = run.estimator.to_bytes()
    with pytest.raises(SiteError, match="its gradients of two rounds contradict each other"):
        run.step(ways(rng.normal(0.2, 1.0, (2000, 2)), wrong=True))
    assert run.estimator.to_bytes() == before


@pytest.mark.parametrize("kind", ANSWERS)
def test_questions_that_do_not_fit_are_refused(exchanged, kind):
    question, _ = exchanged[kind]
    arrays, meta = unpack(question, "driftline-question", VERSION, "x")
    headers = [
        {"kind": "nonsense"},
        {"round": 0},
        {"parameters": 2 if kind != "moments" else -1},
        {"columns": 0},
        {"lag": 7},
        {"names": ["a"]},
        {"model": "0" * 16},
        {"version": 0},
    ]
    for header in headers:
        with pytest.raises(MessageError):
            read_question(pack(arrays, {**meta, **header}))
    changes = {
        "features.linear": np.array([0, 9]),
        "features.center": np.zeros(9),
        "features.scale": -np.ones(4),
        "standardizer.mean": np.zeros(5),
        "standardizer.scale": np.full(2, np.nan),
    }
    for name, value in changes.items():
        with pytest.raises(MessageError):
            read_question(pack({**arrays, name: value}, meta))
    assert read_question(pack(arrays, meta)).question.kind == kind


@pytest.mark.parametrize("kind", ["scores", "bends"])
def test_a_theta_that_singles_out_a_few_rows_is_not_answered(exchanged, kind):
    asked = read_question(exchanged[kind][0]).question
    rows = np.random.default_rng(0).normal(1.3, 1.0, (2000, 2))
    answer(asked, rows)
    sharp = asked._replace(given={**asked.given, "coef": 30.0 * asked.given["coef"]})
    with pytest.raises(RowsWithheldError, match="weighted sums would rest on"):
        answer(sharp, rows)


def test_a_question_about_other_columns_is_refused(exchanged):
    with pytest.raises(MessageError, match="about 2 columns, the rows have 3"):
        Site(np.random.default_rng(0).normal(size=(2000, 3)), "all").answer(exchanged["window"][0])


def test_answers_are_joined_in_any_order_and_grouping(exchanged):
    rng = np.random.default_rng(5)
    parts = np.split(rng.normal(0.9, 1.0, (6000, 2)), [1000, 2500])
    for kind, (question, _) in exchanged.items():
        answers = {name: Site(part, name).answer(question) for name, part in zip("abc", parts, strict=True)}
        a, b, c = (read_answer(answers[name], question) for name in "abc")
        merged = merge(question, answers)
        assert merged.rows == 6000
        for other in (join(join(c, a), b), join(a, join(b, c))):
            for name, field in ANSWERS[kind].items():
                if field.way not in ("stack", "most"):
                    np.testing.assert_allclose(other[name], merged[name], rtol=1e-9, atol=1e-9)
        whole = read_answer(Site(np.concatenate(parts), "all").answer(question), question)
        for name, field in ANSWERS[kind].items():
            if field.way not in ("stack", "most", "any"):
                np.testing.assert_allclose(merged[name], whole[name], rtol=1e-8, atol=1e-7)
    assert isinstance(merged, Answer)
