"""Layered circuits: immutable graphs of layers with named parameters (Def. "Tensorized circuit")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, final

import torch
from torch import Tensor

from squircuit.circuits.initial import initial_weights
from squircuit.circuits.layers import Input, Layer, Sum
from squircuit.circuits.parameter import Constraint, Parameter
from squircuit.circuits.picture import draw
from squircuit.circuits.postorder import postorder
from squircuit.circuits.serialise import from_json, to_json
from squircuit.circuits.summary import summary
from squircuit.circuits.validation import check_structure
from squircuit.errors import ParameterError
from squircuit.families.domain import Domain, Domains
from squircuit.regions.scope import Scope, describe

OF_MODELS = {
    "cuda", "eval", "expectation", "given", "impute", "log_conditional", "log_partition", "log_prob",
    "marginals", "mean", "moments", "sample", "save", "to", "train", "variance",
}  # fmt: skip
"""What models have and circuits have not."""


@final
class Circuit:
    """A circuit c over variables X, and the density p(x) = Σ_r π_r |c_r(x)|² of its root units c_r.

    With one root unit this is the paper's p = |c|². With several it is normalised as soon as each
    root is, since the weights π lie on the simplex.

    Args:
        roots: the output layer, or several whose units are taken together.
        root_weights: simplex parameter π of shape (R,); None means uniform weights 1/R.
        weights: values of the parameters by name; initial values of the parameters are taken where
            absent. A circuit may lack values: it is then pure structure.
        initial: take those initial values.
        validate: refuse circuits that are not smooth and decomposable. The checks of
            :mod:`squircuit.properties` can then be studied on circuits that break them.

    Example:
        >>> from squircuit.circuits import Input, Kronecker, Sum
        >>> from squircuit.families import Categorical
        >>> x, y = Input(0, Categorical(2), units=2), Input(1, Categorical(3), units=2)
        >>> circuit = Circuit(Sum(Kronecker([x, y]), units=1)).initialise(seed=0)
        >>> sorted(circuit.weights)
        ['input0.weight', 'input1.weight', 'sum3.weight']
    """

    def __init__(
        self,
        roots: Layer | Sequence[Layer],
        *,
        root_weights: Parameter | None = None,
        weights: Mapping[str, Tensor] | None = None,
        initial: bool = True,
        validate: bool = True,
    ) -> None:
        self.roots: tuple[Layer, ...] = _as_roots(roots)
        self.layers: tuple[Layer, ...] = tuple(postorder(self.roots, lambda layer: layer.inputs))
        self.root_weights = root_weights
        self.validated = validate
        check_structure(self.layers, self.roots, root_weights, strict=validate)
        self.parameters: Mapping[str, Parameter] = MappingProxyType(self._named_parameters())
        self._values = self._initial_values(weights or {}, initial)
        self._frozen = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_frozen" in self.__dict__:
            raise AttributeError(f"a circuit cannot be changed; make another one instead of setting {name!r}")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        """What is not here: some of it has a model, which many look for in its circuit."""
        fix = " Fix: make a model, sq.SquaredCircuit(circuit)." if name in OF_MODELS else ""
        raise AttributeError(f"a Circuit has no attribute {name!r}.{fix}")

    # ------------------------------------------------------------------ structure

    @cached_property
    def scope(self) -> Scope:
        """The variables of the circuit."""
        return frozenset().union(*(root.scope for root in self.roots))

    @property
    def num_variables(self) -> int:
        """Number of columns of the data: one more than the largest variable."""
        return max(self.scope) + 1

    @property
    def num_roots(self) -> int:
        """R, the number of root units."""
        return sum(root.units for root in self.roots)

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The input layers."""
        return tuple(layer for layer in self.layers if isinstance(layer, Input))

    @cached_property
    def sums(self) -> tuple[Sum, ...]:
        """The sum layers."""
        return tuple(layer for layer in self.layers if isinstance(layer, Sum))

    @cached_property
    def domains(self) -> Mapping[int, Domain]:
        """The domain of every variable."""
        pairs = (zip(layer.variables, layer.family.domains, strict=True) for layer in self.inputs)
        return MappingProxyType({variable: domain for each in pairs for variable, domain in each})

    @cached_property
    def column_domains(self) -> Domains:
        """The domains of columns 0, …, d − 1 of the data, which compare all of its cells at once."""
        return Domains([self.domains.get(v) for v in range(self.num_variables)])

    @cached_property
    def _names(self) -> dict[Layer, str]:
        return {layer: f"{layer.kind}{i}" for i, layer in enumerate(self.layers)}

    def name(self, layer: Layer) -> str:
        """The layer's name: its kind and its place in ``layers``, e.g. ``sum12``."""
        return self._names[layer]

    def where(self, layer: Layer) -> str:
        """The layer's name and scope, for messages."""
        return f"{self.name(layer)} over {describe(layer.scope)}"

    def depths(self) -> dict[Layer, int]:
        """The length of the longest path from the inputs to each layer."""
        depths: dict[Layer, int] = {}
        for layer in self.layers:
            depths[layer] = 1 + max((depths[item] for item in layer.inputs), default=-1)
        return depths

    @property
    def is_scalar(self) -> bool:
        """Every layer has one unit: a circuit in the sense of Def. 1."""
        return all(layer.units == 1 for layer in self.layers)

    @property
    def is_complex(self) -> bool:
        """Some weight or input function is complex."""
        return any(p.is_complex for p in self.parameters.values()) or any(
            layer.family.is_complex for layer in self.inputs
        )

    def parameter_name(self, parameter: Parameter) -> str:
        """The name under which the circuit knows this parameter."""
        return self._parameter_names[parameter]

    @cached_property
    def _parameter_names(self) -> dict[Parameter, str]:
        names: dict[Parameter, str] = {}
        for layer in self.layers:
            for role, parameter in layer.named_parameters().items():
                names.setdefault(parameter, parameter.name or f"{self.name(layer)}.{role}")
        if self.root_weights is not None:
            names.setdefault(self.root_weights, self.root_weights.name or "roots")
        return names

    def _named_parameters(self) -> dict[str, Parameter]:
        named: dict[str, Parameter] = {}
        for parameter, name in self._parameter_names.items():
            if name in named:
                raise ParameterError(
                    f"two parameters are called {name!r}. Fix: rename one, "
                    "or pass one Parameter to both layers to tie them."
                )
            named[name] = parameter
        return named

    # ------------------------------------------------------------------ values

    def _initial_values(self, weights: Mapping[str, Tensor], initial: bool) -> dict[str, Tensor]:
        unknown = set(weights) - set(self.parameters)
        if unknown:
            raise ParameterError(
                f"no parameter is called {sorted(unknown)}; there are {_some(self.parameters)}"
                ". Fix: use these names."
            )
        given = {name: weights.get(name, p.value if initial else None) for name, p in self.parameters.items()}
        return {name: self.parameters[name].checked(v) for name, v in given.items() if v is not None}

    @property
    def has_weights(self) -> bool:
        """Every parameter has a value."""
        return len(self._values) == len(self.parameters)

    @cached_property
    def weights(self) -> Mapping[str, Tensor]:
        """The value of every parameter, by name."""
        missing = [name for name in self.parameters if name not in self._values]
        if missing:
            raise ParameterError(
                f"the circuit has no values yet for {_some(missing)}. Fix: call circuit.initialise(seed=…) "
                "or circuit.with_weights(…)."
            )
        return MappingProxyType(self._values)

    def with_weights(self, weights: Mapping[str, Tensor]) -> Circuit:
        """The same structure with other values; parameters not named keep theirs.

        Values are held, not copied: do not change a tensor in place after handing it over.
        """
        if not isinstance(weights, Mapping):
            raise ParameterError(
                f"weights are a mapping of names to tensors, got {type(weights).__name__}"
                ". Fix: pass a dict such as circuit.weights."
            )
        return Circuit(
            self.roots,
            root_weights=self.root_weights,
            weights={**self._values, **weights},
            validate=self.validated,
        )

    def declared(self) -> Circuit:
        """The same structure with the values of fixed weights alone, also where parameters have others.

        What a check finds of it holds for all weights that the constraints allow.

        Example:
            >>> from squircuit.families import Categorical
            >>> free = Sum(Input(0, Categorical(2)), weight=torch.tensor([[0.6, 0.8]]))
            >>> Circuit(free).has_weights, Circuit(free).declared().has_weights
            (True, False)
        """
        weights = {layer.weight for layer in self.inputs} | {layer.weight for layer in self.sums}
        fixed = {w for w in weights if w is not None and w.constraint is Constraint.FIXED}
        values = {self.parameter_name(w): w.value for w in fixed if w.value is not None}
        return Circuit(
            self.roots, root_weights=self.root_weights, weights=values, initial=False, validate=self.validated
        )

    def initialise(self, seed: int | torch.Generator = 0, dtype: torch.dtype = torch.complex128) -> Circuit:
        """The same structure with random values: semi-unitary ones uniformly (Haar), free ones Gaussian.

        Weights of input layers are as smooth as their family says. :mod:`squircuit.circuits.initial` has the
        schemes. Parameters with an initial value of their own (fixed ones; shifts and scales of input
        functions) take that.

        Args:
            seed: an integer or a generator.
            dtype: gives the precision; whether a parameter is complex is its own affair.
        """
        if dtype not in (torch.complex64, torch.complex128, torch.float32, torch.float64):
            raise ParameterError(
                f"dtype must be complex64, complex128, float32 or float64, got {dtype}"
                ". Fix: pass one of these."
            )
        if isinstance(seed, bool) or not isinstance(seed, int | torch.Generator):
            raise ParameterError(
                f"seed must be an integer or a torch.Generator, got {seed!r}. Fix: pass seed=0."
            )
        generator = seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
        return self.with_weights(initial_weights(self, generator, dtype))

    def value(self, parameter: Parameter) -> Tensor:
        """The value of one parameter."""
        name = self.parameter_name(parameter)
        return self._values[name] if name in self._values else self.weights[name]

    def known_value(self, parameter: Parameter) -> Tensor | None:
        """The value of one parameter, or None where it has none yet."""
        return self._values.get(self.parameter_name(parameter))

    def matrix(self, layer: Sum | Input) -> Tensor | None:
        """The weight W of a layer, (K1, K2): its own rows where several layers share a parameter.

        None for an input layer that is its family's functions themselves.
        """
        if layer.weight is None:
            return None
        value = self.value(layer.weight)
        return value[layer.first_row : layer.first_row + layer.units] if isinstance(layer, Input) else value

    def family_values(self, layer: Input) -> dict[str, Tensor]:
        """The values of the learnable parameters of an input layer's family."""
        return {name: self.value(parameter) for name, parameter in layer.parameters.items()}

    @property
    def mixture(self) -> Tensor:
        """π, the weights of the root units, (R,), float64."""
        if self.root_weights is None:
            return torch.full((self.num_roots,), 1 / self.num_roots, dtype=torch.float64)
        return self.value(self.root_weights).double()

    # ------------------------------------------------------------------ size

    def num_parameters(self, kind: str | None = None) -> int:
        """Number of real parameters, a complex one counted twice; tied ones counted once.

        Args:
            kind: count only the parameters of layers of one kind, ``"input"`` or ``"sum"``.
        """
        return sum(p.num_reals for p in self._parameters_of(kind))

    def num_weights(self, kind: str | None = None) -> int:
        """Number of entries, a complex one counted once; see :meth:`num_parameters`."""
        return sum(p.num_weights for p in self._parameters_of(kind))

    def _parameters_of(self, kind: str | None) -> list[Parameter]:
        if kind is None:
            return list(self.parameters.values())
        if kind not in ("input", "sum"):
            raise ParameterError(
                f"only layers of kind 'input' and 'sum' have parameters, not {kind!r}"
                ". Fix: ask for one of the two."
            )
        of_kind = (
            p for layer in self.layers if layer.kind == kind for p in layer.named_parameters().values()
        )
        return list(dict.fromkeys(of_kind))

    @property
    def size(self) -> int:
        """|c|, the number of edges between units."""
        return sum(layer.size for layer in self.layers)

    # ------------------------------------------------------------------ text

    def summary(self) -> str:
        """Layers by kind and shape, from the inputs to the root, with counts of layers and parameters."""
        return summary(self)

    def draw(self, names: Sequence[str] | None = None) -> str:
        """The layers as SVG text, inputs at the bottom; notebooks show it.

        Args:
            names: of the variables, which inputs get, such as ``model.schema.names``; default x0, x1, ….
        """
        return draw(self, names)

    def _repr_svg_(self) -> str:
        return draw(self)

    def to_json(self, *, weights: bool = False) -> str:
        """The structure as JSON text; ``weights=True`` adds every value (exact, for small circuits)."""
        return to_json(self, weights=weights)

    @classmethod
    def from_json(cls, text: str) -> Circuit:
        """The circuit that :meth:`to_json` wrote; a FormatError says what is wrong with other text."""
        return cls(**from_json(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.to_json(), dict(self._values))

    def __deepcopy__(self, memo: dict[int, object]) -> Circuit:
        return self  # immutable

    def __repr__(self) -> str:
        return (
            f"Circuit({len(self.scope)} variables, {len(self.layers)} layers, {self.num_roots} root units, "
            f"{self.num_parameters():,} parameters)"
        )


def _as_roots(roots: Layer | Sequence[Layer]) -> tuple[Layer, ...]:
    layers = (
        (roots,)
        if isinstance(roots, Layer)
        else tuple(roots)
        if isinstance(roots, list | tuple)
        else (roots,)
    )
    if not layers:
        raise ParameterError("a circuit needs at least one root layer. Fix: pass the layer on top.")
    for layer in layers:
        if not isinstance(layer, Layer):
            raise ParameterError(
                f"a circuit is made from its root layer (or a list of them), got {layer!r}"
                ". Fix: pass a layer, such as a Sum."
            )
    return layers


def _some(names: Mapping[str, object] | Sequence[str], most: int = 4) -> str:
    """The first few names, and how many there are."""
    shown = ", ".join(repr(name) for name in list(names)[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"


def _restored(text: str, values: Mapping[str, Tensor]) -> Circuit:
    """A circuit from what pickle kept of it."""
    return Circuit.from_json(text).with_weights(values)
