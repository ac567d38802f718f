"""CIFAR-10: an archive in the published format, labels beside, and colours that come back exactly."""

import hashlib
import io
import itertools
import tarfile

import numpy as np
import pytest
import torch

import squircuit as sq
from squircuit.data import cifar, registry
from squircuit.data.download import RemoteFile
from squircuit.errors import DataError, ParameterError


def records(rng, count):
    """Labels, planes, and the bytes of such records."""
    labels = rng.integers(0, 10, count).astype(np.uint8)
    planes = rng.integers(0, 256, (count, 3, 32, 32)).astype(np.uint8)
    table = np.concatenate([labels[:, None], planes.reshape(count, -1)], axis=1)
    return labels, planes, table.tobytes()


def archive(parts):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A folder with an archive of 5 × 8 training images and 6 of the test, as if published."""
    rng = np.random.default_rng(0)
    parts = {name: records(rng, 8) for name in cifar.TRAIN} | {name: records(rng, 6) for name in cifar.TEST}
    content = archive({name: part[2] for name, part in parts.items()} | {"cifar-10-batches-bin/readme": b"x"})
    file = RemoteFile(cifar.ARCHIVE.path, hashlib.sha256(content).hexdigest(), (), is_archive=True)
    for name in registry.COLOURS:
        monkeypatch.setitem(registry.FILES, name, (file,))
    (tmp_path / "cifar10").mkdir()
    (tmp_path / file.path).write_bytes(content)
    return tmp_path, parts


def test_rows_are_pixels_of_three_levels_and_labels_lie_beside_them(small):
    folder, parts = small
    data = sq.data.load("cifar10", folder, labels=True)
    assert repr(data) == "Dataset('cifar10', train=38, valid=2, test=6, shape=(32, 32, 3))"
    labels, planes, _ = parts[cifar.TEST[0]]
    assert np.array_equal(data.test.reshape(-1, 32, 32, 3), planes.transpose(0, 2, 3, 1))
    assert np.array_equal(data.labels["test"], labels)
    whole = {
        tuple(row): label
        for name in cifar.TRAIN
        for row, label in zip(
            parts[name][1].transpose(0, 2, 3, 1).reshape(8, -1), parts[name][0], strict=True
        )
    }
    for part in ("train", "valid"):
        assert [whole[tuple(row)] for row in getattr(data, part)] == data.labels[part].tolist()
    assert sq.data.load("cifar10", folder).labels is None
    assert sq.data.verify("cifar10", folder) == {cifar.ARCHIVE.path: "ok"}


def test_the_colours_of_the_other_name_are_the_same_images(small):
    folder, _ = small
    rgb, other = (sq.data.load(name, folder) for name in ("cifar10", "cifar10-ycocg"))
    assert np.array_equal(sq.data.from_ycocg(other.train), rgb.train)
    assert [family.size for family in other.families()[:4]] == [256, 511, 511, 256]


def test_all_colours_come_back_and_have_levels_of_their_own():
    some = np.array(list(itertools.product([*range(0, 256, 15), 1, 2, 127, 128, 254], repeat=3)))
    levels = sq.data.to_ycocg(some)
    assert np.array_equal(sq.data.from_ycocg(levels), some)
    assert (levels >= 0).all()
    assert (levels.max(axis=0) < cifar.YCOCG).all()
    assert len(np.unique(levels, axis=0)) == len(np.unique(some, axis=0))
    images = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 3)).astype(np.uint8)
    assert np.array_equal(sq.data.from_ycocg(sq.data.to_ycocg(images)), images)
    with pytest.raises(DataError, match="has no three whole numbers a pixel"):
        sq.data.to_ycocg(np.zeros((2, 4)))


def test_a_model_of_channels_of_different_sizes_is_made_trained_and_compressed(small):
    folder, _ = small
    data = sq.data.load("cifar10-ycocg", folder)
    images = data.test.reshape(-1, 32, 32, 3)[:, :2, :2].reshape(6, -1)
    model = sq.image_model((2, 2, 3), units=2, levels=cifar.YCOCG, tie="inputs", parts=2)
    assert [column.size for column in model.schema.columns[:3]] == [256, 511, 511]
    assert sum("inputs" in name for name in model.structure.parameters) == 2  # Co and Cg share theirs
    sq.fit(model, images.astype(np.int64), epochs=1, progress=False)
    content = sq.compress(model, images.astype(np.int64))
    assert np.array_equal(sq.decompress(model, content).numpy(), images)
    whole = sq.model_for(data, units=2)
    assert whole.shape == (32, 32, 3)
    assert whole.log_prob(torch.as_tensor(data.test[:1])).shape == (1,)
    for levels in ((256, 511), (256, 0, 511), "abc", 0):
        with pytest.raises(ParameterError, match="image_model: levels"):
            sq.image_model((2, 2, 3), levels=levels)


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", archive({}), archive(dict.fromkeys((*cifar.TRAIN, *cifar.TEST), b"x" * 9))],
    ids=["nothing", "no archive", "empty", "short files"],  # archives hold the time at which they are made
)
def test_what_is_no_such_archive_is_refused(content):
    with pytest.raises(DataError, match=r"cifar10/cifar-10-binary\.tar\.gz: .* Fix: "):
        cifar.parse_cifar10(content)


def test_a_changed_archive_and_labels_of_sets_that_have_none_are_refused(small):
    folder, _ = small
    path = folder / cifar.ARCHIVE.path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="the SHA-256 of it is"):
        sq.data.load("cifar10", folder)
    with pytest.raises(ParameterError, match="'nltcs' has no labels"):
        sq.data.load("nltcs", labels=True)


def test_the_labels_of_digits_are_those_of_their_images():
    from sklearn.datasets import load_digits

    source = load_digits()
    labels = {tuple(row): label for row, label in zip(source.data, source.target, strict=True)}
    data = sq.data.load("digits", labels=True)
    for part in ("train", "valid", "test"):
        assert [labels[tuple(row)] for row in getattr(data, part)] == data.labels[part].tolist()
