"""The distribution of every missing variable by itself, in one sweep up and one sweep down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from squircuit.circuits import Circuit
from squircuit.errors import ParameterError, StructureError, is_whole, suggestion
from squircuit.execution.precision import tf32
from squircuit.families.quadrature import gauss_legendre
from squircuit.inference.compile.compiled_circuit import Snapshot, constant
from squircuit.inference.coordinates import Coordinate, even_points, quantiles, shares
from squircuit.inference.coordinates import coordinates as coordinates_of
from squircuit.inference.evidence import Evidence, require_positive
from squircuit.inference.sampling.draws import draw_point
from squircuit.inference.upward.batches import batches, blocks, mixed_blocks
from squircuit.inference.upward.derivatives import Densities
from squircuit.inference.upward.finite import Range, not_finite
from squircuit.inference.upward.messages import log_total, messages
from squircuit.inference.upward.quadrature import Nodes, quadrature
from squircuit.progress import steps

FARTHEST = 1e12  #: the largest weight of a node in single precision: squares of functions there vanish
FEW = 4  #: rows; more of a circuit that is a tree of sums are computed together, whatever their masks


@final
@dataclass(frozen=True, eq=False)
class Marginals:
    """p(x_v | y) of every variable v that some row lacks, y being what that row shows.

    Of no rows at all, every variable has a table, without rows: parts of data can be put together.

    Args:
        points: variable → the states of a discrete variable, or the points at which a density is given: (Q,).
        values: variable → probabilities or densities there, (n, Q). In rows that show v: one at its state if
            it is discrete, else NaN, for a point mass has no density.
        mean: E[x_v | y], (n, d); the value itself where it is observed; NaN where tails are so heavy that it
            is infinite or is not found.
        variance: Var[x_v | y], (n, d); 0 where it is observed; NaN likewise.
        nodes: variable → its states, or the nodes at which it is integrated: (Q,).
        masses: variable → the probability of every node, (n, Q), zero in rows that show the variable. Of a
            variable of a block, whose mean and variance have closed forms, that of the cell around it.
        ranges: other continuous variable → the panels on which its nodes lie, 20 each, and its tails.
        coordinates: variable of a block → its distribution in closed form.
        missing: which rows lack a variable: (n, d).
        discrete: the discrete variables.
        names: of the variables, by which all that is asked of one may be asked, too; none: they have none.
    """

    points: Mapping[int, Tensor]
    values: Mapping[int, Tensor]
    mean: Tensor
    variance: Tensor
    nodes: Mapping[int, Tensor]
    masses: Mapping[int, Tensor]
    missing: Tensor
    discrete: frozenset[int]
    ranges: Mapping[int, Range]
    coordinates: Mapping[int, list[Coordinate]] = field(default_factory=dict)
    names: Sequence[str] = ()

    def mode(self, variable: int | str) -> Tensor:
        """The most probable of a variable's points in every row: (n,)."""
        variable = numbered(variable, self.names)
        return self.points[variable][self.values[variable].nan_to_num(0.0).argmax(dim=1)]

    def named(self, names: Sequence[str]) -> Marginals:
        """The same, in which variables may be asked for by these names, too."""
        parts = (self.points, self.values, self.nodes, self.masses)
        points, values, nodes, masses = (ByName(part, names) for part in parts)
        return replace(self, points=points, values=values, nodes=nodes, masses=masses, names=names)

    def quantiles(self, variable: int | str, levels: Sequence[float] | Tensor) -> Tensor:
        """The smallest x with P(x_v ≤ x | y) ≥ level, for every level: (n, L); NaN where a row shows v.

        Of a discrete variable a state, in the order of states; of a variable of a block to rounding; of
        others where the integral of the polynomials through the density at the nodes reaches the level.
        """
        variable = numbered(variable, self.names)
        asked = torch.as_tensor(levels, dtype=torch.float64, device=self.mean.device)
        if asked.ndim != 1 or not bool(((asked > 0) & (asked < 1)).all()):
            raise ParameterError(f"levels={levels!r}. Fix: pass numbers between 0 and 1, such as [0.9].")
        if variable not in self.coordinates and variable not in self.nodes:
            raise ParameterError(
                f"quantiles: no row lacks variable {variable}. Fix: ask for a variable that is missing."
            )
        if variable in self.coordinates:
            found = quantiles(self.coordinates[variable], len(self.mean), asked)
        else:
            found = self._quantiles_at_nodes(variable, asked)
        return torch.where(self.missing[:, variable, None], found, torch.nan)

    def _quantiles_at_nodes(self, variable: int, levels: Tensor) -> Tensor:
        nodes, masses = self.nodes[variable].double(), self.masses[variable].double()  # (Q,), (n, Q)
        if variable in self.discrete:
            reached, wanted = masses.cumsum(dim=1), levels.expand(len(masses), -1).contiguous()
            return nodes[torch.searchsorted(reached, wanted).clamp(max=len(nodes) - 1)]
        found = masses.new_full((len(masses), len(levels)), torch.nan)
        rows = torch.nonzero(self.missing[:, variable]).flatten()
        if len(rows):
            ends = self.ranges[variable].panels
            weights = gauss_legendre(ends)[1]
            density = torch.where(weights > 0, masses[rows] / weights, 0.0)
            every = torch.arange(len(rows), device=rows.device).repeat_interleave(len(levels))
            drawn = draw_point(density, ends, levels.repeat(len(rows)), every)
            found[rows] = drawn.reshape(len(rows), -1)
        return found


