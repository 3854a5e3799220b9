"""What a new user tries first: scores for model selection, frames as they come, questions asked too early."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from driftline import ContinualDensityRatio, DensityRatio


def samples(rows=600, seed=0):
    """Return two normals with the same mean: only a model with squares tells them apart."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, 1.0, (rows, 2)), rng.normal(0.0, 2.0, (rows, 2))


def test_the_score_is_the_held_out_logistic_objective():
    (original, current), (more, further) = samples(), samples(seed=1)
    right = DensityRatio(model="quadratic", random_state=0).fit(original, current)
    wrong = DensityRatio(model="linear", random_state=0).fit(original, current)
    assert right.score(more, further) > 0.1 > wrong.score(more, further) > -0.02
    r, s = right.log_ratio(more), right.log_ratio(further)
    chance = 0.5 * (np.log(1 / (1 + np.exp(-r))).mean() + np.log(1 / (1 + np.exp(s))).mean())
    assert right.score(more, further) == pytest.approx(np.log(2.0) + chance)
    # the mean of the true ratio's score is the Jensen-Shannon divergence, by quadrature over a large sample
    a, b = samples(200_000, seed=2)
    truth = [0.5 * (x**2 / 4.0 - x**2).sum(1) + 2.0 * np.log(2.0) for x in (a, b)]
    js = np.log(2.0) - 0.5 * (np.logaddexp(0, -truth[0]).mean() + np.logaddexp(0, truth[1]).mean())
    assert right.score(a, b) == pytest.approx(js, abs=0.01)
    assert right.score(a, b) < js + 1e-12


def test_cross_validation_chooses_a_model():
    original, current = samples(300)
    linear, quadratic = (
        cross_val_score(DensityRatio(model=m), original, current, cv=3).mean() for m in ("linear", "quadratic")
    )
    assert quadratic > linear + 0.1


def test_the_score_of_a_stream():
    (original, current), (more, further) = samples(), samples(seed=1)
    est = ContinualDensityRatio(random_state=0).fit(original).partial_fit(current)
    static = DensityRatio(random_state=0).fit(original, current)
    assert est.score(more, further) == pytest.approx(static.score(more, further), abs=0.01)
    with pytest.raises(ValueError, match="current has 3 columns, the original has 2"):
        est.score(more, np.ones((5, 3)))


def test_a_divergence_before_any_window_is_an_error_that_says_so():
    original, current = samples(100)
    est = ContinualDensityRatio(random_state=0).fit(original)
    for ask in (est.divergence, est.step_divergence, lambda: est.divergence(X=current)):
        with pytest.raises(ValueError, match=r"no step has been taken yet.*: call partial_fit with a window first"):
            ask()
    est.partial_fit(current).add_original(original, name="late")
    assert est.divergence(original="original") > 0.1
    with pytest.raises(ValueError, match="no step has been taken yet"):
        est.divergence(original="late")


@pytest.mark.parametrize("labels", [[0, 1], [2019, 2020]])
def test_integer_names_in_another_order_are_an_error(labels):
    original, current = (pd.DataFrame(x, columns=labels) for x in samples(100))
    turned = current[labels[::-1]]
    message = rf"different order: \[{labels[1]}, {labels[0]}\] instead of \[{labels[0]}, {labels[1]}\]"
    with pytest.raises(ValueError, match=message):
        DensityRatio().fit(original, turned)
    est = ContinualDensityRatio(random_state=0).fit(original).partial_fit(current)
    for call in (est.partial_fit, est.log_ratio, est.weights, est.snapshot().log_ratio):
        with pytest.raises(ValueError, match=message):
            call(turned)
    assert est.log_ratio(current.to_numpy()).shape == (100,)
    turned_first = ContinualDensityRatio(random_state=0).fit(original[labels[::-1]])  # its own order is as good
    assert turned_first.partial_fit(turned).t_ == 1


def test_integers_are_places_for_an_estimator_of_arrays():
    original, current = samples(100)
    est = DensityRatio(random_state=0).fit(original, current)
    assert est.log_ratio(pd.DataFrame(current, columns=[7, 3])).shape == (100,)  # nobody knows what these mean
    with pytest.raises(ValueError, match="different order"):
        est.log_ratio(pd.DataFrame(current)[[1, 0]])


@pytest.mark.parametrize("kind", [DensityRatio, ContinualDensityRatio])
def test_a_mixed_frame_is_refused_with_lines_that_run(kind):
    rng = np.random.default_rng(0)
    original, current = (
        pd.DataFrame({"x": rng.normal(size=200), "card": rng.choice(["credit", "debit"], 200)}) for _ in range(2)
    )
    with pytest.raises(ValueError, match="original: column 'card' holds text") as caught:
        kind().fit(*([original, current] if kind is DensityRatio else [original]))
    line, names = str(caught.value).split("`")[1], {"original": original, "current": current}
    exec(line, names)  # as a user would copy it
    then = names["encoder"].transform(names["as_table"](original)).values
    assert DensityRatio(random_state=0).fit(then, names["numbers"]).n_features_in_ == names["numbers"].shape[1]
