"""A circuit as a torch module: the density p(x) = Σ_r π_r |c_r(x)|² / Z, ready for training."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, final

import torch
from torch import Tensor, nn

from squircuit.circuits import Circuit, Constraint
from squircuit.data import Schema
from squircuit.errors import ParameterError, StructureError
from squircuit.execution.derivatives import require_no_batch
from squircuit.execution.inputs import LocationScaleInputs, evaluate_inputs
from squircuit.execution.network import Network
from squircuit.execution.plan import InputGroup, Plan, make_plan
from squircuit.execution.precision import double as in_double
from squircuit.execution.precision import recomputed
from squircuit.execution.scaled import log_sum
from squircuit.families import Family
from squircuit.inference.compile.compiled_circuit import CompiledStructure, Snapshot
from squircuit.inference.evidence import Evidence, has_gaps, require_data
from squircuit.inference.likelihood import log_integrals, log_marginal, log_terms
from squircuit.inference.normalisation import KEPT, Kept, Normalisation, polished, require_density
from squircuit.inference.upward.unit_scales import largest_spread, may_spread, needs_unit_scales
from squircuit.models.queries import Queries
from squircuit.models.saving import save

FAR = 1e-4
"""From the manifold: further than weights that rounding, or another precision, has moved."""
LARGE, LARGEST = 1e6, 1e145
"""Rows of weights, or one over them, whose squares single or double precision does not hold beside others."""


@final
class SquaredCircuit(Queries, nn.Module):
    """p(x) = Σ_r π_r |c_r(x)|² / Z of a circuit, with the weights of equal layers stacked.

    Where the constraints of its parameters make the circuit unitary, and its weights keep them, Z = 1 and is
    not computed. Otherwise log Z is computed with every call, once a batch. Weights are looked at with every
    call, so answers are normalised however they were changed. Train unitary models with
    :class:`squircuit.optim.Polar` or POGO, which stay on the manifold: off it each step computes Z, and where
    that is not tractable the training loss flatters the model; a warning says so.

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
            raise ParameterError(
                f"SquaredCircuit needs a Circuit, e.g. of squircuit.build, got {circuit!r}. Fix: pass one."
            )
        _require_precision(dtype)
        structure = circuit if circuit.has_weights else circuit.initialise(seed)
        self.structure = Circuit(circuit.roots, root_weights=circuit.root_weights, validate=circuit.validated)
        self.plan: Plan = make_plan(circuit)
        self._constraints: dict[str, str] = {}  # of the tensors that are parameters, by name
        self._kinds: dict[str, tuple[bool, torch.Size]] = {}  # of all: whether complex, and the shape
        self.schema: Schema | None = None
        self.shape: tuple[int, ...] | None = None
        self.notes: dict[str, Any] = {}
        self._network = Network(self.plan)
        self._placed = LocationScaleInputs(self._input_groups)
        self._normalisation = Normalisation(self.structure, self.plan)
        self._forms: dict[tuple[bool, ...], CompiledStructure] = {}  # made by the first query
        self._step = _StepState()
        real = dtype.to_real()
        self._is_complex = circuit.is_complex
        for stack in self.plan.stacks:
            kind = real.to_complex() if stack.is_complex else real
            value = torch.stack([structure.weights[name].to(kind) for name in stack.parameters])
            self._hold(stack.name, value, stack.constraint)
        self._places = {
            name: (stack.name, i) for stack in self.plan.stacks for i, name in enumerate(stack.parameters)
        }
        self.learnt = self._hold_learnt(structure, real)
        self._places |= self.learnt
        if circuit.root_weights is not None:
            self._hold("root_logits", structure.mixture.log().to(real), "free")
        for number, group in enumerate(self._input_groups):
            self.register_buffer(f"_columns{number}", torch.tensor(group.variables), persistent=False)
        self.register_buffer("_zero", torch.zeros((), dtype=real), persistent=False)

    @property
    def is_unitary(self) -> bool:
        """Z = 1 for all weights that the constraints of the parameters allow, see :meth:`is_normalised`."""
        return self._normalisation.is_promised

    @property
    def needs_manifold(self) -> bool:
        """A unitary model whose Z is not tractable once weights have left the manifold."""
        return self._normalisation.needs_manifold

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: ways to answer queries are made anew."""
        return {**self.__dict__, "_forms": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of copies and pickles, which lose what parameters say of themselves."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._annotate()

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Whatever puts a parameter here, such as ``load_state_dict(assign=True)``: it has its constraint."""
        super().register_parameter(name, param)
        self._annotate()

    def _apply(self, fn: Any, recurse: bool = True) -> SquaredCircuit:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._annotate()
        return self

    def _annotate(self) -> None:
        """Every parameter says which constraint it has; optimisers ask."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                constraint = self._constraints.get(name, Constraint.FREE)
                parameter.constraint = constraint  # type: ignore[attr-defined]

    def _hold(self, name: str, value: Tensor, constraint: str) -> None:
        """A parameter that knows its constraint; fixed ones are buffers."""
        self._kinds[name] = value.is_complex(), value.shape
        if constraint == Constraint.FIXED:
            self.register_buffer(name, value)
            return
        self._constraints[name] = constraint
        self.register_parameter(name, nn.Parameter(value))

    def _hold_learnt(self, circuit: Circuit, real: torch.dtype) -> dict[str, tuple[str, int]]:
        """Shifts, locations, scales of input functions, stacked by what they are: name -> (stack, entry)."""
        kinds: dict[tuple[str, tuple[int, ...], str], dict[str, None]] = {}
        seen = set(self._places)
        for group in self._input_groups:
            for role, members in group.learnt.items():
                stack = f"{type(group.family).__name__.lower()}_{role.replace('.', '_')}"
                for name in members:
                    if name not in seen:  # one parameter may serve in several roles
                        seen.add(name)
                        parameter = circuit.parameters[name]
                        kinds.setdefault((stack, parameter.shape, parameter.constraint), {})[name] = None
        places: dict[str, tuple[str, int]] = {}
        for (stack, _, constraint), names in kinds.items():
            held = stack if not hasattr(self, stack) else f"{stack}{len(places)}"
            places.update({name: (held, i) for i, name in enumerate(names)})
            self._hold(held, torch.stack([circuit.weights[n].to(real) for n in names]), constraint)
        return places

    @property
    def _input_groups(self) -> list[InputGroup]:
        return [group for group in self.plan.groups if isinstance(group, InputGroup)]

    # ------------------------------------------------------------------ weights

    def stacks(self) -> list[Tensor]:
        """The stacked weights in the order of the plan, (S, K1, K2) each."""
        return [self.held(stack.name) for stack in self.plan.stacks]

    def held(self, name: str) -> Tensor:
        """One tensor of the model, dense and as the circuit declares it; ParameterError where it cannot be.

        ``load_state_dict(assign=True)`` and ``parameter.data = …`` put any tensor in its place: conjugated
        views, transposed ones, other precisions.
        """
        require_no_batch()
        value: Tensor = getattr(self, name)
        is_complex, shape = self._kinds[name]
        dtype = self.precision.to_complex() if is_complex else self.precision
        if value.shape != shape or value.dtype not in (self.precision, dtype):
            raise ParameterError(
                f"the weights {name!r} have shape {tuple(value.shape)} of {value.dtype}, expected "
                f"{tuple(shape)} of {dtype}. Fix: give them that shape and type; of another precision, "
                "model.double() makes one of all."
            )
        return value.to(dtype).resolve_conj().resolve_neg().contiguous()

    def weights(self) -> dict[str, Tensor]:
        """The value of every parameter of the circuit, by its name there."""
        held = {stack: self.held(stack) for stack, _ in self._places.values()}
        values = {name: held[stack][i] for name, (stack, i) in self._places.items()}
        pi = self.structure.root_weights
        if pi is None:
            return values
        return {**values, self.structure.parameter_name(pi): self._log_mixture(torch.float64).exp()}

    def circuit(self) -> Circuit:
        """The circuit with the model's present weights, detached: for checks and exact algorithms."""
        return self.structure.with_weights({n: v.detach().cpu() for n, v in self.weights().items()})

    @property
    def _logits(self) -> Tensor | None:
        return None if self.structure.root_weights is None else self.held("root_logits")

    def mixture(self) -> Tensor:
        """π, the weights of the root units: (R,)."""
        logits = self._logits
        if logits is not None:
            return torch.softmax(logits, dim=0)
        count = self.structure.num_roots
        return torch.full((count,), 1 / count, dtype=self._zero.dtype, device=self._zero.device)

    def _log_mixture(self, real: torch.dtype | None = None) -> Tensor:
        """log π in a precision, default the model's own: π itself may be too small for single."""
        logits = self._logits
        real = self.precision if real is None else real
        return self.mixture().to(real).log() if logits is None else torch.log_softmax(logits.to(real), dim=0)

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
        """Move to a device or a precision; complex stays complex: to(torch.float64) makes complex128.

        Weights on the manifold are on it in double precision, too: what single precision has rounded is put
        right.
        """
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if dtype is not None:
            _require_precision(dtype)

        def move(value: Tensor) -> Tensor:
            if dtype is None or not (value.is_floating_point() or value.is_complex()):
                return value.to(device, non_blocking=non_blocking)
            real = dtype.to_real()
            return value.to(device, real.to_complex() if value.is_complex() else real, non_blocking)

        exact = dtype is not None and dtype.to_real() == torch.float64 and self.precision == torch.float32
        is_one = all(getattr(self, name).dtype.to_real() == self.precision for name in self._kinds)
        polishes = exact and is_one and self.is_normalised()
        self._apply(move)
        if polishes:
            for name, parameter in self._parameters.items():
                if parameter is not None and self._constraints.get(name) == Constraint.SEMI_UNITARY:
                    parameter.data.copy_(polished(parameter))
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
        if self._is_one():
            return torch.log_softmax(self._by_component(self._log_mixture()), dim=0)
        double = not self._trains and self._needed_precision() == torch.float64
        logs = self._log_integrals(double)
        if not (self._trains and logs.is_cuda):
            require_density(logs)
        return torch.log_softmax(logs, dim=0).to(self.precision)

    def _by_component(self, logs: Tensor) -> Tensor:
        """log Σ exp over the units of every root layer: (R,) → (M,)."""
        parts = torch.split(logs, [root.units for root in self.structure.roots])
        return torch.stack([log_sum(part) for part in parts])

    def _log_prob(self, x: Any, missing: Any, components: bool) -> Tensor:
        require_data(self.structure, x)
        # training steps on a GPU do not wait for checks: a value outside its domain has probability 0 there
        there = isinstance(x, Tensor) and x.is_cuda and missing is None
        trusted = there and self._trains and not has_gaps(self.structure, x)
        evidence = None if trusted else self._evidence(x, missing)
        if evidence is not None and not evidence.is_complete:
            snapshot = self.snapshot(trains=self._trains)
            return self._attached(log_marginal(snapshot, evidence, components).to(self.precision))
        rows = (x if evidence is None else evidence.x).to(self._zero.device)
        density = self.log_densities if components else self.log_density
        is_one = self._is_one()
        on_gpu = self._trains and rows.is_cuda  # there the host is not asked
        real = self.precision if is_one or on_gpu else self._needed_precision()
        log_p = density(rows, real).to(self.precision)
        if not on_gpu:
            log_p = self._with_care(log_p, rows, real, components)
        return log_p if is_one else log_p - self._log_z(real)

    def _with_care(self, log_p: Tensor, x: Tensor, real: torch.dtype, components: bool) -> Tensor:
        """Log-densities, with those rows computed once more whose digits may have been lost.

        Products of tiny factors vanish in single precision first; and a unit that is zero beside others of
        its layer counts where another variable makes up for it.
        """
        zero = log_p == -torch.inf
        lost = zero if zero.ndim == 1 else zero.any(dim=1)
        if self._may_spread:
            lost = lost | needs_unit_scales(
                self._as_it_is(self.precision), x, torch.zeros_like(x).bool(), real
            )
        elif real == torch.float64:
            return log_p

        def again(rows: Tensor) -> Tensor:
            exact = self._as_it_is(torch.float64)
            terms = log_terms(exact, Evidence(x[rows], torch.zeros_like(x[rows], dtype=torch.bool)))
            return terms if components else log_sum(terms, dim=1)

        return recomputed(log_p, lost, again)

    @cached_property
    def _may_spread(self) -> bool:
        """Far from the data the units of a layer may differ by more than a float holds."""
        families: dict[int, list[Family]] = {}
        for group in self._input_groups:
            for variable in group.variables:
                families.setdefault(variable, []).append(group.family)
        return any(may_spread(each) for each in families.values())

    def _as_it_is(self, real: torch.dtype) -> Snapshot:
        """For rows that lack nothing, whose value is that of the circuit whatever its structure."""
        form = self._form((False,) * len(self.structure.roots))
        mixture = self._log_mixture(real).exp()
        return form.direct(self._matched_stacks(real), mixture, self._family_values, False)

    def _attached(self, log_p: Tensor) -> Tensor:
        """With a gradient of zero, where rows show nothing and no weight was needed: batches may be such."""
        if log_p.requires_grad or not torch.is_grad_enabled():
            return log_p
        learnt = [p for p in self.parameters() if p.requires_grad and p.numel()]
        return log_p + 0.0 * torch.real(learnt[0]).flatten()[0] if learnt else log_p

    @torch.no_grad()
    def _needed_precision(self) -> torch.dtype:
        """Double where rows of weights are so large or small that single does not hold their squares."""
        sizes = [_sizes(stack) for stack in self.stacks()]
        for stack, found in zip(self.plan.stacks, sizes, strict=True):
            _require_numbers(stack.name, found)
        least, most = _extremes(sizes)
        rarest, _ = _extremes([self._log_mixture(torch.float64).exp()])
        if least < 1 / LARGE or most > LARGE:
            self._require_squares(least, most)
            return torch.float64
        return torch.float64 if rarest < 1 / LARGE else self.precision

    def _require_squares(self, least: Any, most: Any) -> None:
        """Refuse weights of which double precision does not hold the squares beside one another."""
        value = least if least < 1 / LARGEST else most
        if least < 1 / LARGEST or most > LARGEST:
            raise ParameterError(
                f"a row of a weight has the largest entry {value:.3g}, whose square is no number in double "
                "precision. Fix: multiply the weights by a number; no density depends on their size."
            )
        form = self._form((False,) * len(self.structure.roots))
        spread = largest_spread(self._network, self._matched_stacks(torch.float64), form.schedules.scopes)
        if spread > math.log(LARGEST):
            raise ParameterError(
                f"the units of layers over the same variables differ in size by a factor of "
                f"1e{spread / math.log(10):.0f}, and double precision does not hold their squares beside one "
                "another. Fix: bring the rows of the weights to similar sizes."
            )

    def _log_z(self, real: torch.dtype) -> Tensor:
        """What a log-density is divided by: log Z, checked outside training steps."""
        try:
            log_z = self.log_partition(double=real == torch.float64).to(self.precision)
        except StructureError:
            if not (self._trains and self.is_unitary):
                raise
            return self._zero  # the training loss flatters the model, and a warning has said so
        if not (self._trains and log_z.is_cuda):  # there the host is not asked
            require_density(log_z)
        return log_z

    def _is_one(self) -> bool:
        """Z = 1 is certain now; in a training step, if its optimiser has kept to the manifold so far."""
        if not self._trains:
            self._require_places()
            return self.is_normalised()
        return self.is_unitary and (self._step.is_trusted or self._looks_normalised())

    def _looks_normalised(self) -> bool:
        """A look in a training step, with one warning off the manifold.

        A GPU would have to be waited for, so it is looked at after 1, 2, 4, 8, … calls.
        """
        state = self._step
        state.calls += 1
        on_gpu = self._zero.is_cuda
        if on_gpu and (torch.cuda.is_current_stream_capturing() or state.calls & (state.calls - 1)):
            return state.was_normalised
        state.was_normalised = self.is_normalised()
        if state.was_normalised or state.has_warned:
            return state.was_normalised
        if not self._normalisation.look(self.stacks(), FAR).all:
            state.has_warned = True
            warnings.warn(
                "a training step on weights that have left the manifold of semi-unitary matrices: Z is no "
                "longer 1. It is computed with every step, which takes time; where it is not tractable the "
                "loss flatters the model. Fix: train with sq.optim.Polar, or POGO at a small lr, or call "
                "model.eval() if this is no training step.",
                stacklevel=5,
            )
        return state.was_normalised

    @contextmanager
    def trusting(self) -> Iterator[None]:
        """For a training whose optimiser sees to the manifold: its steps take Z = 1 and do not look."""
        before, self._step.is_trusted = self._step.is_trusted, True
        try:
            yield
        finally:
            self._step.is_trusted = before

    @property
    def _trains(self) -> bool:
        """In a training step optimisers see to Z = 1, and the host is not asked."""
        return self.training and torch.is_grad_enabled()

    def is_normalised(self) -> bool:
        """Z = 1 now: the model is unitary, and its weights are semi-unitary up to rounding.

        Queries and evaluation ask; where other optimisers or weights from elsewhere have left the manifold
        they compute Z, so that answers are normalised all the same. Nothing is remembered: weights are looked
        at with every call, which takes about as long as the density of four rows.
        """
        return self.is_unitary and self._kept().all

    def _kept(self) -> Kept:
        self._require_places()
        return self._normalisation.look(self.stacks())

    def _require_places(self) -> None:
        """Refuse learnt places and root weights that are no numbers; of weights, Z tells."""
        for name in {place for place, _ in self.learnt.values()}:
            _require_numbers(name, self.held(name).detach())
        logits = self._logits
        if logits is not None:
            shares = logits.detach()  # −inf is the logarithm of a share of 0
            _require_numbers("root_logits", torch.where(shares == -torch.inf, 0.0, shares))

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
        return _log_mixed(*self._roots(x, real or self.precision))

    def log_densities(self, x: Tensor, real: torch.dtype | None = None) -> Tensor:
        """The same sum over the units r of every root layer by itself: (n, d) → (n, M)."""
        units = [root.units for root in self.structure.roots]
        roots = (torch.split(each, units) for each in self._roots(x, real or self.precision))
        return torch.stack([_log_mixed(*each) for each in zip(*roots, strict=True)], dim=1)

    def _roots(self, x: Tensor, real: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """|v_r|² (R, n), s_r (R, n) and log π_r (R,) of the root units, c_r = v_r exp(s_r)."""
        inputs, input_scales = self._inputs(x, real)
        values, scales = self._network(inputs, self._matched_stacks(real), input_scales)
        return values.square().sum(dim=1), scales, self._log_mixture(real)

    def log_partition(self, double: bool = True) -> Tensor:
        """log Z, exact, by propagating Gram matrices; in double precision unless told otherwise."""
        return log_sum(self._log_integrals(double))

    def _log_integrals(self, double: bool) -> Tensor:
        """log ∫ Σ_r π_r |c_r|² over the root units r of every root layer: (M,)."""
        # a step that is captured in a graph cannot look; without cross terms there is no need to
        kept = self._kept() if self._normalisation.may_have_cross_terms else KEPT
        if not self._normalisation.partition_has_cross_terms(kept):
            stacks = [in_double(stack) if double else stack for stack in self.stacks()]
            norms = self._network.log_norms(stacks, self._family_values, self.device)
            return self._by_component(norms + self._log_mixture().to(norms))
        return log_integrals(self._snapshot(False, kept, False, torch.float64 if double else self.precision))

    # ------------------------------------------------------------------ queries

    def snapshot(self, joined: bool = False, trains: bool = False) -> Snapshot:
        """The model as queries see it; StructureError where they are not tractable.

        Args:
            joined: count the cross terms of all sums, also those that vanish in marginals.
            trains: in a training step, where a unitary model is taken to be normalised.
        """
        if trains and self._is_one():
            return self._snapshot(joined, KEPT, True, self.precision)
        kept = self._kept()
        is_one = self.is_unitary and kept.all
        real = self.precision if is_one else self._needed_precision()
        return self._snapshot(joined, kept, is_one, real)

    def _snapshot(self, joined: bool, kept: Kept, is_normalised: bool, real: torch.dtype) -> Snapshot:
        joins = tuple(self._normalisation.joined_roots(kept, always=joined))
        form, mixture = self._form(joins), self._log_mixture(real).exp()
        if form.joined_circuit is not None:
            weights = {
                n: v.to(real.to_complex() if v.is_complex() else real) for n, v in self.weights().items()
            }
            return form.joined(self.structure.with_weights(weights), mixture)
        return form.direct(self._matched_stacks(real), mixture, self._family_values, is_normalised)

    def _form(self, joins: tuple[bool, ...]) -> CompiledStructure:
        if joins not in self._forms:
            self._forms[joins] = CompiledStructure(self.structure, self._network, list(joins))
        return self._forms[joins]

    def _matched_stacks(self, real: torch.dtype) -> list[Tensor]:
        """All stacks in one precision, complex where the circuit is."""
        dtype = real.to_complex() if self._is_complex else real
        return [stack.to(dtype) for stack in self.stacks()]

    def _inputs(self, x: Tensor, real: torch.dtype) -> tuple[list[Tensor], list[Tensor | None]]:
        """The outputs of the input groups and their log-scales."""
        dtype = real.to_complex() if self._is_complex else real
        x = x.double() if x.is_floating_point() else x  # until locations have been subtracted
        groups, outputs = self._input_groups, []
        columns = [x.index_select(1, getattr(self, f"_columns{g}")).T for g in range(len(groups))]  # (F, B)
        functions = self._placed.functions(columns, real)
        for number, group in enumerate(groups):
            weight = None
            if group.weight is not None:
                weight = self._network.weight(self.stacks(), group.weight)
            values = {role: value.double() for role, value in self._family_values(group).items()}
            known = functions.get(number)
            outputs.append(evaluate_inputs(group, columns[number], weight, values, dtype, known))
        return [out for out, _ in outputs], [scale for _, scale in outputs]

    def _family_values(self, group: InputGroup) -> Mapping[str, Tensor]:
        values = {}
        for role, names in group.learnt.items():
            stacks, entries = zip(*(self._places[name] for name in names), strict=True)
            if len(set(stacks)) == 1:
                stack = self.held(stacks[0])
                values[role] = stack.index_select(0, self._network.index(entries, stack.device))
            else:  # some serve in other places, too
                values[role] = torch.stack([self.held(s)[i] for s, i in zip(stacks, entries, strict=True)])
        return values


def _require_numbers(name: str, values: Tensor) -> None:
    """Refuse NaN and infinity."""
    if torch._C._functorch.is_batchedtensor(values) or bool(values.isfinite().all()):
        return
    raise ParameterError(
        f"the weights {name!r} hold NaN or infinity, so there is no density. Fix: go back to earlier "
        "weights, or train with a smaller lr."
    )


def _extremes(sizes: list[Tensor]) -> tuple[float, float]:
    """The least and the largest of some numbers ≥ 0, leaving out zeros."""
    every = torch.cat(sizes) if sizes else torch.ones(1)
    present = every[every > 0]
    return (float(present.min()), float(present.max())) if len(present) else (1.0, 1.0)


def _sizes(stack: Tensor) -> Tensor:
    """The largest entry of every row, up to a factor of √2: (S, K1, K2) → (S·K1,)."""
    parts = torch.view_as_real(stack) if stack.is_complex() else stack
    return parts.detach().flatten(2).abs().amax(dim=2).flatten()


@dataclass
class _StepState:
    """What training steps remember of the manifold."""

    calls: int = 0
    was_normalised: bool = True
    has_warned: bool = False
    is_trusted: bool = False  # fit has an optimiser that sees to it


def _log_mixed(squares: Tensor, scales: Tensor, log_mixture: Tensor) -> Tensor:
    """log Σ_r π_r |v_r|² exp(2 s_r), −inf where that is 0: (R, n), (R, n), (R,) → (n,)."""
    exponents = torch.where(squares == 0, -torch.inf, 2 * scales) + log_mixture.unsqueeze(1)
    largest, there = exponents.detach().amax(dim=0), exponents > -torch.inf
    factors = torch.where(there, torch.where(there, exponents - largest, 0.0).exp(), 0.0)
    density = (squares * factors).sum(dim=0)
    positive = density > 0
    return torch.where(positive, torch.where(positive, density, 1.0).log() + largest, -torch.inf)


def _require_precision(dtype: Any) -> None:
    allowed = (torch.complex64, torch.complex128, torch.float32, torch.float64)
    if dtype not in allowed:
        raise ParameterError(
            f"a model is in single or double precision; got {dtype!r}. Fix: one of {allowed}"
        )
