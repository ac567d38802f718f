"""The circuits of the paper's figures, their properties, Z and a marginal beside enumeration.

Run by ``make tour``. Writes drawings to the folder ``tour``.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import torch

import squircuit as sq
from paper_figures import FIGURES


def all_rows(circuit: sq.Circuit) -> torch.Tensor:
    """Every assignment of the circuit's (discrete) variables: (n, d)."""
    states = [range(circuit.domains[v].size) for v in sorted(circuit.scope)]
    return torch.tensor(list(itertools.product(*states)))


def density(circuit: sq.Circuit, rows: torch.Tensor) -> torch.Tensor:
    """p = Σ_r π_r |c_r|² at every row, not normalised: (n,)."""
    return sq.evaluate(circuit, rows).abs().square() @ circuit.root_shares


def show(title: str, circuit: sq.Circuit) -> None:
    """Print the properties of a circuit, Z and one marginal, each beside enumeration."""
    print(f"\n{title}\n{'=' * len(title)}\n{circuit!r}\n\n{sq.check(circuit)}\n")
    rows = all_rows(circuit)
    p = density(circuit, rows)
    print(f"Z            exact {sq.partition(circuit):.12f}   enumerated {p.sum():.12f}")
    kept, over = {0: 1}, sorted(circuit.scope - {0})
    query = torch.zeros(1, circuit.num_variables, dtype=torch.long)
    query[0, 0] = kept[0]
    exact = sq.marginal(circuit, query, over).item() / sq.partition(circuit)
    enumerated = p[rows[:, 0] == kept[0]].sum() / p.sum()
    print(f"p(x₁ = 1)/Z  exact {exact:.12f}   enumerated {enumerated:.12f}")


def show_image_model() -> None:
    """The paper's model of 28×28 images: declared unitary, so Z = 1 whatever the weights."""
    title = "The paper's model of 28×28 images with 256 grey levels, K = 8"
    circuit = sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), units=8)
    print(f"\n{title}\n{'=' * len(title)}\n{circuit.summary()}")
    small = sq.build(sq.regions.quad_tree((28, 28)), sq.Categorical(256), units=2).initialise(seed=0)
    print(
        f"\nwith K = 2, random weights: unitary {sq.is_unitary(small).mark}, Z = {sq.partition(small):.12f}"
    )


def main() -> None:
    folder = Path("tour")
    folder.mkdir(exist_ok=True)
    for title, make in FIGURES.items():
        circuit = make()
        show(title, circuit)
        name = title.split(":")[0].lower().replace("fig. ", "fig-").replace(" (", "").replace(")", "")
        (folder / f"{name.replace('.', '')}.svg").write_text(circuit.draw())
    show_image_model()
    print(f"\nDrawings of the circuits are in {folder}/")


if __name__ == "__main__":
    main()
