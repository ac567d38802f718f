"""Times of what the page of `squircuit explore` asks while pixels of a 28×28 image are erased.

    python benchmarks/explore.py --units 4 8 --repeats 15

Six exact completions, the likelihood of what is seen, and the spread of every pixel, each with a mask that
was never asked before, as when the mouse moves: half of the image, and a hole of 8×8 pixels. Medians in
milliseconds, of the wall and of the processor: on a machine with other work the second says more.
"""

from __future__ import annotations

import argparse
import statistics
import time

import squircuit as sq
from squircuit.explore.exhibit import Exhibit
from squircuit.explore.images import completions, likelihood, spread

SIDE = 28
REGIONS = {
    "half": {v for v in range(SIDE * SIDE) if v >= SIDE * SIDE // 2},
    "hole": {SIDE * i + j for i in range(10, 18) for j in range(10, 18)},
}


def measured(exhibit: Exhibit, image: list[int], region: set[int], repeats: int) -> None:
    """One line for each question; in every repetition another pixel is erased as well."""
    for ask in (completions, likelihood, spread):
        walls, processors = [], []
        for number in range(repeats + 1):
            erased = region | {number}
            pixels = [None if v in erased else value for v, value in enumerate(image)]
            wall, processor = time.perf_counter(), time.process_time()
            ask(exhibit, {"pixels": pixels, "count": 6, "seed": number})
            walls.append(1e3 * (time.perf_counter() - wall))
            processors.append(1e3 * (time.process_time() - processor))
        both = (statistics.median(times[1:]) for times in (walls, processors))
        print(f"  {ask.__name__:12s} wall {next(both):6.0f} ms   processor {next(both):6.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--units", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    for units in options.units:
        roots, tie = (32, 2) if units == 8 else (1, None)  # as the preset mnist-small
        model = sq.image_model((SIDE, SIDE), units=units, roots=roots, tie=tie).eval().requires_grad_(False)
        assert model.schema is not None
        exhibit = Exhibit(model, model.schema, "model")
        image = model.sample(1, seed=0)[0].tolist()
        for name, region in REGIONS.items():
            print(f"{model}, {name} erased")
            measured(exhibit, image, region, options.repeats)


if __name__ == "__main__":
    main()
