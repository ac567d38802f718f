"""From a region graph to a circuit: one sum layer a region, one product layer a partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from squircuit.circuits.circuit import Circuit
from squircuit.circuits.layers import Hadamard, Input, Kronecker, Layer, Sum
from squircuit.circuits.parameter import Constraint, Parameter
from squircuit.errors import ParameterError, StructureError
from squircuit.families import Family
from squircuit.regions import Region, RegionGraph

Product: TypeAlias = Literal["kronecker", "hadamard"]
Tie: TypeAlias = Literal["inputs"] | int | None
Units: TypeAlias = int | Sequence[int]


def build(
    regions: RegionGraph,
    family: Family | Sequence[Family],
    units: Units,
    product: Product = "kronecker",
    roots: int = 1,
    tie: Tie = None,
    *,
    unitary: bool = True,
    is_complex: bool = True,
    mixing: bool = True,
    input_sums: bool = False,
    root_weights: Literal["uniform", "learnable"] = "uniform",
    components: int = 1,
) -> Circuit:
    """The circuit of a region graph, as in the paper's experiments (App. "Image Distribution Estimation").

    A leaf region becomes an input layer of K units; a partition becomes a product layer; a region
    becomes a sum layer over the products of its partitions. Several leaves over one variable are
    mutually orthogonal blocks of rows of one semi-unitary matrix (U1), and where alternatives share
    no sub-region, (U4) holds as well.

    Args:
        regions: which variables are split how, see :mod:`squircuit.regions`.
        family: the input functions of every variable, or a list with one family a variable.
        units: K, or a list of K by level: of the inputs, of the lowest sums, and so on; the last is that
            of all levels above. A unitary Kronecker circuit uses fewer units where the inputs of a layer
            span fewer dimensions (a binary variable has two orthonormal functions, not eight).
        product: ``"kronecker"`` or ``"hadamard"``.
        roots: R, the number of root units.
        tie: ``"inputs"`` (or 0) shares one input weight among all variables with the same family;
            a number L shares, besides, one sum weight a shape in each of the L lowest levels, among regions
            over the same families: channels of one number of levels share, brightness and colours do not.
        unitary: semi-unitary weights; False gives the baseline of free weights (±² in the paper).
        is_complex: complex weights; False gives real ones.
        mixing: input layers are K mixtures of the family's functions; False: the functions themselves.
        input_sums: add a K×K sum on top of every input layer (the paper's benchmark set-up).
        root_weights: weights of the root units in p = Σ_r π_r |c_r|².
        components: M circuits with sums of their own above the same inputs and tied levels, which are mixed:
            R root units each, M·R in all. The root units of one component are orthogonal to each other; those
            of different components need not be (docs/models.md, "Mixtures").

    Example:
        >>> from squircuit.families import Categorical
        >>> from squircuit.regions import quad_tree
        >>> circuit = build(quad_tree((28, 28)), Categorical(256), units=8)
        >>> circuit.num_parameters()
        20133888
    """
    if not isinstance(regions, RegionGraph):
        raise ParameterError(
            f"build: regions must be a RegionGraph such as quad_tree((28, 28)), got {regions!r}"
            ". Fix: pass one of sq.regions."
        )
    settings = _Settings(regions, _families(regions, family), units, product, roots, tie, unitary, is_complex)
    _check(settings, mixing, root_weights)
    _check_count("components", components)
    made = [_component(settings, number, mixing, input_sums) for number in range(components)]
    count, learnable = (components * roots,), root_weights == "learnable"
    simplex = Parameter(count, Constraint.SIMPLEX, is_complex=False, name="roots") if learnable else None
    return Circuit(made, root_weights=simplex)


@dataclass
class _Settings:
    """The choices of one call to ``build``, and the parameters made so far."""

    regions: RegionGraph
    families: Sequence[Family]
    units: Units
    product: Product
    roots: int
    tie: Tie
    unitary: bool
    is_complex: bool
    made: dict[str, Parameter] = field(default_factory=dict)
    shared: dict[int, Layer] = field(default_factory=dict)  # region -> its layer, which components share
    used_rows: Counter[int] = field(default_factory=Counter)  # variable -> rows given to its leaves

    def __post_init__(self) -> None:
        self.heights = self.regions.heights()
        leaves = (region for region in self.regions.regions if not region.partitions)
        self.leaf_counts = Counter(_variable(region) for region in leaves)
        self.kinds = [self.families.index(family) for family in self.families]  # all 0: there is one kind

    @property
    def tied_levels(self) -> int:
        """−1: nothing is tied; 0: inputs; L: inputs and the L lowest levels of sums."""
        if self.tie is None:
            return -1
        return 0 if self.tie == "inputs" else int(self.tie)

    @property
    def last(self) -> int:
        """The region of the root."""
        return len(self.regions.regions) - 1

    def is_shared(self, index: int) -> bool:
        """All components have the same layer there: of inputs and of tied levels."""
        return self.regions.regions[index].is_leaf or self.is_tied(index)

    def is_tied(self, index: int) -> bool:
        """All sums of one shape at that height have one weight."""
        return self.heights[index] <= self.tied_levels and index != self.last

    def kind(self, index: int) -> str:
        """Which families are below a region, where there are several: what differs in this shares nothing."""
        found = {self.kinds[variable] for variable in self.regions.regions[index].scope}
        return ".of" + "+".join(map(str, sorted(found))) if any(self.kinds) else ""

    def parameter(self, name: str, shape: tuple[int, int]) -> Parameter:
        constraint = Constraint.SEMI_UNITARY if self.unitary else Constraint.FREE
        if name not in self.made:
            self.made[name] = Parameter(shape, constraint, self.is_complex, name)
        return self.made[name]

    def width(self, available: int, height: int) -> int:
        """K units, or as many as are available where rows must stay orthonormal."""
        levels = [self.units] if isinstance(self.units, int) else self.units
        wanted = levels[min(height, len(levels) - 1)]
        return min(wanted, available) if self.unitary and self.product == "kronecker" else wanted


def _component(settings: _Settings, number: int, mixing: bool, input_sums: bool) -> Layer:
    """The root layer of one component: a layer for each region, from the leaves up."""
    layers: list[Layer] = []
    for index, region in enumerate(settings.regions.regions):
        layer = settings.shared.get(index)
        if layer is None and region.is_leaf:
            layer = _leaf(settings, index, mixing, input_sums and index != settings.last)
        elif layer is None:
            products = [_product(settings, [layers[i] for i in partition]) for partition in region.partitions]
            layer = _sum(settings, index, products, number)
        if settings.is_shared(index):
            settings.shared[index] = layer
        layers.append(layer)
    has_sum = settings.regions.regions[-1].partitions  # of one variable there is an input layer alone
    return layers[-1] if has_sum else _sum(settings, settings.last, layers[-1:], number)


def _leaf(settings: _Settings, index: int, mixing: bool, input_sum: bool) -> Layer:
    layer = _input(settings, settings.regions.regions[index], mixing)
    if not input_sum:
        return layer
    name = _leaf_name(settings, index, layer.units)
    return Sum(layer, weight=settings.parameter(name, (layer.units,) * 2))


def _product(settings: _Settings, inputs: list[Layer]) -> Layer:
    return Kronecker(inputs) if settings.product == "kronecker" else Hadamard(inputs)


def _sum(settings: _Settings, index: int, inputs: list[Layer], component: int) -> Layer:
    available, is_root = sum(layer.units for layer in inputs), index == settings.last
    is_tied = settings.is_tied(index)
    height = settings.heights[index]
    units = settings.roots if is_root else settings.width(available, height)
    name = f"level{height}.{units}x{available}{settings.kind(index)}" if is_tied else f"region{index}"
    if is_root and settings.unitary and units > available:
        raise StructureError(
            "semi-unitary (U3)",
            "root",
            f"{units} root units over {available} inputs",
            f"use roots ≤ {available}",
        )
    name = f"component{component}.{name}" if component else name
    return Sum(inputs, weight=settings.parameter(name, (units, available)))


def _input(settings: _Settings, region: Region, mixing: bool) -> Input:
    variable = _variable(region)
    family = settings.families[variable]
    parameters = {
        name: Parameter(tuple(value.shape), Constraint.FREE, False, f"x{variable}.{name}", value)
        for name, value in family.parameters().items()
        if f"x{variable}.{name}" not in settings.made
    }
    settings.made.update({f"x{variable}.{name}": p for name, p in parameters.items()})
    shared = {name: settings.made[f"x{variable}.{name}"] for name in family.parameters()}
    if not mixing:
        return Input(variable, family, parameters=shared)
    blocks = settings.leaf_counts[variable]
    units = settings.width(family.size // blocks, height=0)
    _check_fits(settings, variable, family, units, blocks)
    name = (
        f"inputs.{settings.families.index(family)}.{blocks}" if settings.tied_levels >= 0 else f"x{variable}"
    )
    first_row = settings.used_rows[variable]
    settings.used_rows[variable] += units
    weight = settings.parameter(name, (units * blocks, family.size))
    return Input(variable, family, units, weight, first_row, shared)


def _leaf_name(settings: _Settings, index: int, units: int) -> str:
    return f"inputs.sum{units}" if settings.tied_levels >= 0 else f"region{index}"


def _variable(leaf: Region) -> int:
    (variable,) = leaf.scope
    return variable


def _families(regions: RegionGraph, family: Family | Sequence[Family]) -> Sequence[Family]:
    if isinstance(family, Family):
        return [family] * regions.num_variables
    if isinstance(family, type) or not isinstance(family, Sequence):
        raise ParameterError(
            f"build: family must be a family such as Categorical(256), or a list of them, got {family!r}"
            ". Fix: pass one, such as sq.Categorical(256)."
        )
    families = list(family)
    if len(families) != regions.num_variables:
        raise ParameterError(
            f"build: {len(families)} families for {regions.num_variables} variables. "
            "Fix: pass one for each, or one for all."
        )
    return families


def _check(settings: _Settings, mixing: bool, root_weights: str) -> None:
    _check_count("roots", settings.roots)
    units: Any = settings.units
    is_list = isinstance(units, Sequence) and not isinstance(units, str) and len(units) > 0
    for value in units if is_list else [units]:
        _check_count("units", value)
    if settings.product not in ("kronecker", "hadamard"):
        raise ParameterError(
            f"build: product must be 'kronecker' or 'hadamard', got {settings.product!r}"
            ". Fix: pass one of the two."
        )
    if root_weights not in ("uniform", "learnable"):
        raise ParameterError(
            f"build: root_weights must be 'uniform' or 'learnable', got {root_weights!r}"
            ". Fix: pass one of the two."
        )
    tie = settings.tie
    if not (tie is None or tie == "inputs" or (isinstance(tie, int) and tie >= 0)):
        raise ParameterError(
            f"build: tie must be None, 'inputs' or a number of levels ≥ 0, got {tie!r}"
            ". Fix: pass one of these."
        )
    for variable, family in enumerate(settings.families):
        _check_family(settings, variable, family, mixing)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(
            f"build: {name} must be an integer ≥ 1, got {value!r}. Fix: pass a whole number from 1."
        )


def _check_family(settings: _Settings, variable: int, family: Family, mixing: bool) -> None:
    if not isinstance(family, Family):
        raise ParameterError(
            f"build: {family!r} for variable {variable} is not a family of functions"
            ". Fix: pass one, such as sq.Categorical(256)."
        )
    if settings.unitary and not family.is_orthonormal:
        raise StructureError(
            "orthonormal (U1)",
            f"variable {variable}",
            f"the functions of {type(family).__name__} are not orthonormal",
            "use an orthonormal family (Orthonormalised makes one of any), or unitary=False",
        )
    blocks = settings.leaf_counts[variable]
    if not mixing and (blocks > 1 and settings.unitary):
        raise StructureError(
            "orthonormal (U1)",
            f"variable {variable}",
            f"{blocks} input layers would hold the same functions",
            "use mixing=True, which gives them orthogonal blocks",
        )


def _check_fits(settings: _Settings, variable: int, family: Family, units: int, blocks: int) -> None:
    if settings.unitary and (units < 1 or units * blocks > family.size):
        most = family.size // blocks
        raise StructureError(
            "orthonormal (U1)",
            f"variable {variable}",
            f"{blocks} × {max(units, 1)} orthonormal functions do not fit in a basis of {family.size}",
            f"use units ≤ {most}, or a larger family"
            if most
            else "use a larger family or fewer alternatives",
        )
