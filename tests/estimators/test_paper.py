"""The paper's method as printed and as in the authors' code: each difference does what it says, alone and saved."""

import math

import numpy as np
import pytest
from sklearn.base import clone

from driftline import ContinualDensityRatio, Training
from driftline.fitting import check_training, constraint_residual, tau_inputs

pytestmark = [
    pytest.mark.networks,
    pytest.mark.filterwarnings("ignore::driftline.UntrustedEstimateWarning"),  # three epochs are few on purpose
]
CODE = {"weights": "last", "constraint": "inverse", "inputs": "raw", "clip": 60.0, "tau": "one-hot", "init": 0.02}
PROBE = np.linspace(-1, 1, 12).reshape(4, 3)


def made(variant="printed", **training):
    est = ContinualDensityRatio.paper(variant=variant, epochs=3, hidden=(8, 8), random_state=0)
    return est.set_params(training=est.training._replace(lr=1e-3, batch=100, **training))


def traced(est, steps=2):
    rng = np.random.default_rng(0)
    est.fit(rng.normal(0, 1, (600, 3)))
    for t in range(1, steps + 1):
        est.partial_fit(rng.normal(0.2 * t, 1 - 0.1 * t, (600, 3)))
    return est


def psi_of(est, name="original"):
    return est._state.tracks[name].current.psi


def test_printed_gives_the_numbers_from_before_there_were_variants():
    est = traced(made())
    expected = [0.08135154, 0.01510595, -0.03158864, -0.02940823]
    # the order of a sum in float32 differs between processors
    np.testing.assert_allclose(est.log_ratio(PROBE), expected, atol=1e-4)
    assert est.info_.originals["original"].held_out == pytest.approx(-0.014003, abs=1e-4)


def test_the_variants_differ_in_what_the_code_does_otherwise_and_in_nothing_else():
    printed, code = (ContinualDensityRatio.paper(variant=v).get_params() for v in ("printed", "code"))
    assert ContinualDensityRatio.paper().get_params() == printed
    assert code.pop("training") == printed.pop("training")._replace(**CODE)
    assert code == printed


def test_the_penalty_of_the_code_is_the_inverse_ratio():
    """Phi_t Psi_{t-1} / Psi_t in closed form, and its pull where the printed ratio overflows a float32."""
    import torch

    phi, num, den = np.log([1.0, 3.0]), np.log([2.0, 4.0]), np.log([5.0, 1.0])
    assert constraint_residual(phi, num, den, inverse=True) == pytest.approx((2 * 3) / ((5 + 3) / 2))
    assert constraint_residual(phi, num, den) == pytest.approx(4 / 6)
    far = torch.full((2,), 200.0, requires_grad=True)
    value = constraint_residual(far, torch.zeros(2), torch.tensor([200.0, 0.0]), inverse=True)
    value.backward()
    assert bool(torch.isfinite(far.grad).all())


def test_the_penalty_in_training_is_that_of_the_constraint():
    import torch

    from driftline.fitting import Pair, kliep
    from driftline.fitting._training import _loss

    rows = torch.arange(2)
    num, den, prev_num, prev_den = (torch.tensor(v) for v in ([0.3, 0.1], [0.2, -0.4], [0.5, 0.0], [-1.0, 0.7]))
    pair = Pair(num[:, None], den[:, None], prev_num, prev_den, lambda x: x[:, 0])
    plain = float(_loss(pair, rows, rows, kliep, 0.0, False))
    ratio = math.fsum(np.exp([0.2, -0.4])) / (math.fsum(np.exp([1.2, -1.1])) * math.fsum(np.exp([0.5, 0.0])) / 2)
    for inverse, residual in ((False, ratio), (True, 1 / ratio)):
        found = float(_loss(pair, rows, rows, kliep, 10.0, inverse))
        assert found == pytest.approx(plain + 10 * (residual - 1) ** 2, rel=1e-4)


def test_last_keeps_the_weights_of_the_last_epoch():
    import torch

    from driftline.fitting import MLP, Pair, fit_network, logistic

    generator = torch.Generator().manual_seed(0)
    num, den = torch.randn(200, 2, generator=generator), torch.randn(200, 2, generator=generator)
    nets, infos = {}, {}
    for weights in ("best", "last"):  # nothing to learn, at a high rate: the start is best
        nets[weights], seen = MLP(2, 1, (16,), torch.Generator().manual_seed(1)), []
        pair = Pair(num, den, torch.zeros(200), torch.zeros(200), lambda x, net=nets[weights]: net(x)[:, 0])
        training = Training(epochs=4, batch=50, lr=0.1, patience=9, weights=weights)
        infos[weights] = fit_network(nets[weights], [pair], logistic, training, progress=lambda *a, s=seen: s.append(a))
    assert infos["last"].held_out == pytest.approx(seen[-1][3])
    assert infos["best"].held_out < infos["last"].held_out
    assert not torch.equal(nets["best"].head.weight, nets["last"].head.weight)


def test_raw_inputs_are_the_rows_and_others_are_standardised():
    rows = np.random.default_rng(0).normal(3e5, 2.0, (600, 3))
    for inputs in ("raw", "standardised"):
        est = made(inputs=inputs, clip=1.0).fit(rows).partial_fit(rows + 1.0)
        found = psi_of(est).inputs(rows).numpy()
        expected = rows if inputs == "raw" else (rows - rows.mean(0)) / rows.std(0)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-4)


