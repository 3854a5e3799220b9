"""Evaluations and feature networks that were damaged with care: refused, or what they say they are."""

import numpy as np
import pytest
import torch

from driftline import StateFileError, Training
from driftline.evaluation import ContinualEvaluation
from driftline.features import ClassifierFeatures, ContinualVAE
from driftline.files import pack, unpack
from driftline.recursion import FORMAT, VERSION
from tests.damage import damaged, in_a_cell

FEATURES, EVALUATION = ("driftline-features", 2), ("driftline-evaluation", 2)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An evaluation whose features are in its file, and features of both kinds, as bytes by the name of their kind."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("files") / "judge"
    quick = Training(epochs=1)
    vae = ContinualVAE(latent=2, encoder=(8,), decoder=(8,), training=quick, random_state=0)
    vae.fit(rng.normal(size=(100, 4)))
    images = ClassifierFeatures(width=0.05, dense=(4,), training=quick, random_state=0)
    images.fit(rng.normal(size=(60, 8, 8)), np.array(["cat", "dog", "cow"])[rng.integers(0, 3, 60)])
    judge = ContinualEvaluation(features=vae)
    judge.task("a", rng.normal(size=(150, 4)))
    judge.update({"a": rng.normal(size=(150, 4))})
    judge.save(path)
    return {"judge": path.read_bytes(), "vae": vae.to_bytes(), "images": images.to_bytes()}


def opened(kind, data):
    return unpack(data, *(EVALUATION if kind == "judge" else FEATURES), kind)


def load(kind, data, folder):
    if kind != "judge":
        return (ContinualVAE if kind == "vae" else ClassifierFeatures).from_bytes(data)
    (folder / "judge").write_bytes(data)
    return ContinualEvaluation.load(folder / "judge")


def attempt(case):
    kind, data, folder = case
    torch.set_num_threads(1)  # threads do not survive a fork
    try:
        load(kind, data, folder)
    except StateFileError:
        return "refused"
    except ValueError as error:
        known = (
            "these features are not in the state",
            "was saved with",
            "was saved without",
            "samples for task",
            "move",
        )
        return "refused" if any(words in str(error) for words in known) else f"ValueError: {error}"
    return "loaded"


def inner(data, rng):
    """Damage a file inside the file."""
    arrays, meta = opened("judge", data)
    key, form = (("ratio", (FORMAT, VERSION)), ("features", FEATURES))[rng.integers(2)]
    inside = arrays[key].tobytes()
    bad, said = damaged(inside, *unpack(inside, *form, key), rng)
    return pack({**arrays, key: np.frombuffer(bad, dtype=np.uint8)}, meta), f"inside {key}: {said}"


def fuzzed(files, folder, number, seed):
    rng = np.random.default_rng(seed)
    cases = [(kind, damaged(data, *opened(kind, data), rng)) for kind, data in files.items() for _ in range(number)]
    cases += [("judge", inner(files["judge"], rng)) for _ in range(number)]
    found = in_a_cell([(kind, data, folder) for kind, (data, _) in cases], attempt, seconds=30)
    wrong = [(kind, said, result) for (kind, (_, said)), result in zip(cases, found, strict=True) if "Error" in result]
    assert wrong == []
    assert {"refused", "loaded"} == set(found)


def test_damaged_files_are_refused_or_whole(files, tmp_path):
    fuzzed(files, tmp_path, 20, seed=1)


@pytest.mark.slow
def test_files_with_more_damage_are_refused_or_whole(files, tmp_path):
    fuzzed(files, tmp_path, 400, seed=2)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("vae", ("learned", "net", "encoder"), [10**6, 10**6]),
        ("vae", ("learned", "net", "latent"), 10**9),
        ("vae", ("shape",), [10**6, 10**6]),
        ("images", ("learned", "net", "classes"), 10**9),
        ("images", ("learned", "net", "dense"), [10**9]),
        ("images", ("learned", "labels"), "<U1000000000"),
        ("images", ("shape",), [8, 9]),
        ("judge", ("tasks",), ["a", "a"]),
        ("judge", ("readings",), []),
        ("judge", ("settings",), {"colour": "red"}),
    ],
)
def test_sizes_of_a_header_are_compared_with_the_arrays(kind, path, value, files, tmp_path):
    arrays, meta = opened(kind, files[kind])
    inside = meta
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    with pytest.raises(StateFileError):
        load(kind, pack(arrays, meta), tmp_path)


def test_networks_are_restored_as_they_were(files):
    rng = np.random.default_rng(1)
    vae, images = ContinualVAE.from_bytes(files["vae"]), ClassifierFeatures.from_bytes(files["images"])
    assert vae.to_bytes() == files["vae"]
    assert images.to_bytes() == files["images"]
    assert vae.partial_fit(rng.normal(size=(100, 4))).transform(rng.normal(size=(3, 4))).shape == (3, 2)  # it can learn
