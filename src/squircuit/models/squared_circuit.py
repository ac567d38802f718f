"""A circuit as a torch module: the density p(x) = Σ_r π_r |c_r(x)|² / Z, ready for training."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, final

import torch
from torch import Tensor, nn

from squircuit.circuits import Circuit, Constraint
from squircuit.data import Schema
from squircuit.errors import ParameterError
from squircuit.execution.graph import CapturedStep
from squircuit.execution.inputs import evaluate_inputs
from squircuit.execution.network import Network
from squircuit.execution.partition import GramPropagation, has_cross_terms
from squircuit.execution.placed import Placed
from squircuit.execution.plan import InputGroup, Plan, make_plan
from squircuit.execution.precision import double as in_double
from squircuit.execution.precision import past_underflow
from squircuit.inference.evidence import has_gaps, require_data
from squircuit.inference.likelihood import log_marginal
from squircuit.inference.query_form import QueryForm
from squircuit.inference.snapshot import Snapshot
from squircuit.models.queries import Queries
from squircuit.models.saving import save
from squircuit.properties import is_unitary
from squircuit.reference.inner_product import root_norms

NUMBERS = 1 << 24
"""Weights that are in double precision at a time."""


@final
class SquaredCircuit(Queries, nn.Module):
    """p(x) = Σ_r π_r |c_r(x)|² / Z of a circuit, with the weights of equal layers stacked.

    Where the circuit is unitary, and its parameters are declared semi-unitary so that optimisers keep it so,
    Z = 1 and is not computed. Otherwise log Z is computed with every call, once a batch, by propagating Gram
    matrices. Train unitary models with :class:`squircuit.optim.Polar` or POGO: optimisers that leave the
    manifold (torch's own; a little, the landing methods) make a training loss that flatters the model.

    Args:
        circuit: with weights, or without: then they are drawn from ``seed``.
        seed: of the initial weights.
        dtype: complex64 or complex128 (float32 or float64 for real circuits is chosen to match).

    Attributes:
        schema: the columns of the table that the model is of, or None; kept in files, never needed.
        shape: of the images that the model is of, such as (28, 28), or None; likewise.
        notes: JSON data in the user's words, likewise.

    Example:
        >>> import squircuit as sq
        >>> model = SquaredCircuit(sq.build(sq.regions.quad_tree((4, 4)), sq.Categorical(8), units=4))
        >>> model.log_prob(torch.zeros(3, 16, dtype=torch.long)).shape
        torch.Size([3])
        >>> abs(model.log_partition().item()) < 1e-5
        True
    """

    _zero: Tensor  # knows the precision and the device

    def __init__(self, circuit: Circuit, seed: int = 0, dtype: torch.dtype = torch.complex64) -> None:
        super().__init__()
        if not isinstance(circuit, Circuit):
            raise ParameterError(f"SquaredCircuit needs a Circuit, e.g. of squircuit.build, got {circuit!r}")
        _require_precision(dtype)
        structure = circuit if circuit.has_weights else circuit.initialise(seed)
        self.structure = Circuit(circuit.roots, root_weights=circuit.root_weights, validate=circuit.validated)
        self.plan: Plan = make_plan(circuit)
        self.is_unitary = _stays_unitary(circuit)
        self.schema: Schema | None = None
        self.shape: tuple[int, ...] | None = None
        self.notes: dict[str, Any] = {}
        self._network = Network(self.plan)
        self._placed = Placed(self._input_groups)
        self._forms: dict[bool, QueryForm] = {}  # made by the first query
        self._looked_at: tuple[tuple[object, ...], bool] | None = None
        real = dtype.to_real()
        self._is_complex = circuit.is_complex
        for stack in self.plan.stacks:
            kind = real.to_complex() if stack.is_complex else real
            value = torch.stack([structure.weights[name].to(kind) for name in stack.parameters])
            self._hold(stack.name, value, stack.constraint)
        self.learnt = self._hold_learnt(structure, real)
        if circuit.root_weights is not None:
            self._hold("root_logits", structure.mixture.log().to(real), "free")
        for number, group in enumerate(self._input_groups):
            self.register_buffer(f"_columns{number}", torch.tensor(group.variables), persistent=False)
        self.register_buffer("_zero", torch.zeros((), dtype=real), persistent=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of copies and pickles, which lose what parameters say of themselves."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        declared = {stack.name: stack.constraint for stack in self.plan.stacks}
        for name, parameter in self.named_parameters():
            parameter.constraint = declared.get(name, Constraint.FREE)  # type: ignore[attr-defined]

    def _hold(self, name: str, value: Tensor, constraint: str) -> None:
        """A parameter that knows its constraint; fixed ones are buffers."""
        if constraint == Constraint.FIXED:
            self.register_buffer(name, value)
            return
        parameter = nn.Parameter(value)
        parameter.constraint = constraint  # type: ignore[attr-defined]
        self.register_parameter(name, parameter)

    def _hold_learnt(self, circuit: Circuit, real: torch.dtype) -> dict[str, tuple[str, int]]:
        """Shifts, locations, scales of input functions, stacked by what they are: name -> (stack, entry)."""
        stacks: dict[str, list[str]] = {}
        for group in self._input_groups:
            for role, members in group.learnt.items():
                stack = f"{type(group.family).__name__.lower()}_{role.replace('.', '_')}"
                stacks.setdefault(stack, []).extend(members)
        places: dict[str, tuple[str, int]] = {}
        for stack, names in stacks.items():
            distinct = [name for name in dict.fromkeys(names) if name not in places]
            places.update({name: (stack, i) for i, name in enumerate(distinct)})
            self._hold(stack, torch.stack([circuit.weights[name] for name in distinct]).to(real), "free")
        return places

    @property
    def _input_groups(self) -> list[InputGroup]:
        return [group for group in self.plan.groups if isinstance(group, InputGroup)]

    # ------------------------------------------------------------------ weights

    def stacks(self) -> list[Tensor]:
        """The stacked weights in the order of the plan, (S, K1, K2) each."""
        return [getattr(self, stack.name) for stack in self.plan.stacks]

    def weights(self) -> dict[str, Tensor]:
        """The value of every parameter of the circuit, by its name there."""
        values = {
            name: getattr(self, stack.name)[i]
            for stack in self.plan.stacks
            for i, name in enumerate(stack.parameters)
        }
        values |= {name: getattr(self, stack)[i] for name, (stack, i) in self.learnt.items()}
        pi = self.structure.root_weights
        return values if pi is None else {**values, self.structure.parameter_name(pi): self.mixture()}

    def circuit(self) -> Circuit:
        """The circuit with the model's present weights, detached: for checks and exact algorithms."""
        return self.structure.with_weights({n: v.detach().cpu() for n, v in self.weights().items()})

    def mixture(self) -> Tensor:
        """π, the weights of the root units: (R,)."""
        logits: Tensor | None = getattr(self, "root_logits", None)
        if logits is not None:
            return torch.softmax(logits, dim=0)
        count = self.structure.num_roots
        return torch.full((count,), 1 / count, dtype=self._zero.dtype, device=self._zero.device)

    def _log_mixture(self) -> Tensor:
        logits: Tensor | None = getattr(self, "root_logits", None)
        return self.mixture().log() if logits is None else torch.log_softmax(logits, dim=0)

    def save(self, path: str | PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
        """Write the model to one file, from which :func:`squircuit.load` makes it again.

        The file is there completely or not at all; it is safetensors and holds no program.

        Args:
            path: of the file, such as "digits.safetensors".
            notes: JSON data to be kept with it, e.g. how it was trained; default ``model.notes``.

        Raises:
            FormatError: if the file cannot be written, or an input function is of a class of your own.
            ParameterError: if weights are not finite, or notes no JSON data.
        """
        save(self, path, self.notes if notes is None else notes)

    # ------------------------------------------------------------------ density

    def to(self, *args: Any, **kwargs: Any) -> SquaredCircuit:
        """Move to a device or a precision; complex stays complex: to(torch.float64) makes complex128."""
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if dtype is not None:
            _require_precision(dtype)

        def move(value: Tensor) -> Tensor:
            if dtype is None or not (value.is_floating_point() or value.is_complex()):
                return value.to(device, non_blocking=non_blocking)
            real = dtype.to_real()
            return value.to(device, real.to_complex() if value.is_complex() else real, non_blocking)

        self._apply(move)  # type: ignore[no-untyped-call]
        return self

    def double(self) -> SquaredCircuit:
        """To double precision."""
        return self.to(torch.float64)

    def half(self) -> SquaredCircuit:
        """Refused: half precision does not hold a density."""
        return self.to(torch.float16)

    def bfloat16(self) -> SquaredCircuit:
        """Refused, like :meth:`half`."""
        return self.to(torch.bfloat16)

    def float(self) -> SquaredCircuit:
        """To single precision."""
        return self.to(torch.float32)

    @property
    def precision(self) -> torch.dtype:
        """float32 or float64, also where weights are complex."""
        return self._zero.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._zero.device

    def extra_repr(self) -> str:
        """What the model is, in one line."""
        kind = "unitary" if self.is_unitary else "squared"
        numbers = sum(p.numel() * (2 if p.is_complex() else 1) for p in self.parameters())
        return f"{kind}, {self.structure.num_variables} variables, {numbers:,} parameters"

    def forward(self, x: Any, missing: Any = None) -> Tensor:
        """log p(x): see :meth:`log_prob`."""
        return self.log_prob(x, missing)

    def log_prob(self, x: Any, missing: Any = None) -> Tensor:
        """log p of the observed entries of every row: (n, d) → (n,), exact and normalised; −inf where p is 0.

        Args:
            x: rows of data; NaN in the column of a continuous variable means missing.
            missing: booleans, True = marginalised, (d,) for all rows or (n, d).
        """
        return self._log_prob(x, missing, components=False)

    def component_log_prob(self, x: Any, missing: Any = None) -> Tensor:
        """log p(m, x) of the circuits m = 1 … M that are mixed: (n, d) → (n, M), exact and normalised.

        These are the root layers: the models of :func:`squircuit.mixture`, the ``components`` or trees.
        Σ_m p(m, x) = p(x), and the softmax over m is p(m | x), to which circuit a row belongs.

        Args:
            x, missing: as for :meth:`log_prob`.

        Example:
            >>> import squircuit as sq
            >>> circuit = sq.build(sq.regions.balanced_tree(4), sq.Categorical(2), units=2, components=3)
            >>> model, x = SquaredCircuit(circuit), [[0, 1, 1, 0], [1, 1, 1, 1]]
            >>> terms = model.component_log_prob(x)
            >>> terms.shape, bool(torch.allclose(terms.logsumexp(dim=1), model.log_prob(x)))
            (torch.Size([2, 3]), True)
        """
        return self._log_prob(x, missing, components=True)

    def component_log_weights(self) -> Tensor:
        """log p(m), the shares of the circuits that are mixed, which sum to 1: (M,)."""
        logs = self._log_mixture()
        if not (self.is_unitary and (self._trains or self.is_normalised())):
            logs = logs + self._log_norms(double=False).to(logs)
        parts = torch.split(logs, [root.units for root in self.structure.roots])
        return torch.log_softmax(torch.stack([part.logsumexp(dim=0) for part in parts]), dim=0)

    def _log_prob(self, x: Any, missing: Any, components: bool) -> Tensor:
        require_data(self.structure, x)
        # training steps on a GPU do not wait for checks: a value outside its domain has probability 0 there
        on_gpu = isinstance(x, Tensor) and x.is_cuda and missing is None
        trusted = on_gpu and self._trains and not has_gaps(self.structure, x)
        evidence = None if trusted else self._evidence(x, missing)
        if evidence is not None and not evidence.is_complete:
            return log_marginal(self.snapshot(trains=self._trains), evidence, components)
        rows = (x if evidence is None else evidence.x).to(self._zero.device)
        density = self.log_densities if components else self.log_density
        log_p = density(rows)
        if not self._trains:
            log_p = past_underflow(log_p, lambda lost: density(rows[lost], torch.float64))
        if self.is_unitary and (self._trains or self.is_normalised()):
            return log_p
        return log_p - self.log_partition(double=False)

    @property
    def _trains(self) -> bool:
        """In a training step optimisers see to Z = 1, and the host is not asked."""
        return self.training and torch.is_grad_enabled()

    def is_normalised(self) -> bool:
        """Z = 1 now: the model is unitary, and its weights are semi-unitary up to rounding.

        Queries and evaluation ask; where other optimisers or weights from elsewhere have left the manifold
        they compute Z, so that answers are normalised all the same. Looked at anew when weights have changed.
        """
        if not self.is_unitary:
            return False
        now = (CapturedStep.replays, *((id(stack), stack._version) for stack in self.stacks()))
        if self._looked_at is None or self._looked_at[0] != now:
            self._looked_at = now, self._is_on_manifold()
        return self._looked_at[1]

    @torch.no_grad()
    def _is_on_manifold(self) -> bool:
        """max |WWᴴ − I| of all weights is of the size of rounding."""
        largest = 1e-9 if self._zero.dtype == torch.float64 else 2e-5
        return all(deviation(stack) <= largest for stack in self.stacks())

    def train(self, mode: bool = True) -> SquaredCircuit:
        """Training mode, or with ``eval()`` evaluation: then no product is in TF32, gradients or not."""
        self._network.tf32 = mode
        super().train(mode)
        return self

    def log_density(self, x: Tensor, real: torch.dtype | None = None) -> Tensor:
        """log Σ_r π_r |c_r(x)|², not divided by Z, of data that has been checked: (n, d) → (n,).

        Args:
            x: rows of data.
            real: float32 or float64, the precision; default the model's own.
        """
        squares, scales, mixture = self._roots(x, real or self.precision)
        return _log_mixed(squares, scales, mixture)

    def log_densities(self, x: Tensor, real: torch.dtype | None = None) -> Tensor:
        """The same sum over the units r of every root layer by itself: (n, d) → (n, M)."""
        units = [root.units for root in self.structure.roots]
        roots = (torch.split(each, units) for each in self._roots(x, real or self.precision))
        return torch.stack([_log_mixed(*each) for each in zip(*roots, strict=True)], dim=1)

    def _roots(self, x: Tensor, real: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """|v_r|² (R, n), s_r (R, n) and π_r (R,) of the root units, c_r = v_r exp(s_r)."""
        values, scales = self._network(self._inputs(x, real), self._matched_stacks(real))
        return values.square().sum(dim=1), scales, self.mixture().to(real)

    def log_partition(self, double: bool = True) -> Tensor:
        """log Z, exact, by propagating Gram matrices; in double precision unless told otherwise."""
        norms = self._log_norms(double)
        return torch.logsumexp(norms + self._log_mixture().to(norms), dim=0)

    def _log_norms(self, double: bool) -> Tensor:
        """log ∫ |c_r|² of the root units: (R,)."""
        if has_cross_terms(self.plan) and not self.is_normalised():  # on the manifold they vanish (U1, U2)
            circuit = self.structure.with_weights({n: v.cpu() for n, v in self.weights().items()})
            return root_norms(circuit)[0].log().to(self.device)
        stacks = [in_double(stack) if double else stack for stack in self.stacks()]
        return GramPropagation(self._network, stacks, self._family_values).log_norms(self.device)

    # ------------------------------------------------------------------ queries

    def snapshot(self, joined: bool = False, trains: bool = False) -> Snapshot:
        """The model as queries see it; StructureError where they are not tractable.

        Args:
            joined: count the cross terms of all sums, also those that vanish in marginals.
            trains: in a training step, where a unitary model is taken to be normalised.
        """
        if joined not in self._forms:
            self._forms[joined] = QueryForm(self.structure, self._network, joined)
        form = self._forms[joined]
        if form.joining is not None:
            return form.joined(self.structure.with_weights(self.weights()), self.mixture())
        stacks, values = self._matched_stacks(self.precision), self._family_values
        normalised = self.is_unitary if trains else self.is_normalised()
        return form.direct(stacks, self.mixture(), values, normalised)

    def _matched_stacks(self, real: torch.dtype) -> list[Tensor]:
        """All stacks in one precision, complex where the circuit is."""
        dtype = real.to_complex() if self._is_complex else real
        return [stack.to(dtype) for stack in self.stacks()]

    def _inputs(self, x: Tensor, real: torch.dtype) -> list[Tensor]:
        dtype = real.to_complex() if self._is_complex else real
        x = x.to(real) if x.is_floating_point() else x
        groups, outputs = self._input_groups, []
        columns = [x.index_select(1, getattr(self, f"_columns{g}")).T for g in range(len(groups))]  # (F, B)
        functions = self._placed.functions(columns)
        for number, group in enumerate(groups):
            weight = None
            if group.weight is not None:
                weight = self._network.weight(self.stacks(), group.weight)
            values = {role: value.to(real) for role, value in self._family_values(group).items()}
            known = functions.get(number)
            outputs.append(evaluate_inputs(group, columns[number], weight, values, dtype, known))
        return outputs

    def _family_values(self, group: InputGroup) -> Mapping[str, Tensor]:
        values = {}
        for role, names in group.learnt.items():
            stack = getattr(self, self.learnt[names[0]][0])
            entries = tuple(self.learnt[name][1] for name in names)
            values[role] = stack.index_select(0, self._network.index(entries, stack.device))
        return values


def _log_mixed(squares: Tensor, scales: Tensor, mixture: Tensor) -> Tensor:
    """log Σ_r π_r |v_r|² exp(2 s_r), −inf where that is 0: (R, n), (R, n), (R,) → (n,)."""
    largest = scales.amax(dim=0)
    factors = torch.where(scales == -torch.inf, 0.0, (2 * (scales - largest)).exp())
    density = mixture @ (squares * factors)
    positive = density > 0
    return torch.where(positive, torch.where(positive, density, 1.0).log() + 2 * largest, -torch.inf)


def _stays_unitary(circuit: Circuit) -> bool:
    """Z is and remains 1: weights are declared semi-unitary (or fixed), and those that are there are so."""
    layers = [*circuit.inputs, *circuit.sums]
    weights = [p for layer in layers for role, p in layer.named_parameters().items() if role == "weight"]
    kept = all(w.constraint in (Constraint.SEMI_UNITARY, Constraint.FIXED) for w in weights)
    return kept and bool(is_unitary(circuit))


def deviation(stack: Tensor) -> float:
    """max |WWᴴ − I| over a stack (S, K1, K2).

    In double precision, some matrices at a time: in single precision a row with one large entry and thousands
    of small ones would lose the small ones, and weights that are on the manifold would seem off it.
    """
    largest, at_once = 0.0, max(1, NUMBERS // max(1, stack[:1].numel()))
    for part in torch.split(stack, at_once):
        exact = in_double(part)
        gram = exact @ exact.mH
        gram.diagonal(dim1=1, dim2=2).sub_(1)
        largest = max(largest, float(gram.abs().amax()) if gram.numel() else 0.0)
    return largest


def _require_precision(dtype: Any) -> None:
    allowed = (torch.complex64, torch.complex128, torch.float32, torch.float64)
    if dtype not in allowed:
        raise ParameterError(
            f"a model is in single or double precision; got {dtype!r}. Fix: one of {allowed}"
        )
