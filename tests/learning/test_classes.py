"""The label as a variable: one model of each class, mixed, against Bayes' rule."""

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.learning import accuracy

pytestmark = pytest.mark.slow
OPTIONS = {"epochs": 5, "progress": False, "lr": 0.3}


@pytest.fixture(scope="module")
def digits():
    data = sq.data.load("digits", labels=True)
    model = sq.image_model((8, 8), units=2, levels=17, tie="inputs", parts=2)
    sq.fit(model, data, **OPTIONS)
    return data, model, sq.fit_classes(model, data, **OPTIONS)


def test_the_joint_density_of_image_and_label_sums_to_that_of_the_image(digits):
    data, _, classes = digits
    x = torch.from_numpy(data.test[:50]).long()
    joint = classes.component_log_prob(x)
    assert torch.allclose(joint.logsumexp(dim=1), classes.log_prob(x), atol=1e-4)
    shares = np.bincount(data.labels["train"]) / len(data.train)
    assert np.allclose(classes.component_log_weights().detach().exp().numpy(), shares, atol=1e-5)
    alone = torch.stack([classes.component(y).log_prob(x) for y in range(10)], dim=1)
    assert torch.allclose(alone + torch.from_numpy(shares).log().float(), joint, atol=1e-3)


def test_labels_cost_no_likelihood_and_classes_are_told_apart(digits):
    data, model, classes = digits
    test = torch.from_numpy(data.test).long()
    assert classes.log_prob(test).mean() > model.log_prob(test).mean()
    assert abs(classes.log_partition().item()) < 1e-4
    whole = accuracy(classes, test, data.labels["test"])
    upper = classes.component_log_prob(test, torch.arange(64) >= 32).argmax(dim=1).numpy()
    assert whole > 0.85
    assert 0.6 < (upper == data.labels["test"]).mean() < whole


def test_samples_of_one_class_are_of_that_class(digits):
    _, _, classes = digits
    assert classes.classes == [str(digit) for digit in range(10)]
    drawn = classes.component(classes.classes.index("0")).sample(60, seed=0)
    assert (classes.component_log_prob(drawn).argmax(dim=1) == 0).float().mean() > 0.8


def test_a_class_keeps_its_weights_where_training_makes_it_worse(digits):
    data, model, _ = digits
    spoilt = sq.fit_classes(model, data, epochs=1, lr=50.0, progress=False)
    test = torch.from_numpy(data.valid).long()
    assert spoilt.log_prob(test).mean() > model.log_prob(test).mean() - np.log(10) - 1e-3


def test_classes_survive_a_file_and_mistakes_are_named(digits, tmp_path):
    data, model, classes = digits
    classes.save(tmp_path / "m.safetensors")
    assert sq.load(tmp_path / "m.safetensors").classes == classes.classes
    assert model.classes == []
    with pytest.raises(sq.ParameterError, match=r"component 10 of 10. Fix: pass a number from 0 to 9"):
        classes.component(10)
    with pytest.raises(sq.DataError, match=r"has no labels. Fix: sq.data.load\('digits', labels=True\)"):
        sq.fit_classes(model, sq.data.load("digits"))
    with pytest.raises(sq.DataError, match="labels of shape"):
        sq.fit_classes(model, data.train, data.labels["valid"])
    with pytest.raises(sq.DataError, match="one class, or others in validation"):
        sq.fit_classes(model, data.train, np.zeros(len(data.train)))
    with pytest.raises(sq.ParameterError, match="3 names for 10 classes"):
        sq.fit_classes(model, data, names="abc")
