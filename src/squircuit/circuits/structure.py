"""The layers of a circuit as a graph, without values: their order, names, parameters, scope and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from squircuit.circuits.layers import Input, Layer, Sum
from squircuit.circuits.parameter import Parameter
from squircuit.circuits.postorder import postorder
from squircuit.circuits.validation import check_structure
from squircuit.errors import ParameterError
from squircuit.families.domain import Domain, Domains
from squircuit.regions.scope import Scope, describe


class Structure:
    """What a circuit is before its parameters have values, checked once.

    Args:
        roots: the output layer, or several whose units are taken together.
        root_weights: simplex parameter π of shape (R,), or None.
        validate: refuse what is not smooth and decomposable.
    """

    def __init__(
        self, roots: Layer | Sequence[Layer], root_weights: Parameter | None = None, validate: bool = True
    ) -> None:
        self.roots: tuple[Layer, ...] = _as_roots(roots)
        self.layers: tuple[Layer, ...] = tuple(postorder(self.roots, lambda layer: layer.inputs))
        self.root_weights = root_weights
        self.validated = validate
        check_structure(self.layers, self.roots, root_weights, strict=validate)
        self.parameters: Mapping[str, Parameter] = MappingProxyType(self._named_parameters())

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

    def rebuilt(self, change: Callable[[Layer, list[Layer]], Layer]) -> list[Layer]:
        """The root layers of a copy that is made from the inputs upwards.

        Args:
            change: a layer, and what its inputs have become → what it becomes.
        """
        made: dict[Layer, Layer] = {}
        for layer in self.layers:
            made[layer] = change(layer, [made[item] for item in layer.inputs])
        return [made[root] for root in self.roots]

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