def numbered(name: Any, names: Sequence[str]) -> int:
    """The number of a variable that is asked for by its name; a number stays.

    Example:
        >>> numbered("age", ["sex", "age"]), numbered(0, ["sex", "age"])
        (1, 0)
    """
    if not isinstance(name, str):
        return name  # type: ignore[no-any-return]
    if name not in names:
        near = suggestion(name, names, all_known=False) if names else "pass the number of a variable."
        raise ParameterError(f"the model has no column {name!r}. Fix: {near}")
    return list(names).index(name)


class ByName(dict[Any, Tensor]):
    """A table for each of some variables, which have names as well.

    Example:
        >>> tables = ByName({1: torch.ones(2)}, ["sex", "age"])
        >>> tables["age"], list(tables)
        (tensor([1., 1.]), [1])
    """

    def __init__(self, tables: Mapping[int, Tensor], names: Sequence[str]) -> None:
        super().__init__(tables)
        self._names = names

    def __missing__(self, name: object) -> Tensor:
        variable = numbered(name, self._names)
        if variable in range(len(self._names)) and variable not in self:
            raise ParameterError(
                f"column {name!r} is observed in all rows. Fix: mark it in missing= where it is not known."
            )
        if variable not in self:
            raise ParameterError(
                f"there is no variable {name!r}. Fix: pass a name, or a number from 0 to "
                f"{len(self._names) - 1}."
            )
        return self[variable]


@tf32(False)
def marginals(
    snapshot: Snapshot, evidence: Evidence, grid: Mapping[int, Any] | None = None, tables: bool = True
) -> Marginals:
    """p(x_v | y) = ∂ log p(y) / ∂ ω_v for all missing v of all rows.

    Two sweeps (see :mod:`squircuit.inference.upward.quadrature`), whatever the number of missing variables;
    exact also where sums have several inputs, whose interference the last missing variable sees. Variables of
    blocks have no nodes but sums of Gaussians, see :mod:`squircuit.inference.coordinates`.

    Args:
        snapshot: of the model.
        evidence: n rows of positive probability.
        grid: continuous variable → points (Q,) at which its density is wanted; by default the nodes at which
            it is integrated, or of a variable of a block points that cover its distribution evenly.
        tables: whether the densities of variables of blocks are wanted, too.
    """
    evidence = Evidence(evidence.x.detach(), evidence.missing)  # these sweeps use gradients for themselves
    points, own = _as_grid(snapshot.circuit, _wanted(snapshot, evidence), grid), snapshot.real
    snapshot, nodes, of_blocks = questions(snapshot, evidence, points)
    found = {v: _nothing_yet(snapshot, evidence, nodes, v) for v in ([] if nodes is None else nodes.rows)}
    coordinates: dict[int, list[Coordinate]] = {v: [] for v in of_blocks}
    for sweep in sweeps(snapshot, evidence, nodes, of_blocks):
        for v, (rows, table) in sweep.tables.items():
            found[v][rows] = table.to(found[v].dtype)  # in double where digits were in doubt
        for v, coordinate in sweep.coordinates:
            coordinates[v].append(coordinate)
    discrete = frozenset(v for v, domain in snapshot.circuit.domains.items() if domain.is_discrete)
    ranges = {v: Range.of(snapshot, v) for v in found if v not in discrete}
    result = _collected(evidence, nodes, found, grid or {}, ranges, own, discrete)
    return _with_coordinates(result, evidence, coordinates, points, tables) if of_blocks else result


