"""Generators and critics: sizes, and labels that survive sampling."""

import pytest
import torch

from experiments.gans.models import Critic, Generator

SHAPE = (8, 8)


@pytest.mark.parametrize("shape", [(8, 8), (28, 28), (12, 8)])
@pytest.mark.parametrize("architecture", ["paper", "quick"])
def test_sizes_follow_the_image(architecture, shape):
    labels = torch.tensor([0, 1, 2, 1])
    images = Generator(architecture, shape, 3, 5)(torch.rand(4, 5), labels)
    assert tuple(images.shape) == (4, *shape)
    assert float(images.detach().min()) >= 0.0
    assert float(images.detach().max()) <= 1.0
    assert Critic(architecture, shape, 3, batch_norm=False)(images, labels).shape == (4,)


def test_paper_sizes():
    """Dense 1024 and 7 x 7 x 128 = 6272, then 64 channels and one."""
    shapes = [tuple(w.shape) for w in Generator("paper", (28, 28), 10, 64).parameters() if w.ndim > 1]
    assert shapes == [(1024, 74), (6272, 1024), (128, 64, 4, 4), (64, 1, 4, 4)]
    shapes = [tuple(w.shape) for w in Critic("paper", (28, 28), 10, batch_norm=True).parameters() if w.ndim > 1]
    assert shapes == [(64, 11, 4, 4), (128, 64, 4, 4), (1024, 6272), (1, 1024)]


def test_the_paper_s_critic_sees_the_task_as_maps():
    """Its first layer gets the image and, beside it, one map of ones among zeros."""
    critic, seen = Critic("paper", SHAPE, 3, batch_norm=True).eval(), []
    critic.net[0].register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    image = torch.rand(1, *SHAPE)
    values = [float(critic(image, torch.tensor([task])).detach()) for task in range(3)]
    assert len(set(values)) == 3
    assert seen[1].shape == (1, 4, *SHAPE)
    torch.testing.assert_close(seen[1][0, 0], image[0])
    assert [float(part.min()) for part in seen[1][0, 1:]] == [0.0, 1.0, 0.0]
    assert [float(part.max()) for part in seen[1][0, 1:]] == [0.0, 1.0, 0.0]
    norms = [type(part).__name__ for part in critic.modules() if "BatchNorm" in type(part).__name__]
    assert norms == ["BatchNorm2d", "BatchNorm1d"]
    spread = torch.cat([w.detach().flatten() for w in critic.parameters() if w.ndim > 1]).std()
    assert float(spread) == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize("architecture", ["paper", "quick"])
def test_batches_of_one_class_lose_their_label_in_train_mode_and_keep_it_in_eval(architecture):
    """The label shifts the first layer by a constant, which batch normalisation of a one-class batch takes away."""
    torch.manual_seed(0)
    net = Generator(architecture, SHAPE, 3, 4)
    z, zero = torch.rand(32, 4), torch.zeros(32, dtype=torch.long)
    with torch.no_grad():
        for _ in range(20):  # running statistics of mixed batches, as in training
            net(torch.rand(30, 4), torch.arange(30) % 3)
        erased = (net(z, zero) - net(z, zero + 1)).abs().max()
        net.eval()
        kept = (net(z, zero) - net(z, zero + 1)).abs().max()
    assert float(erased) < 1e-5
    assert float(kept) > 100 * float(erased)  # first weights are small
