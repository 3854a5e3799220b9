"""Continual GANs: shapes, labels that survive sampling, determinism, going on from a file."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from driftline.evaluation import ContinualEvaluation
from driftline.features import ClassifierFeatures
from driftline.files import StateFileError
from driftline.fitting import Training
from experiments.gans.losses import LOSSES
from experiments.gans.training import ContinualGAN, Settings
from experiments.labelled import load

SHORT = Settings(iterations=3, batch=16, noise=4)
SHAPE = (8, 8)


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_only_wgan_gp_has_no_batch_norm_in_its_critic():
    for model in LOSSES:
        critic = ContinualGAN(model, SHAPE, 2, replace(SHORT, architecture="paper")).critic
        normed = any(isinstance(part, torch.nn.modules.batchnorm._BatchNorm) for part in critic.modules())
        assert normed == (model != "wgan-gp")


def test_samples_and_replay_are_drawn_in_eval_mode(digits):
    gan = ContinualGAN("wgan", SHAPE, 2, SHORT).learn(digits.of(0)).learn(digits.of(1))
    gan.generator.train()
    one, two = gan.sample(0, 50), gan._replay(1, 50)
    assert not gan.generator.training
    assert one.shape == tuple(two.shape) == (50, 8, 8)
    alone = gan.generator(gan._noise(1, torch.Generator().manual_seed(gan._seed(2, 2, 0))), torch.tensor([0]))
    np.testing.assert_allclose(gan.sample(0, 1)[0], alone.detach().numpy()[0], rtol=1e-6)  # nothing but its own noise


def test_batches_have_as_many_of_each_class_as_can_be():
    gan = ContinualGAN("wgan", SHAPE, 3, SHORT)
    draws = torch.Generator().manual_seed(0)
    for tasks in (1, 2, 3):
        counts = torch.bincount(gan._labels(tasks, draws), minlength=tasks)
        assert int(counts.sum()) == SHORT.batch
        assert int(counts.max() - counts.min()) <= 1


@pytest.mark.parametrize("model", list(LOSSES))
def test_a_run_from_a_file_ends_where_the_whole_one_does(model, digits, tmp_path):
    def fresh():
        return ContinualGAN(model, SHAPE, 3, SHORT, seed=5)

    whole = fresh().learn(digits.of(0)).learn(digits.of(1))
    whole.save(tmp_path / "two.safetensors")
    torch.manual_seed(123)  # nothing is drawn from the global generator
    again = fresh().load(tmp_path / "two.safetensors")
    assert again.learned == 2
    whole.learn(digits.of(2))
    again.learn(digits.of(2))
    np.testing.assert_array_equal(whole.sample(1, 20), again.sample(1, 20))
    other = ContinualGAN(model, SHAPE, 3, SHORT, seed=6)
    with pytest.raises(StateFileError, match="was saved with"):
        other.load(tmp_path / "two.safetensors")
    if model == "wgan":
        assert max(float(w.detach().abs().max()) for w in whole.critic.parameters()) <= 0.01


def test_epochs_count_real_and_replayed_images(digits):
    counts = []
    gan = ContinualGAN("wgan", SHAPE, 2, Settings(epochs=2, batch=50, noise=4))
    gan.learn(digits.of(0)[:100], lambda i, n: counts.append(n))
    gan.learn(digits.of(1)[:100], lambda i, n: counts.append(n))
    assert set(counts) == {4, 8}


def test_epochs_are_cut_at_a_number_of_iterations(digits):
    counts = []
    gan = ContinualGAN("wgan", SHAPE, 2, Settings(epochs=2, most=5, batch=50, noise=4))
    for task in range(2):
        gan.learn(digits.of(task)[:100], lambda i, n: counts.append(n))
    assert counts == [4, 5]


@pytest.mark.parametrize("fresh", [True, False])
def test_networks_begin_anew_where_asked(digits, fresh):
    """No step is long enough to leave the start: what a task ends with is what it began with."""
    gan = ContinualGAN("wgan", SHAPE, 2, replace(SHORT, fresh=fresh, critic_rate=0.0, generator_rate=0.0, clip=9.0))
    weights = [gan.learn(digits.of(task)).generator.out.weight.detach().clone() for task in range(2)]
    assert bool((weights[0] == weights[1]).all()) != fresh
    again = ContinualGAN("wgan", SHAPE, 2, replace(SHORT, fresh=fresh, critic_rate=0.0, generator_rate=0.0, clip=9.0))
    torch.testing.assert_close(again.learn(digits.of(0)).learn(digits.of(1)).generator.out.weight, weights[1])


def test_a_training_that_diverges_says_so(digits):
    """Without a guard the exponential overflows as soon as a real image reads low enough."""
    gan = ContinualGAN("fgan-rvkl", SHAPE, 2, replace(SHORT, iterations=60, safe=False, critic_rate=1e3))
    with pytest.raises(FloatingPointError, match="fgan-rvkl: weights are not finite at task 1"):
        gan.learn(digits.of(0))
    assert gan.learned == 0


def test_mistakes_are_named(digits):
    with pytest.raises(ValueError, match="model='gan' is unknown"):
        ContinualGAN("gan", SHAPE, 2)
    with pytest.raises(ValueError, match="sides that 4 divides"):
        ContinualGAN("wgan", (9, 8), 2, Settings(architecture="paper"))
    with pytest.raises(ValueError, match="architecture='big' is unknown"):
        ContinualGAN("wgan", SHAPE, 2, Settings(architecture="big"))
    gan = ContinualGAN("wgan", SHAPE, 1, SHORT)
    with pytest.raises(ValueError, match="task 0 is not learned yet"):
        gan.sample(0, 5)
    with pytest.raises(ValueError, match="real images of shape"):
        gan.learn(np.zeros((5, 4, 4)))
    gan.learn(digits.of(0))
    with pytest.raises(ValueError, match="all 1 tasks are learned"):
        gan.learn(digits.of(1))


def test_a_judge_takes_samples_in_three_lines(digits):
    judge, gan = ContinualEvaluation(lambda x: x.reshape(len(x), -1)[:, 20:24]), ContinualGAN("wgan", SHAPE, 2, SHORT)
    for task in range(2):
        judge.task(str(task), digits.of(task)), gan.learn(digits.of(task))
        judge.update({name: gan.sample(k, 100) for k, name in enumerate(judge.tasks)})
    assert len(judge.table()) == 12


@pytest.mark.slow
def test_a_small_wgan_gp_becomes_recognisable(digits):
    """Three digits in turn; a classifier of all real ones agrees with more than 0.8 of each."""
    net = ClassifierFeatures(width=0.25, training=Training(epochs=10, batch=64), random_state=0)
    net.fit(digits.train, digits.train_labels)
    gan = ContinualGAN("wgan-gp", SHAPE, 3, Settings(iterations=600, generator_rate=2e-4))
    for task in range(3):
        gan.learn(digits.of(task))
    agreement = [float((net.predict(gan.sample(task, 500)) == task).mean()) for task in range(3)]
    assert min(agreement) > 0.8, agreement


def test_what_is_drawn_from_is_the_running_mean_of_weights():
    """Three steps, the mean by hand; 0 gives the last weights."""
    real, seen = load("digits").of(0)[:64], []

    class Watched(ContinualGAN):
        def _generator_step(self, *args):
            super()._generator_step(*args)
            seen.append([p.detach().clone() for p in self.generator.parameters()])

    def weights(average):
        seen.clear()
        gan = Watched("wgan", (8, 8), 1, Settings(iterations=3, batch=8, average=average), seed=3)
        first = [p.detach().clone() for p in gan.generator.parameters()]
        return first, list(gan.learn(real).generator.parameters())

    for average in (0.2, 0.0):
        means, found = weights(average)
        for step, values in enumerate(list(seen)):
            stays = min(average, (1 + step) / (10 + step))
            means = [stays * mean + (1 - stays) * value for mean, value in zip(means, values, strict=True)]
        for mean, weight in zip(means, found, strict=True):
            torch.testing.assert_close(mean, weight)