def _wanted(snapshot: Snapshot, evidence: Evidence) -> list[int]:
    """The variables that some row lacks, or all where there is no row."""
    missing = evidence.missing.any(dim=0).tolist()
    return [v for v in sorted(snapshot.circuit.scope) if missing[v] or not len(evidence)]


def questions(
    snapshot: Snapshot, evidence: Evidence, points: Mapping[int, Tensor] | None = None
) -> tuple[Snapshot, Nodes | None, frozenset[int]]:
    """What `sweeps` is asked: the nodes of missing variables, with further points, and those of blocks.

    The snapshot is one in double precision where single precision has nothing left soon: of products of
    Gaussians, and of integrals that go far out.
    """
    wanted = _wanted(snapshot, evidence)
    of_blocks = _in_blocks(snapshot, wanted)
    single = [v for v in wanted if v not in of_blocks]
    ours = {v: x for v, x in (points or {}).items() if v in single}
    nodes = quadrature(snapshot, single, ours) if single else None
    is_far = nodes is not None and bool((nodes.weights > FARTHEST).any())
    return snapshot.doubled() if of_blocks or is_far else snapshot, nodes, of_blocks


def moments(found: Marginals, evidence: Evidence, order: int) -> Tensor:
    """E[x_v^k | y] for k = 1 … order of every variable: (order, n, d)."""
    if not is_whole(order, 1):
        raise ParameterError(
            f"moments: order must be an integer ≥ 1, got {order!r}. Fix: pass a whole number from 1."
        )
    powers = torch.arange(1, order + 1, device=found.mean.device)
    result = found.mean.unsqueeze(0) ** powers[:, None, None]
    for v, parts in found.coordinates.items():
        result[:, evidence.missing[:, v], v] = 0.0
        for part in parts:
            for i, power in enumerate(powers.tolist()):
                found_power = part.expected(partial(torch.pow, exponent=power), growth=power)
                result[i, :, v].index_add_(0, part.rows, found_power.to(result))
    for v, mass in found.masses.items():
        if v in found.coordinates:
            continue
        keep = evidence.missing[:, v]
        x, rows = found.nodes[v].to(mass.dtype), mass[keep]
        for i, power in enumerate(powers.tolist()):
            integrand = rows * x**power
            reach = found.ranges.get(v)
            total = integrand.sum(dim=1) if reach is None else reach.total(x, integrand, power)
            result[i, keep, v] = total.to(result.dtype)
    return result


def require_moments(found: Marginals, values: Tensor, what: str) -> Tensor:
    """Moments that were found, (..., d), of which none is NaN, which stands for infinite or not found."""
    for v in sorted({*found.nodes, *found.coordinates}):
        if bool(values[..., v].isnan().any()):
            raise not_finite(f"column {found.names[v]!r}" if found.names else f"variable {v}", what)
    return values


class Sweep(NamedTuple):
    """What one sweep up and down has found of some rows."""

    tables: dict[int, tuple[Tensor, Tensor]]  #: variable → rows that lack it and its density at its nodes
    coordinates: list[tuple[int, Coordinate]]  #: variables of blocks


