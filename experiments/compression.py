"""Lossless compression of test images by a model, beside PNG, WebP, JPEG XL and xz; times of both directions.

Codecs get every image by itself, and all images as one mosaic, which is the better for most. JPEG XL is there
where Pillow can write it (pip install pillow-jxl-plugin). The model is trained by a preset, or read from a
file; its codes are decompressed and compared, and stand beside -log2 p(x) of the same images.

    squircuit reproduce compression --data mnist --preset small
    squircuit reproduce compression --data mnist --model runs/mnist --images 1000
"""

from __future__ import annotations

import io
import lzma
import math
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import squircuit as sq
from record import Row, arguments_of, parameters, write
from record import run as as_program

Images = NDArray[np.uint8]
Codec = Callable[[Images], bytes]
JPEG_XL = "pillow_jxl"


def codecs() -> dict[str, Codec]:
    """Name → bytes of one image (H, W), without loss."""
    found: dict[str, Codec] = {
        "PNG": _by_pillow(format="PNG", optimize=True),
        "WebP": _by_pillow(format="WEBP", lossless=True, quality=100, method=6),
        "xz": _by_xz,
    }
    try:
        import_module(JPEG_XL)
    except ImportError:
        print("JPEG XL is left out: pip install pillow-jxl-plugin")
        return found
    return found | {"JPEG XL": _by_pillow(format="JXL", lossless=True, effort=9)}


def _by_xz(image: Images) -> bytes:
    size = min(2**26, max(2**12, image.size))  # a dictionary for 64 MB takes longer to make than an image
    strength = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": size}
    return lzma.compress(image.tobytes(), filters=[strength])


def _by_pillow(**options: Any) -> Codec:
    from PIL import Image  # comes with the data; other codecs need none

    def coded(image: Images) -> bytes:
        stream = io.BytesIO()
        Image.fromarray(image).save(stream, **options)
        return stream.getvalue()

    return coded


def mosaic(images: Images) -> Images:
    """All images as one, in rows that are about as long as there are of them: (n, H, W) → (a·H, b·W).

    >>> mosaic(np.zeros((5, 2, 3), np.uint8)).shape
    (4, 9)
    """
    wide = math.ceil(math.sqrt(len(images)))
    tall = math.ceil(len(images) / wide)
    _, height, width = images.shape
    padded = np.concatenate([images, np.zeros((wide * tall - len(images), height, width), np.uint8)])
    return padded.reshape(tall, wide, height, width).swapaxes(1, 2).reshape(tall * height, wide * width)


def of_codecs(data: str, images: Images) -> list[Row]:
    """What each codec makes of the images: bits per dimension."""
    rows = []
    for name, coded in codecs().items():
        for how, parts in (("one by one", list(images)), ("one mosaic", [mosaic(images)])):
            started = time.perf_counter()
            size = sum(len(coded(part)) for part in parts)
            rows.append(_row(data, f"{name}, {how}", 0, size, images.size, {}, time.perf_counter() - started))
    return rows


def of_model(data: str, model: sq.SquaredCircuit, title: str, images: Images) -> Row:
    """What the model makes of them, decompressed again and compared."""
    pixels = torch.from_numpy(images.reshape(len(images), -1).astype(np.int64)).to(model.device)
    with torch.no_grad():
        nats = [-model.log_prob(part).double().sum().item() for part in torch.split(pixels, 500)]
    content, compressing, busy = _timed(lambda: sq.compress(model, pixels))
    again, decompressing, busy_again = _timed(lambda: sq.decompress(model, content))
    if not torch.equal(again, pixels.cpu()):
        raise SystemExit("error: other images came out than went in")
    scores = {
        "model_bpd": sum(nats) / math.log(2) / images.size,
        "log_z": model.log_partition().item(),
        "compress_seconds": compressing,
        "compress_cpu_seconds": busy,
        "decompress_seconds": decompressing,
        "decompress_cpu_seconds": busy_again,
    }
    return _row(data, title, parameters(model), len(content), images.size, scores, compressing)


def _timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Its result, seconds on the clock, and seconds of processors."""
    started, busy = time.perf_counter(), time.process_time()
    return work(), time.perf_counter() - started, time.process_time() - busy


def _row(data: str, model: str, params: int, size: int, cells: int, more: dict[str, float], s: float) -> Row:
    scores = {"bpd": 8 * size / cells, "bytes": size} | more
    return Row("compression", data, model, params, 0, scores, s / 60, options={"dimensions": cells})


def show(row: Row) -> None:
    """One line of the table."""
    scores = row.scores
    beside = f"  -log2 p {scores['model_bpd']:.4f}, {_seconds(scores)}" if "model_bpd" in scores else ""
    print(f"{row.model:32} {scores['bpd']:8.4f} bits per dimension{beside}", flush=True)


def _seconds(scores: Any) -> str:
    both = (f"{way} {scores[f'{way}_seconds']:.1f} s" for way in ("compress", "decompress"))
    return ", ".join(both)


def opened(path: Path, device: str) -> sq.SquaredCircuit:
    """The model of a file, or the best one of a run."""
    file = path / "best.safetensors" if path.is_dir() else path
    return sq.load(file, device)


def trained(data: sq.data.Dataset, preset: str, device: str) -> sq.SquaredCircuit:
    """The model of a preset."""
    chosen = sq.presets.load(preset, data.name)
    model = sq.model_for(data, **chosen["model"]).to(device)
    sq.fit(model, data, **chosen["training"])
    return model


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = arguments_of(__doc__)
    parser.add_argument("--data", default="mnist", choices=["mnist", "fashion-mnist", "digits"])
    parser.add_argument("--preset", default="small", help="that is trained where there is no --model")
    parser.add_argument("--model", type=Path, help="file or run of a model that is trained already")
    parser.add_argument("--images", type=int, help="the first of the test images; default all")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--folder", help="of the data")
    options = parser.parse_args(arguments)
    data = sq.data.load(options.data, options.folder)
    images = data.test[: options.images].reshape(-1, *data.shape)
    rows = of_codecs(data.name, images)
    for row in rows:
        show(row)
    if options.model is None:
        model, title = trained(data, options.preset, options.device), f"squircuit, preset {options.preset}"
    else:
        model, title = opened(options.model, options.device), f"squircuit, {options.model.stem}"
    rows.append(of_model(data.name, model.eval(), title, images))
    show(rows[-1])
    write(rows, options.out)
    return rows


if __name__ == "__main__":
    as_program(main)
