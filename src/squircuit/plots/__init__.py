"""Pictures: training curves, images and their completions, densities of the plane, single variables.

Each function returns a figure of matplotlib (``pip install 'squircuit[plot]'``) and opens no window: keep it
with ``figure.savefig("curves.png")``, or make it the last line of a notebook's cell, after
``%matplotlib inline``.
"""

from squircuit.plots.curves import curves
from squircuit.plots.density import density
from squircuit.plots.images import completions, images
from squircuit.plots.marginals import marginals

__all__ = ["completions", "curves", "density", "images", "marginals"]
