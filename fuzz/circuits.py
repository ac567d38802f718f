"""Random circuits, written as programs: by hand in every shape that the constructors allow, and built."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.drawn_families import (
    Block,
    Place,
    Random,
    bins,
    block,
    categorical,
    chance,
    choice,
    domain,
    family,
    monotone,
)
from fuzz.program import Program, tensor

__all__ = ["Columns", "Random", "chance", "choice", "drawn_circuit", "drawn_model"]


@dataclass
class Column:
    """A variable: its number and the names of the families that input layers over it may have."""

    variable: int
    families: list[str]


@dataclass
class Columns:
    """The variables of a circuit, and those of them that some input layers hold together."""

    each: list[Column] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


def columns(
    program: Program, random: Random, *, most: int = 4, gaps: bool = True, wide: bool = False
) -> Columns:
    """The variables of a circuit, with one or two families each, and perhaps a block of some of them."""
    count = min(int(random.choice([1, 2, 3, 4], p=[0.2, 0.4, 0.25, 0.15])), most)
    together = min(int(random.choice([0, 1, 2, 3], p=[0.72, 0.03, 0.19, 0.06])), most)
    count = max(count, together)
    spread = gaps and chance(random, 0.12)
    numbers = sorted(random.choice(6, count, replace=False).tolist()) if spread else list(range(count))
    order = random.permutation(count).tolist()
    continuous = int(random.choice([0, 1, 2], p=[0.6, 0.25, 0.15]))
    if together:
        continuous = together + (together < 3 and chance(random, 0.15))
    where: dict[int, Place] = {}
    for i, place in enumerate(order[:continuous]):
        where[numbers[place]] = domain(random, "line" if i < together else None)
    found = Columns([_column(program, random, v, where.get(v), wide) for v in numbers])
    if together:
        variables = tuple(numbers[place] for place in order[:together])
        found.blocks.append(block(program, random, variables, [where[v] for v in variables]))
    return found


def _column(program: Program, random: Random, variable: int, where: Place | None, wide: bool) -> Column:
    if where is None:
        return Column(variable, [program.let("f", categorical(random, wide))])
    count = 1 + chance(random, 0.25)
    return Column(variable, [program.let("f", family(random, where, wide)) for _ in range(count)])


# ---------------------------------------------------------------------- values


def matrix(random: Random, shape: tuple[int, ...], is_complex: bool) -> Any:
    """The value of a weight: ordinary, orthogonal, with zeros, tiny or huge."""
    kind = choice(
        random, ("plain", "plain", "orthogonal", "orthogonal", "zeros", "row", "tiny", "huge", "spread")
    )
    value = np.round(random.normal(size=shape), 2)
    if is_complex:
        value = value + 1j * np.round(random.normal(size=shape), 2)
    if kind == "orthogonal" and len(shape) == 2 and shape[0] <= shape[1]:
        return _orthogonal(random, shape)
    if kind == "zeros":
        return value * (random.random(shape) < 0.5)
    if kind == "row" and len(shape) == 2:
        return value * (np.arange(shape[0]) != random.integers(shape[0]))[:, None]
    if kind == "tiny":
        return value * choice(random, (1e-4, 1e-8, 1e-12, 1e-30, 1e-130))
    if kind == "huge":
        return value * choice(random, (1e4, 1e8, 1e30))
    if kind == "spread" and len(shape) == 2:
        return value * np.array([choice(random, (1.0, 1e-8, 1e8)) for _ in range(shape[0])])[:, None]
    return value


def _orthogonal(random: Random, shape: tuple[int, ...]) -> Any:
    """Rows that are orthonormal exactly, or to rounding."""
    rows, columns = shape
    if columns == 4 and chance(random, 0.5):
        signs = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
        return signs[random.permutation(4)[:rows]]
    if columns == 2 and chance(random, 0.5):
        return np.array([[0.6, 0.8], [-0.8, 0.6]])[random.permutation(2)[:rows]]
    if chance(random, 0.5):
        return np.eye(columns)[random.permutation(columns)[:rows]]
    return np.linalg.qr(random.normal(size=(columns, rows)))[0].T


@dataclass
class Style:
    """What is likely in one circuit."""

    unitary: float  # probability of semi-unitary weights
    reuse_layer: float
    reuse_parameter: float
    given: float  # probability that a weight has a value
    is_complex: float
    structured: bool
    blocks: bool  # input layers are rows of one matrix a variable that no other layer has
    apart: bool  # blocks are parameters of their own, which only begin as rows of one matrix
    fixed: float = 0.05

    @classmethod
    def drawn(cls, random: Random) -> Style:
        """A style at random."""
        blocks = chance(random, 0.25)
        return cls(
            unitary=1.0 if blocks else choice(random, (0.0, 0.5, 0.9, 1.0)),
            reuse_layer=0.0 if blocks and chance(random, 0.8) else choice(random, (0.0, 0.2, 0.5)),
            reuse_parameter=choice(random, (0.0, 0.0, 0.3, 0.7)),
            given=0.1 if blocks else choice(random, (0.0, 0.3, 0.8)),
            is_complex=choice(random, (0.0, 1.0, 0.5)),
            structured=chance(random, 0.6),
            blocks=blocks,
            apart=chance(random, 0.4),
            fixed=0.0 if blocks else choice(random, (0.0, 0.1)),
        )


class Sketch:
    """One circuit in the making, by hand.

    Args:
        program: its lines go there.
        random: the choices.
        columns: the variables.
        style: what is likely.
    """

    def __init__(self, program: Program, random: Random, columns: Columns, style: Style) -> None:
        self.program, self.random, self.style = program, random, style
        self.columns = {column.variable: column for column in columns.each}
        self.blocks = {block.scope: block for block in columns.blocks}
        self.layers: dict[frozenset[int], list[str]] = {}
        self.weights: list[str] = []
        self.numbers: list[str] = []  # learnable parameters of families
        self.splits: dict[frozenset[int], list[frozenset[int]]] = {}
        self.rows: dict[str, int] = {}  # matrix of a variable -> rows in use
        self.matrices: dict[tuple[str, str], str] = {}
        self.values: dict[str, Any] = {}
        self.left = 24  # layers that may still be made

    def circuit(self) -> str:
        """The name of a circuit, with weights or without."""
        random, scope = self.random, frozenset(self.columns)
        count = int(random.choice([1, 2, 3], p=[0.65, 0.25, 0.1]))
        roots = [self._root(scope) for _ in range(count)]
        if count > 1 and chance(random, 0.2):
            roots[-1] = roots[0]
        units = sum(self.units(root) for root in roots)
        options = "" if units > 12 or not chance(random, 0.3) else f", root_weights={self._simplex(units)}"
        shown = roots[0] if len(roots) == 1 else f"[{', '.join(roots)}]"
        name = self.program.let("c", f"sq.Circuit({shown}{options})")
        if chance(random, 0.6):
            self.program.do(f"{name} = {name}.initialise(seed={int(random.integers(1000))})")
        return name

    def units(self, layer: str) -> int:
        """The width of a layer."""
        return int(self.program.names[layer].units)

    def _simplex(self, units: int) -> str:
        weights = np.round(self.random.dirichlet(np.ones(units)), 2)
        if chance(self.random, 0.1):
            weights[0] = 0.0
        weights[-1] = max(0.0, round(1 - weights[:-1].sum(), 2))
        value = f", value={tensor(weights / weights.sum())}" if chance(self.random, 0.8) else ""
        return self.program.let("w", f"sq.Parameter(({units},), 'simplex', False{value})")

    def _root(self, scope: frozenset[int]) -> str:
        if chance(self.random, 0.8):
            return self.sum(scope, int(self.random.choice([1, 2, 3], p=[0.75, 0.2, 0.05])))
        return self.any(scope)

    def _keep(self, scope: frozenset[int], expression: str) -> str:
        name = self.program.let("a", expression)
        self.layers.setdefault(scope, []).append(name)
        self.left -= 1
        return name

    def any(self, scope: frozenset[int], units: int | None = None, depth: int = 0) -> str:
        """Some layer over a scope, new or not."""
        random = self.random
        known = [a for a in self.layers.get(scope, ()) if units in (None, self.units(a))]
        if known and (chance(random, self.style.reuse_layer) or self.left < 0):
            return str(choice(random, known))
        kind = random.random()
        if kind < 0.06 and depth < 3:
            return self._keep(
                scope, f"sq.{choice(random, ('Hadamard', 'Kronecker'))}({self.any(scope, units, depth + 1)})"
            )
        is_block = self._is_block(scope)
        if len(scope) == 1 or is_block:
            if kind < 0.3 and depth < 3:
                return self.sum(scope, units, depth)
            return self.leaf(scope, units, is_block)
        if (kind < 0.45 and depth < 3) or units is not None:
            return self.sum(scope, units, depth)
        return self.product(scope, depth)

    def _is_block(self, scope: frozenset[int]) -> bool:
        """Whether functions of all these variables at once are taken here."""
        if scope not in self.blocks:
            return False
        if self.style.structured and scope in self.splits:
            return self.splits[scope] == [scope]
        if not chance(self.random, 0.85):
            return False
        self.splits[scope] = [scope]
        return True

    def product(self, scope: frozenset[int], depth: int = 0) -> str:
        """A product over a scope of two variables or more."""
        parts = self._split(scope)
        kind = choice(self.random, ("Hadamard", "Kronecker"))
        if kind == "Hadamard":
            layers = [self.any(part, None, depth + 1) for part in parts]
            width = min(self.units(a) for a in layers)
            layers = [
                a if self.units(a) == width else self.sum_of(part, [a], width)
                for a, part in zip(layers, parts, strict=True)
            ]
        else:
            layers = [self._narrow(part, self.any(part, None, depth + 1)) for part in parts]
        return self._keep(scope, f"sq.{kind}([{', '.join(layers)}])")

    def _narrow(self, scope: frozenset[int], layer: str, most: int = 3) -> str:
        if self.units(layer) <= most:
            return layer
        return self.sum_of(scope, [layer], most)

    def _split(self, scope: frozenset[int]) -> list[frozenset[int]]:
        if self.style.structured and scope in self.splits and self.splits[scope] != [scope]:
            parts = self.splits[scope]
        elif any(each < scope for each in self.blocks) and chance(self.random, 0.8):
            (whole,) = self.blocks
            rest = self.random.permutation(sorted(scope - whole)).tolist()
            cut = int(self.random.integers(0, len(rest)))
            parts = [part for part in (whole, frozenset(rest[:cut]), frozenset(rest[cut:])) if part]
            self.splits[scope] = parts
        else:
            order = self.random.permutation(sorted(scope)).tolist()
            cuts = 1 if len(order) == 2 or chance(self.random, 0.7) else 2
            ends = sorted(self.random.choice(len(order) - 1, cuts, replace=False).tolist())
            bounds = [0, *(end + 1 for end in ends), len(order)]
            parts = [frozenset(order[a:b]) for a, b in itertools.pairwise(bounds)]
            self.splits[scope] = parts
        return [parts[i] for i in self.random.permutation(len(parts))]

    def sum(self, scope: frozenset[int], units: int | None = None, depth: int = 0) -> str:
        """A sum of one layer or several."""
        count = int(self.random.choice([1, 2, 3], p=[0.45, 0.4, 0.15]))
        products = len(scope) > 1 and chance(self.random, 0.7)
        inputs = [
            self.product(scope, depth + 1)
            if products and self.left > 0 and not self._is_block(scope)
            else self.any(scope, None, depth + 1)
            for _ in range(count)
        ]
        return self.sum_of(scope, inputs, units)

    def sum_of(self, scope: frozenset[int], inputs: list[str], units: int | None = None) -> str:
        """A sum of these layers."""
        available = sum(self.units(a) for a in inputs)
        if units is None and chance(self.random, self.style.reuse_parameter):
            wide = [w for w in self.weights if self.program.names[w].shape[1] == available]
            units = int(self.program.names[choice(self.random, wide)].shape[0]) if wide else None
        units = int(self.random.integers(1, 4)) if units is None else units
        shown = inputs[0] if len(inputs) == 1 else f"[{', '.join(inputs)}]"
        if chance(self.random, 0.15) and units <= available:
            return self._keep(scope, f"sq.Sum({shown}, {units})")
        return self._keep(scope, f"sq.Sum({shown}, weight={self.weight((units, available))})")

    def leaf(self, scope: frozenset[int], units: int | None, is_block: bool) -> str:
        """An input layer over one variable, or over a block."""
        random = self.random
        where, families = self._over(scope, is_block)
        family = choice(random, families)
        size = int(self.program.names[family].size)
        place = f"sq.Input({where}, {family}"
        learnt = self._learnt(family)
        if units in (None, size) and chance(random, 0.12) and not self.style.blocks:
            return self._keep(scope, f"{place}{learnt})")
        if self.style.blocks and self.program.names[family].is_orthonormal:
            return self._block(scope, where, family, size, units, learnt)
        units = int(random.integers(1, 4)) if units is None else units
        if units <= size and chance(random, 0.12):
            return self._keep(scope, f"{place}, {units}{learnt})")
        shared = [w for w in self.weights if self._fits(w, units, size)]
        if shared and chance(random, self.style.reuse_parameter):
            weight = str(choice(random, shared))
        else:
            weight = self.new_weight((units + int(random.integers(0, 2)) * int(random.integers(1, 3)), size))
        spare = int(self.program.names[weight].shape[0]) - units
        first = int(random.integers(0, spare + 1))
        return self._keep(scope, f"{place}, {units}, {weight}, {first}{learnt})")

    def _fits(self, weight: str, units: int, size: int) -> bool:
        shape = self.program.names[weight].shape
        return bool(shape[1] == size and shape[0] >= units)

    def _over(self, scope: frozenset[int], is_block: bool) -> tuple[str, list[str]]:
        """The variables of an input layer as text, and the families that it may have."""
        if not is_block:
            (variable,) = scope
            return str(variable), self.columns[variable].families
        found = self.blocks[scope]
        variables = found.variables if chance(self.random, 0.95) else tuple(reversed(found.variables))
        return str(variables), found.families

    def _block(
        self, scope: frozenset[int], where: str, family: str, size: int, units: int | None, learnt: str
    ) -> str:
        """Rows of the matrix of a variable that no other layer has, while there are some."""
        key = (where, family)
        if key not in self.matrices:
            is_complex = chance(self.random, self.style.is_complex)
            made = f"sq.Parameter(({size}, {size}), is_complex={is_complex})"
            self.matrices[key] = self.program.let("p", made)
            self.rows[self.matrices[key]] = 0
        weight = self.matrices[key]
        units = min(size, int(self.random.choice([1, 1, 2])) if units is None else units)
        first = self.rows[weight]
        if first + units > size:
            first = 0
        self.rows[weight] = first + units
        if self.style.apart:
            weight, first = self._rows_of(weight, size, first, units), 0
        return self._keep(scope, f"sq.Input({where}, {family}, {units}, {weight}, {first}{learnt})")

    def _rows_of(self, weight: str, size: int, first: int, units: int) -> str:
        """Rows of a matrix that belongs to a variable, as a weight of their own."""
        if weight not in self.values:
            self.values[weight] = _orthogonal(self.random, (size, size))
        value = tensor(self.values[weight][first : first + units])
        constraint = choice(self.random, ("semi-unitary", "semi-unitary", "free", "fixed"))
        if constraint == "free" and chance(self.random, 0.5):
            return value
        shape, is_complex = (units, size), chance(self.random, self.style.is_complex)
        return self.program.let("p", f"sq.Parameter({shape}, {constraint!r}, {is_complex}, value={value})")

    def _learnt(self, family: str) -> str:
        """Parameters of a family that are given, perhaps those of another layer or role."""
        initial = self.program.names[family].parameters()
        if not initial or chance(self.random, 0.4):
            return ""
        given = {}
        for role, value in initial.items():
            known = [n for n in self.numbers if self._alike(n, value)]
            if known and chance(self.random, 0.5):
                given[role] = str(choice(self.random, known))
            elif chance(self.random, 0.7):
                moved = value.numpy() + np.round(0.1 * self.random.normal(size=tuple(value.shape)), 2)
                made = f"sq.Parameter({tuple(value.shape)}, 'free', False, value={tensor(moved)})"
                given[role] = self.program.let("q", made)
                self.numbers.append(given[role])
        inner = ", ".join(f"{role!r}: {name}" for role, name in given.items())
        return f", parameters={{{inner}}}" if given else ""

    def _alike(self, name: str, value: Any) -> bool:
        """Of the same shape, and not a timestamp in place of a scale."""
        known = self.program.names[name].value
        return tuple(known.shape) == tuple(value.shape) and bool(((known - value).abs() < 1.5).all())

    def weight(self, shape: tuple[int, int]) -> str:
        """A weight of a sum, new or not."""
        same = [w for w in self.weights if tuple(self.program.names[w].shape) == shape]
        if same and chance(self.random, self.style.reuse_parameter):
            return str(choice(self.random, same))
        if chance(self.random, 0.08):
            return tensor(matrix(self.random, shape, chance(self.random, self.style.is_complex)))
        return self.new_weight(shape)

    def new_weight(self, shape: tuple[int, int]) -> str:
        """A new parameter."""
        random, style = self.random, self.style
        is_complex = chance(random, style.is_complex)
        constraint = "semi-unitary" if shape[0] <= shape[1] and chance(random, style.unitary) else "free"
        if chance(random, style.fixed):
            constraint = "fixed"
        value = ""
        if constraint == "fixed" or chance(random, style.given):
            drawn = matrix(random, shape, is_complex)
            if constraint != "free" and shape[0] <= shape[1] and chance(random, 0.7):
                drawn = _orthogonal(random, shape)
            value = f", value={tensor(drawn)}"
        name = self.program.let("p", f"sq.Parameter({shape}, {constraint!r}, {is_complex}{value})")
        self.weights.append(name)
        return name


# ---------------------------------------------------------------------- circuits of sq.build


def built(program: Program, random: Random, columns: Columns) -> str:
    """A circuit of ``sq.build`` over the variables 0, …, d − 1."""
    d = len(columns.each)
    regions = program.let("g", _regions(random, d))
    families = [column.families[0] for column in columns.each]
    shown = f"[{', '.join(families)}]" if len(set(families)) > 1 or chance(random, 0.5) else families[0]
    if len(set(families)) == 1 and d == 1:
        shown = f"[{families[0]}]"
    orthonormal = all(program.names[f].is_orthonormal for f in families)
    options = {
        "units": choice(random, (1, 2, 2, 3, [2, 1], [1, 3])),
        "product": choice(random, ("kronecker", "kronecker", "hadamard")),
        "roots": int(random.choice([1, 2, 3], p=[0.6, 0.3, 0.1])),
        "tie": choice(random, (None, None, "inputs", 1, 2)),
        "unitary": orthonormal and chance(random, 0.7),
        "is_complex": chance(random, 0.6),
        "mixing": chance(random, 0.85),
        "input_sums": chance(random, 0.2),
        "root_weights": choice(random, ("uniform", "learnable")),
        "components": int(random.choice([1, 2, 3], p=[0.7, 0.2, 0.1])),
    }
    inner = ", ".join(f"{name}={value!r}" for name, value in options.items())
    name = program.let("c", f"sq.build({regions}, {shown}, {inner})")
    if chance(random, 0.3):
        program.do(f"{name} = {name}.initialise(seed={int(random.integers(1000))})")
    return name


def _regions(random: Random, d: int) -> str:
    kinds = ["linear", "balanced", "random", "chow"]
    if d == 4:
        kinds += ["quad", "quad", "patch", "patch"]
    kind = choice(random, kinds)
    if kind == "linear":
        order = f", {random.permutation(d).tolist()}" if chance(random, 0.5) else ""
        return f"sq.regions.linear({d}{order})"
    if kind == "balanced":
        return f"sq.regions.balanced_tree({d})"
    if kind == "random":
        repetitions = 1 if d == 1 else int(random.integers(1, 3))
        return f"sq.regions.random_tree({d}, {int(random.integers(9))}, {repetitions})"
    if kind == "chow":
        return f"sq.regions.chow_liu({random.integers(2, size=(12, d)).tolist()})"
    if kind == "quad":
        return choice(
            random,
            (
                "sq.regions.quad_tree((2, 2))",
                "sq.regions.quad_tree((2, 2), 2)",
                "sq.regions.quad_tree((2, 2), 2, 'vh')",
            ),
        )
    return "sq.regions.patch_splits((2, 2), 2)"


# ---------------------------------------------------------------------- models


def circuit(program: Program, random: Random, own: Columns, style: Style) -> str:
    """A circuit by hand or built."""
    regular = [column.variable for column in own.each] == list(range(len(own.each)))
    if regular and chance(random, 0.1 if own.blocks else 0.3):
        return built(program, random, own)
    return Sketch(program, random, own, style).circuit()


def drawn_circuit(program: Program, random: Random) -> str:
    """A random circuit over random variables."""
    style = Style.drawn(random)
    return circuit(program, random, columns(program, random, wide=style.blocks), style)


def drawn_model(program: Program, random: Random) -> str:
    """A random model: of a circuit, of a recipe, or a mixture."""
    kind = random.random()
    if kind < 0.05:
        return program.let("m", _recipe(random))
    if kind < 0.1:
        return _fitted(program, random)
    style = Style.drawn(random)
    own = columns(program, random, wide=style.blocks)
    if kind > 0.85:
        return _mixture(program, random, own, style)
    return _model(program, random, circuit(program, random, own, style))


def _model(program: Program, random: Random, name: str) -> str:
    dtype = choice(random, ("complex64", "complex128", "complex128", "float64", "float32"))
    return program.let(
        "m", f"sq.SquaredCircuit({name}, seed={int(random.integers(100))}, dtype=torch.{dtype})"
    )


def _mixture(program: Program, random: Random, own: Columns, style: Style) -> str:
    count = int(random.choice([1, 2, 3], p=[0.05, 0.7, 0.25]))
    parts = []
    for number in range(count):
        if parts and chance(random, 0.25):
            parts.append(parts[0])
            continue
        each = style if number == 0 or chance(random, 0.5) else Style.drawn(random)
        parts.append(_model(program, random, circuit(program, random, own, each)))
    if chance(random, 0.2):
        rows = f"{parts[0]}.eval().sample(8, seed={int(random.integers(100))})"
        return program.let("m", f"sq.stack([{', '.join(parts)}], {rows})")
    weights = f", {[1.0, 2.5, 0.25][:count]}" if chance(random, 0.4) else ""
    return program.let("m", f"sq.mixture([{', '.join(parts)}]{weights})")


def _fitted(program: Program, random: Random) -> str:
    """What EM makes of a table, some columns of which are transformed, cut into bins, or categories."""
    width = int(random.integers(1, 4))
    data, maps, cut, states = np.round(random.normal(size=(14, width)), 2), [], [], {}
    for v in range(width):
        kind = choice(random, ("number", "number", "map", "bins", "category"))
        if kind == "map":
            maps.append(f"{v}: {program.let('t', monotone(random, ('line', 0.0, 1.0))[0])}")
        if kind == "bins":
            made = program.let("f", bins(random, ("line", 0.0, 1.0), 3))
            cut.append(f"{v}: {made}")
        if kind in ("bins", "category"):
            states[v] = program.names[made].size if kind == "bins" else int(random.integers(2, 4))
            data[:, v] = random.integers(states[v], size=14)
    covariance = choice(random, ("full", "diagonal", "tied", "low-rank"))
    if len(states) == width:
        covariance = "full"
    options = f"covariance={covariance!r}, categories={states}, iterations=4, seed={int(random.integers(9))}"
    options += ", rank=1" if covariance == "low-rank" else ""
    found = program.let(
        "r", f"sq.learning.fit_mixture({tensor(data)}, {int(random.integers(1, 4))}, {options})"
    )
    encoding = f"sq.learning.members.Encoding({{{', '.join(maps)}}}, {{{', '.join(cut)}}})"
    name = program.let("c", f"sq.learning.members.mixture_circuit({found}, {encoding}, {covariance!r})")
    return _model(program, random, name)


def _recipe(random: Random) -> str:
    dtype = choice(random, ("complex64", "complex128", "float32", "float64"))
    seed = int(random.integers(100))
    if chance(random, 0.5):
        shape = choice(random, ((2, 2), (1, 3), (2, 1), (1, 1), (2, 1, 2)))
        order = choice(random, ("", ", parts=2", ", parts=2, order='vh,hv'"))
        options = f"units=2, levels={int(random.integers(2, 4))}, roots={int(random.integers(1, 3))}{order}"
        return f"sq.image_model({shape}, {options}, seed={seed}, dtype=torch.{dtype})"
    data = np.column_stack(
        [random.integers(3, size=12), random.integers(2, size=12), np.round(random.normal(size=12), 2)]
    )
    data = data[:, : int(random.integers(1, 4))]
    trees = int(random.choice([1, 2]))
    options = f"units=2, roots=1, size=3, components={int(random.integers(1, 3))}, trees={trees}"
    options += (
        f", continuous={choice(random, ('transformed', 'transformed', 'bins', 'hermite', 'legendre'))!r}"
    )
    return f"sq.table_model({tensor(data)}, {options}, seed={seed}, dtype=torch.{dtype})"