def _sweep(
    snapshot: Snapshot, evidence: Evidence, nodes: Nodes | None, watched: frozenset[int], rows: Tensor
) -> Sweep:
    """p(x_q | y) at all nodes, and Gaussians of the variables of blocks, for rows computed together."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        weights, weighted = None, None
        if nodes is not None:
            shape = (-1, len(evidence), -1)
            weights = nodes.weights.to(snapshot.real).expand(*shape).clone().requires_grad_()
            weighted = nodes.weighted(weights)
        plain = Evidence(constant(evidence.x), constant(evidence.missing))
        found = messages(snapshot.detached(), plain, weighted, watched)
        if snapshot.real == torch.float32 and bool(found.doubtful.any()):
            return _sweep(snapshot.doubled(), evidence, nodes, watched, rows)
        log_p = log_total(found)
        require_positive(log_p, rows)
        leaves = [*([] if weights is None else [weights]), *found.inputs.watched.values()]
        gradients = list(torch.autograd.grad(log_p.sum(), leaves)) if leaves else []
    densities = log_p.new_zeros(0, len(rows), 0) if weights is None else gradients.pop(0).clamp_min(0)
    with torch.no_grad():
        of_blocks = dict(zip(found.inputs.watched, gradients, strict=True))
        hidden = list(coordinates_of(found.inputs, of_blocks, rows))
    return Sweep({} if nodes is None else _tables(nodes, evidence.missing, densities.detach(), rows), hidden)


def _tables(
    nodes: Nodes, missing: Tensor, densities: Tensor, rows: Tensor
) -> dict[int, tuple[Tensor, Tensor]]:
    """The densities of rows that lack a variable: (V, B, Q) → variable → (m,) and (m, Q)."""
    by_all, found = missing.all(dim=0).tolist(), {}
    for v, row in nodes.rows.items():
        lacking = slice(None) if by_all[v] else missing[:, v]  # a slice is much quicker than a mask
        found[v] = rows[lacking], densities[row, lacking, : nodes.counts[row]]
    return found


def sweeps(
    snapshot: Snapshot, evidence: Evidence, nodes: Nodes | None, of_blocks: frozenset[int]
) -> Iterator[Sweep]:
    """All rows, some at a time; every row and variable comes once, variables of blocks in parts.

    Args:
        snapshot: of the model.
        evidence: the rows.
        nodes: of variables that have input layers of their own.
        of_blocks: variables of blocks.
    """
    if nodes is not None and not of_blocks and len(evidence) > FEW and snapshot.is_tree_of_sums:
        densities = Densities(snapshot, nodes)
        for rows in mixed_blocks(snapshot, evidence):
            found = densities.tables(evidence.take(rows), rows)
            yield Sweep({v: (rows[part], table) for v, (part, table) in found.items()}, [])
        return
    every = list(batches(snapshot, evidence))
    for batch in steps(every, [len(rows) for rows in every]):
        lacks = evidence.missing[batch].any(dim=0).tolist()
        variables = [v for v in ([] if nodes is None else nodes.rows) if lacks[v]]
        part = None if nodes is None or not variables else nodes.of(variables)
        watched = frozenset(v for v in of_blocks if lacks[v])
        parts = _blocks(snapshot, evidence, batch, part, watched)
        for rows in steps(parts, [len(rows) for rows in parts]):
            yield _sweep(snapshot, evidence.take(rows), part, watched, rows)


def _in_blocks(snapshot: Snapshot, wanted: list[int]) -> frozenset[int]:
    """The variables whose input layers are over blocks."""
    found = frozenset(v for v in wanted if snapshot.is_in_block(v))
    for v in found:
        if not all(group.is_block for group, _ in snapshot.inputs[v]):
            raise StructureError(
                "over blocks or over single variables",
                f"the input layers over variable {v}",
                "some are over a block and some over this variable alone, so that its distribution is a sum "
                "of Gaussians and of other functions",
                "ask for log_prob or samples, or give this variable layers of one kind",
            )
    return found


def _with_coordinates(
    result: Marginals,
    evidence: Evidence,
    coordinates: Mapping[int, list[Coordinate]],
    grid: Mapping[int, Tensor],
    tables: bool,
) -> Marginals:
    """The marginals with what is known of the variables of blocks."""
    mean, variance = result.mean.clone(), result.variance.clone()
    points, values, nodes, masses = (
        dict(table) for table in (result.points, result.values, result.nodes, result.masses)
    )
    for v, parts in coordinates.items():
        missing = evidence.missing[:, v]
        expected, spread = _moments_of(parts, len(evidence), mean.device)
        mean[:, v] = torch.where(missing, expected.to(mean), mean[:, v])
        variance[:, v] = torch.where(missing, spread.clamp_min(0), 0.0).to(variance)
        if tables:
            nodes[v] = even_points(parts)
            points[v] = grid[v].to(expected) if v in grid else nodes[v]
            values[v] = _density_table(parts, missing, points[v]).to(mean.dtype)
            masses[v] = shares(parts, missing, nodes[v])
    return replace(
        result,
        points=points,
        values=values,
        mean=mean,
        variance=variance,
        nodes=nodes,
        masses=masses,
        coordinates=coordinates,
    )


def _moments_of(parts: list[Coordinate], rows: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """E[x_v | y] and Var[x_v | y]: (n,) each, 0 in rows that show the variable."""
    mean = torch.zeros(rows, dtype=torch.float64, device=device)
    variance = torch.zeros_like(mean)
    for part in parts:
        mean.index_add_(0, part.rows, part.mean())
    for part in parts:
        variance.index_add_(0, part.rows, part.spread(mean[part.rows]))
    return mean, variance


def _density_table(parts: list[Coordinate], missing: Tensor, points: Tensor) -> Tensor:
    """p(x_v | y) at some points, NaN in rows that show the variable: (n, Q) float64."""
    table = torch.zeros(len(missing), len(points), dtype=torch.float64, device=points.device)
    for part in parts:
        table.index_add_(0, part.rows, part.density(points))
    return torch.where(missing.unsqueeze(1), table.clamp_min(0), torch.nan)


def _blocks(
    snapshot: Snapshot, evidence: Evidence, batch: Tensor, nodes: Nodes | None, watched: frozenset[int]
) -> list[Tensor]:
    weighted = watched if nodes is None else watched | frozenset(nodes.rows)
    schedule = snapshot.schedule(evidence.missing[batch], weighted)
    widest = max(snapshot.plan.pools)
    entries = 1 if nodes is None else nodes.points.numel() * widest
    return list(blocks(batch, schedule, entries))


def _nothing_yet(snapshot: Snapshot, evidence: Evidence, nodes: Nodes | None, variable: int) -> Tensor:
    """The rows that show the variable: one at its state, or NaN."""
    assert nodes is not None
    count = nodes.counts[nodes.rows[variable]]
    shape = (len(evidence), count)
    if not snapshot.circuit.domains[variable].is_discrete:
        return torch.full(shape, torch.nan, dtype=snapshot.real, device=snapshot.device)
    table = torch.zeros(shape, dtype=snapshot.real, device=snapshot.device)
    state = torch.where(evidence.missing[:, variable], 0, evidence.x[:, variable].long())
    return table.scatter(1, state.unsqueeze(1), 1.0)


def _collected(
    evidence: Evidence,
    nodes: Nodes | None,
    found: dict[int, Tensor],
    grid: Mapping[int, Any],
    ranges: Mapping[int, Range],
    dtype: torch.dtype,
    discrete: frozenset[int],
) -> Marginals:
    # in double precision, since points that differ by little may be large
    exact = torch.promote_types(dtype, evidence.x.dtype)
    mean, variance = evidence.x.to(exact).clone(), torch.zeros_like(evidence.x, dtype=exact)
    points, values, rules, masses = {}, {}, {}, {}
    for v, table in found.items():
        assert nodes is not None
        rules[v], w = nodes.rule(v)
        x, missing = rules[v], evidence.missing[:, v]
        mass = torch.where(missing.unsqueeze(1), table[:, : len(x)].double() * w, 0.0)
        total = mass.sum(dim=1, keepdim=True)
        masses[v] = mass = torch.where(total > 0, mass / total, 0.0)
        table = torch.where(missing.unsqueeze(1), (table / total).to(dtype), table)
        expected = mass @ x
        squares = mass * (x - expected.unsqueeze(1)).square()
        if v in ranges:
            expected = ranges[v].total(x, mass * x, 1)
            spread = ranges[v].total(x, squares, 2)
        else:
            spread = squares.sum(dim=1)
        mean[:, v] = torch.where(missing, expected.to(exact), mean[:, v])
        variance[:, v] = spread.to(exact)
        shown = slice(len(x), None) if v in grid else slice(0, len(x))
        points[v], values[v] = nodes.points[nodes.rows[v], : table.shape[1]][shown], table[:, shown]
    return Marginals(points, values, mean, variance, rules, masses, evidence.missing, discrete, ranges)


def _as_grid(circuit: Circuit, wanted: list[int], grid: Mapping[int, Any] | None) -> dict[int, Tensor]:
    if grid is not None and not isinstance(grid, Mapping):
        raise ParameterError(
            f"grid maps variables to points, e.g. {{2: torch.linspace(-3, 3, 61)}}; got {grid!r}"
            ". Fix: pass such a mapping."
        )
    points = {v: _as_points(v, x) for v, x in (grid or {}).items()}
    for v, x in points.items():
        if v not in circuit.domains:
            raise ParameterError(
                f"grid: {v!r} is no variable of the circuit, {sorted(circuit.domains)}"
                ". Fix: pass points of one of these."
            )
        if v not in wanted or circuit.domains[v].is_discrete:
            what = "discrete" if v in circuit.domains and circuit.domains[v].is_discrete else "not missing"
            raise ParameterError(
                f"grid: variable {v} is {what}. Fix: give points for continuous missing variables"
            )
        if x.ndim != 1:
            raise ParameterError(
                f"grid: the points of variable {v} have shape {tuple(x.shape)}. Fix: pass (Q,)"
            )
    return points


def _as_points(variable: int, x: Any) -> Tensor:
    try:
        points = torch.as_tensor(x, dtype=torch.float64).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ParameterError(
            f"grid: the points of variable {variable} are no numbers: {error}. Fix: pass (Q,) numbers."
        ) from error
    if bool(points.isnan().any()):
        raise ParameterError(f"grid: the points of variable {variable} hold NaN. Fix: pass finite points.")
    return points
