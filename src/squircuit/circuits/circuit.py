"""Layered circuits: a structure and the values of its parameters (Def. "Tensorized circuit")."""

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
from squircuit.circuits.serialise import from_json, to_json
from squircuit.circuits.structure import Structure
from squircuit.circuits.summary import draw, summary
from squircuit.errors import ParameterError, warn_former
from squircuit.regions import RegionGraph

OF_MODELS = {
    "cuda", "eval", "expectation", "given", "impute", "log_conditional", "log_partition", "log_prob",
    "marginals", "mean", "moments", "sample", "save", "to", "train", "variance",
}  # fmt: skip
"""What models have and circuits have not."""


@final
class Circuit(Structure):
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
        super().__init__(roots, root_weights, validate)
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
    def root_shares(self) -> Tensor:
        """π, the shares of the root units in p = Σ_r π_r |c_r|², (R,), float64."""
        if self.root_weights is None:
            return torch.full((self.num_roots,), 1 / self.num_roots, dtype=torch.float64)
        return self.value(self.root_weights).double()

    @property
    def mixture(self) -> Tensor:
        """The former name of :attr:`root_shares`; mixtures are of models."""
        warn_former("circuit.mixture", "circuit.root_shares")
        return self.root_shares

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
        return to_json(self, self.weights if weights else None)

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


def _some(names: Mapping[str, object] | Sequence[str], most: int = 4) -> str:
    """The first few names, and how many there are."""
    shown = ", ".join(repr(name) for name in list(names)[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"


def _restored(text: str, values: Mapping[str, Tensor]) -> Circuit:
    """A circuit from what pickle kept of it."""
    return Circuit.from_json(text).with_weights(values)


def require_circuit(function: str, *arguments: Any) -> None:
    """Refuse anything but circuits, and say how to get one.

    Args:
        function: its name, for the message.
        arguments: that must be circuits.

    Example:
        >>> from squircuit.regions import linear
        >>> require_circuit("partition", linear(3))
        Traceback (most recent call last):
        squircuit.errors.ParameterError: partition takes a Circuit, got RegionGraph(...). Fix: ...
    """
    for argument in arguments:
        if not isinstance(argument, Circuit):
            raise ParameterError(f"{function} takes a Circuit, got {argument!r}", fix=_fix(argument))


def _fix(argument: Any) -> str:
    if callable(getattr(argument, "circuit", None)):  # a model, which this folder does not know
        return "pass model.circuit()"
    if isinstance(argument, RegionGraph):
        return "pass sq.build(regions, family, units)"
    return "pass what sq.build, or Circuit(root), returns"