def test_psi_stays_within_the_clip():
    est = traced(made(inputs="raw", clip=0.25))
    psi = psi_of(est)(np.random.default_rng(1).normal(0, 1e6, (50, 3)))
    assert np.abs(psi).max() == 0.25
    assert est.divergence().std_error != est.divergence().std_error  # none is known: psi is not linear


def test_a_clipped_network_is_not_polished():
    est = traced(made(clip=60.0).set_params(polish=True, normalizer="telescoped", penalty=0.0))
    assert est._state.tracks["original"].current.uncertainty is None


def test_initial_weights_are_normal_with_biases_of_zero():
    import torch

    from driftline.fitting import MLP

    net = MLP(64, 1, (256, 256), torch.Generator().manual_seed(0), 0.02)
    for layer in (*net.layers, net.head):
        count = layer.weight.numel()  # the standard deviation of count draws is known to 1 in sqrt(2 count)
        assert abs(float(layer.weight.detach().std()) / 0.02 - 1) < 5 / math.sqrt(2 * count)
        assert not bool(layer.bias.any())


def several(est):
    rng = np.random.default_rng(0)
    est.fit(rng.normal(0, 1, (300, 3)), name="a").partial_fit(rng.normal(0.2, 1, (300, 3)))
    est.add_original(rng.normal(4, 1, (300, 3)), name="b")
    return est.partial_fit({"a": rng.normal(0.4, 1, (300, 3)), "b": rng.normal(4.2, 1, (300, 3))})


def test_tau_is_a_block_with_a_one_or_a_number():
    assert [tau_inputs(1, True), tau_inputs(3, True), tau_inputs(3, False), tau_inputs(1, False)] == [0, 3, 1, 0]
    est = several(made("code"))
    np.testing.assert_array_equal(psi_of(est, "a").inputs(PROBE)[:, 3:], [[1.0, 0.0]] * 4)
    np.testing.assert_array_equal(psi_of(est, "b").inputs(PROBE)[:, 3:], [[0.0, 1.0]] * 4)
    assert psi_of(several(made()), "b").inputs(PROBE)[:, 3:].tolist() == [[1.0]] * 4
    assert psi_of(traced(made("code"))).inputs(PROBE).shape == (4, 3)  # one original needs no name


@pytest.mark.parametrize("warm_start", [False, True])
def test_saved_and_loaded_it_goes_on_with_the_same_numbers(tmp_path, warm_start):
    est = several(made("code").set_params(warm_start=warm_start))
    est.save(tmp_path / "run")
    again = ContinualDensityRatio.load(tmp_path / "run")
    assert again.get_params() == est.get_params()
    rng = np.random.default_rng(5)
    windows = {"a": rng.normal(0.6, 1, (300, 3)), "b": rng.normal(4.4, 1, (300, 3))}
    for name in windows:
        np.testing.assert_array_equal(again.log_ratio(1e3 * PROBE, name), est.log_ratio(1e3 * PROBE, name))
    est.partial_fit(windows)
    again.partial_fit(windows)
    for name in windows:
        np.testing.assert_array_equal(again.log_ratio(PROBE, name), est.log_ratio(PROBE, name))


def test_a_network_keeps_its_own_form_when_training_changes(tmp_path):
    est = traced(made("code"))
    before = est.log_ratio(PROBE)
    est.set_params(training=Training(epochs=1)).save(tmp_path / "run")
    np.testing.assert_array_equal(ContinualDensityRatio.load(tmp_path / "run").log_ratio(PROBE), before)


@pytest.mark.parametrize(("part", "value"), [("clip", -1.0), ("clip", np.nan), ("raw", 1), ("tau", 1), ("heads", 0)])
def test_a_damaged_form_is_refused(part, value):
    from driftline import StateFileError
    from driftline.files import pack, unpack
    from driftline.recursion import VERSION

    arrays, meta = unpack(traced(made(), 1).to_bytes(), "driftline-state", VERSION, "it")
    with pytest.raises(StateFileError, match="damaged"):
        ContinualDensityRatio.from_bytes(pack(arrays | {f"tracks.0.anchor.psi.{part}": np.array(value)}, meta))


def test_clones_and_parameters_as_scikit_learn_wants_them():
    est = ContinualDensityRatio.paper(variant="code", random_state=3)
    assert clone(est).get_params() == est.get_params()
    assert est.set_params(training=est.training._replace(tau="number")).training.tau == "number"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weights": "first"}, "training.weights='first' is unknown: choose 'best' or 'last'"),
        ({"constraint": "code"}, "training.constraint='code' is unknown: choose 'printed' or 'inverse'"),
        ({"inputs": None}, "training.inputs=None is unknown: choose 'standardised' or 'raw'"),
        ({"tau": 1}, "training.tau=1 is unknown: choose 'number' or 'one-hot'"),
        ({"clip": -60}, "training.clip=-60 must be a finite number of at least 0; 0 turns it off"),
        ({"clip": math.inf}, "training.clip=inf must be a finite number"),
        ({"init": "normal"}, "training.init='normal' must be a finite number"),
    ],
)
def test_wrong_settings_are_named_with_the_choices(wrong, message):
    with pytest.raises(ValueError, match=message):
        check_training(Training(**wrong))


def test_a_wrong_variant_is_named_with_the_choices():
    with pytest.raises(ValueError, match="variant='authors' is unknown: choose 'printed' or 'code'"):
        ContinualDensityRatio.paper(variant="authors")
