"""The weights of a circuit as tensors of a torch module: stacked, with their constraints and precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from squircuit.circuits import Circuit, Constraint
from squircuit.errors import ParameterError, warn_former
from squircuit.execution.derivatives import require_no_batch
from squircuit.execution.gathering import GatheredStacks, Gathering, whole
from squircuit.execution.network import Indices
from squircuit.execution.plan import InputGroup, Plan
from squircuit.execution.planner import make_plan
from squircuit.inference.normalisation import Kept, Normalisation, polished
from squircuit.models.precision import mover, require_numbers, require_precision

LOGITS = "root_logits"
"""The tensor whose softmax is π."""


class StackedWeights(nn.Module):
    """The weights of equal layers of a circuit in one tensor each, (S, K1, K2), under the names of the plan.

    What is learnt is a parameter that says which constraint it has (``parameter.constraint``), and optimisers
    ask; what is fixed is a buffer. Learnt shifts, locations and scales of input functions are stacked
    likewise, and π is held as logits.

    Args:
        circuit: with weights, or without: then they are drawn from ``seed``.
        seed: of the initial weights.
        dtype: complex64 or complex128 (float32 or float64 for real circuits is chosen to match).

    Attributes:
        structure: the circuit without weights: variables, layers, constraints.
        plan: of the circuit; it names the stacks.
        normalisation: what is known of Z for weights that keep their constraints.
        learnt: of the parameters of input functions, name in the circuit → stack and entry there.

    Example:
        >>> import squircuit as sq
        >>> weights = StackedWeights(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2))
        >>> [tuple(stack.shape) for stack in weights.stacks()]
        [(3, 2, 2), (1, 2, 4), (1, 1, 4)]
        >>> weights.double().precision
        torch.float64
    """

    _zero: Tensor  # knows the precision and the device

    def __init__(self, circuit: Circuit, seed: int = 0, dtype: torch.dtype = torch.complex64) -> None:
        super().__init__()
        if not isinstance(circuit, Circuit):
            raise ParameterError(
                f"SquaredCircuit needs a Circuit, e.g. of squircuit.build, got {circuit!r}. Fix: pass one."
            )
        require_precision(dtype)
        valued = circuit if circuit.has_weights else circuit.initialise(seed)
        self.structure = Circuit(circuit.roots, root_weights=circuit.root_weights, validate=circuit.validated)
        self.plan: Plan = make_plan(circuit)
        self.normalisation = Normalisation(self.structure, self.plan)
        self._is_complex = circuit.is_complex
        self._constraints: dict[str, str] = {}  # of the tensors that are parameters, by name
        self._kinds: dict[str, tuple[bool, torch.Size]] = {}  # of all: whether complex, and the shape
        self._index = Indices()
        self._gathering: Gathering | None = None
        real = dtype.to_real()
        self._places = self._hold_stacks(valued, real)
        self.learnt = self._hold_learnt(valued, real)
        self._places |= self.learnt
        if circuit.root_weights is not None:
            self._hold(LOGITS, valued.root_shares.log().to(real), "free")
        self.register_buffer("_zero", torch.zeros((), dtype=real), persistent=False)

    # ------------------------------------------------------------------ how they are held

    def _hold(self, name: str, value: Tensor, constraint: str) -> None:
        """A parameter that knows its constraint; fixed ones are buffers."""
        self._kinds[name] = value.is_complex(), value.shape
        if constraint == Constraint.FIXED:
            self.register_buffer(name, value)
            return
        self._constraints[name] = constraint
        self.register_parameter(name, nn.Parameter(value))

    def _hold_stacks(self, circuit: Circuit, real: torch.dtype) -> dict[str, tuple[str, int]]:
        """The weights of sums and inputs, stacked as the plan says: name -> (stack, entry)."""
        for stack in self.plan.stacks:
            kind = real.to_complex() if stack.is_complex else real
            value = torch.stack([circuit.weights[name].to(kind) for name in stack.parameters])
            self._hold(stack.name, value, stack.constraint)
        return {
            name: (stack.name, i) for stack in self.plan.stacks for i, name in enumerate(stack.parameters)
        }

    def _hold_learnt(self, circuit: Circuit, real: torch.dtype) -> dict[str, tuple[str, int]]:
        """Shifts, locations, scales of input functions, stacked by what they are: name -> (stack, entry)."""
        kinds: dict[tuple[str, tuple[int, ...], str], dict[str, None]] = {}
        seen = set(self._places)
        for group in self.plan.input_groups:
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

    def _annotate(self) -> None:
        """Every parameter says which constraint it has; optimisers ask."""
        for name, parameter in self._parameters.items():
            if parameter is not None:
                constraint = self._constraints.get(name, Constraint.FREE)
                parameter.constraint = constraint  # type: ignore[attr-defined]

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """Whatever puts a parameter here, such as ``load_state_dict(assign=True)``: it has its constraint."""
        super().register_parameter(name, param)
        self._annotate()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Copies and pickles lose what parameters say of themselves, so it is said again."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._annotate()

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._annotate()
        return self

    # ------------------------------------------------------------------ how they are seen

    def held(self, name: str) -> Tensor:
        """One tensor of the model, dense and as the circuit declares it; ParameterError where it cannot be.

        ``load_state_dict(assign=True)`` and ``parameter.data = …`` put any tensor in its place: conjugated
        views, transposed ones, other precisions.
        """
        require_no_batch()
        value: Tensor = getattr(self, name)
        if self._gathering is not None:
            value = whole(name, value, self._gathering)
        (is_complex, shape), real = self._kinds[name], self.precision
        dtype = real.to_complex() if is_complex else real
        if value.is_meta or value.layout != torch.strided:
            kind = "on the device meta, without numbers" if value.is_meta else f"{value.layout}"
            raise ParameterError(
                f"the weights {name!r} are {kind}. Fix: give them a dense tensor with numbers, such as "
                "value.to_dense(), or load the model with sq.load."
            )
        if value.shape != shape or value.dtype not in (real, dtype):
            raise ParameterError(
                f"the weights {name!r} have shape {tuple(value.shape)} of {value.dtype}, expected "
                f"{tuple(shape)} of {dtype}. Fix: give them that shape and type; of another precision, "
                "model.double() makes one of all."
            )
        return value.to(dtype).resolve_conj().resolve_neg().contiguous()

    def stacks(self, real: torch.dtype | None = None) -> Sequence[Tensor]:
        """The stacked weights in the order of the plan, (S, K1, K2) each; spread ones are gathered when used.

        Args:
            real: float32 or float64: then all are in this precision, and complex where the circuit is.
        """

        def change(stack: Tensor) -> Tensor:
            return stack if real is None else stack.to(self.dtype_in(real))

        if self._gathering is None:
            return [change(self.held(stack.name)) for stack in self.plan.stacks]
        names = [stack.name for stack in self.plan.stacks]
        return GatheredStacks(names, [getattr(self, name) for name in names], self._gathering, change)

    def dtype_in(self, real: torch.dtype) -> torch.dtype:
        """The type of amplitudes in a precision: complex where the circuit is."""
        return real.to_complex() if self._is_complex else real

    def weights(self) -> dict[str, Tensor]:
        """The value of every parameter of the circuit, by its name there."""
        held = {stack: self.held(stack) for stack, _ in self._places.values()}
        values = {name: held[stack][i] for name, (stack, i) in self._places.items()}
        pi = self.structure.root_weights
        if pi is None:
            return values
        return {**values, self.structure.parameter_name(pi): self.log_root_shares(torch.float64).exp()}

    def circuit(self) -> Circuit:
        """The circuit with the model's present weights, detached: for checks and exact algorithms."""
        return self.structure.with_weights({n: v.detach().cpu() for n, v in self.weights().items()})

    def family_values(self, group: InputGroup) -> Mapping[str, Tensor]:
        """The learnt parameters of a group's input functions, by role: (F, …) each."""
        values = {}
        for role, names in group.learnt.items():
            stacks, entries = zip(*(self._places[name] for name in names), strict=True)
            if len(set(stacks)) == 1:
                stack = self.held(stacks[0])
                values[role] = stack.index_select(0, self._index(entries, stack.device))
            else:  # some serve in other places, too
                values[role] = torch.stack([self.held(s)[i] for s, i in zip(stacks, entries, strict=True)])
        return values

    def root_shares(self) -> Tensor:
        """π, the shares of the root units in p = Σ_r π_r |c_r|²/Z: (R,)."""
        logits = self._logits
        if logits is not None:
            return torch.softmax(logits, dim=0)
        count = self.structure.num_roots
        return torch.full((count,), 1 / count, dtype=self._zero.dtype, device=self._zero.device)

    def log_root_shares(self, real: torch.dtype | None = None) -> Tensor:
        """log π in a precision, default the model's own: π itself may be too small for single."""
        logits = self._logits
        real = self.precision if real is None else real
        return (
            self.root_shares().to(real).log() if logits is None else torch.log_softmax(logits.to(real), dim=0)
        )

    def mixture(self) -> Tensor:
        """The former name of :meth:`root_shares`; mixtures are of models."""
        warn_former("model.mixture()", "model.root_shares()")
        return self.root_shares()

    def log_mixture(self, real: torch.dtype | None = None) -> Tensor:
        """The former name of :meth:`log_root_shares`."""
        warn_former("model.log_mixture()", "model.log_root_shares()")
        return self.log_root_shares(real)

    @property
    def _logits(self) -> Tensor | None:
        return None if self.structure.root_weights is None else self.held(LOGITS)

    # ------------------------------------------------------------------ where processes hold a part each

    def gather_by(self, gathering: Gathering | None) -> None:
        """From now on parameters are parts, and whole by this; None: they are whole."""
        self._gathering = gathering

    @property
    def is_spread(self) -> bool:
        """This process holds only a part of the weights, so all have to call the model together."""
        return self._gathering is not None

    def agreed(self, *flags: bool) -> list[bool]:
        """Whether a process has raised each flag, of those that hold the weights together."""
        return list(flags) if self._gathering is None else self._gathering.any(*flags)

    # ------------------------------------------------------------------ how they are filled from files

    def make_room(self, device: torch.device) -> None:
        """Give what has no memory, on the device "meta", some on a device; move the rest there."""
        for name, parameter in list(self._parameters.items()):
            if parameter is not None and parameter.is_meta:
                self.register_parameter(name, nn.Parameter(torch.empty_like(parameter, device=device)))
        for name, value in list(self._buffers.items()):
            if value is not None and value.is_meta:
                self.register_buffer(name, torch.empty_like(value, device=device))
        self._apply(lambda value: value.to(device))

    @torch.no_grad()
    def fill(self, name: str, value: Tensor) -> None:
        """Set one parameter of the circuit, by its name there, to a value that has been checked."""
        stack, entry = self._places[name]
        getattr(self, stack).data[entry].copy_(value)

    # ------------------------------------------------------------------ whether they keep their constraints

    @property
    def is_unitary(self) -> bool:
        """Z = 1 for all weights that the constraints of the parameters allow, see :meth:`is_normalised`."""
        return self.normalisation.is_promised

    @property
    def needs_manifold(self) -> bool:
        """A unitary model whose Z is not tractable once weights have left the manifold."""
        return self.normalisation.needs_manifold

    def is_normalised(self) -> bool:
        """Z = 1 now: the model is unitary, and its weights are semi-unitary up to rounding.

        Queries and evaluation ask; where other optimisers or weights from elsewhere have left the manifold
        they compute Z, so that answers are normalised all the same. Nothing is remembered: weights are looked
        at with every call, which takes about as long as the density of one row, on a GPU of four.
        """
        return self.is_unitary and self.kept().all

    def kept(self) -> Kept:
        """Which weights keep their constraints now; ParameterError where others are no numbers."""
        self.require_numbers()
        slopes = torch.is_grad_enabled() and any(p.requires_grad for p in self.parameters())
        return self.normalisation.look(self.stacks(), slopes=slopes)

    def require_numbers(self) -> None:
        """Refuse learnt places and root weights that are no numbers; of the other weights, Z tells."""
        for name in {place for place, _ in self.learnt.values()}:
            require_numbers(name, self.held(name).detach())
        logits = self._logits
        if logits is not None:
            shares = logits.detach()  # −inf is the logarithm of a share of 0
            require_numbers(LOGITS, torch.where(shares == -torch.inf, 0.0, shares))

    # ------------------------------------------------------------------ where they are, in which precision

    @property
    def precision(self) -> torch.dtype:
        """float32 or float64, also where weights are complex."""
        return self._zero.dtype

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self._zero.device

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device or a precision; complex stays complex: to(torch.float64) makes complex128.

        Weights on the manifold are on it in double precision, too: what single precision has rounded is put
        right.
        """
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **kwargs)
        if dtype is not None:
            require_precision(dtype)
        exact = dtype is not None and dtype.to_real() == torch.float64 and self.precision == torch.float32
        is_one = all(getattr(self, name).dtype.to_real() == self.precision for name in self._kinds)
        polishes = exact and is_one and self.is_normalised()
        self._apply(mover(device, dtype, non_blocking))
        if polishes:
            for name, parameter in self._parameters.items():
                if parameter is not None and self._constraints.get(name) == Constraint.SEMI_UNITARY:
                    parameter.data.copy_(polished(parameter))
        return self

    def double(self) -> Self:
        """Convert the model to double precision."""
        return self.to(torch.float64)

    def half(self) -> Self:
        """Refused: half precision does not hold a density."""
        return self.to(torch.float16)

    def bfloat16(self) -> Self:
        """Refused, like :meth:`half`."""
        return self.to(torch.bfloat16)

    def float(self) -> Self:
        """Convert the model to single precision."""
        return self.to(torch.float32)
