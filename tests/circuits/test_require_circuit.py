"""Functions of circuits refuse models, and circuits say where the questions of models are."""

import pytest

import squircuit as sq

MODEL = sq.SquaredCircuit(sq.build(sq.regions.linear(3), sq.Categorical(2), units=2), seed=0)
ROW = [[0, 1, 0]]
ARGUMENTS = {"evaluate": (ROW,), "marginal": (ROW, [0]), "integrate": (ROW, [0])}
ONE = [
    "evaluate", "integrate", "marginal", "partition", "check", "conjugate", "square", "unitarise", "unroll",
    "is_basis_decomposable", "is_decomposable", "is_deterministic", "is_orthogonal", "is_regular_orthogonal",
    "is_smooth", "is_structured_decomposable", "is_unitary", "satisfies_u1", "satisfies_u2", "satisfies_u3",
    "satisfies_u4",
]  # fmt: skip
FUNCTIONS = {
    **{name: getattr(sq, name) for name in ONE},
    "to_mps": sq.networks.to_mps,
    "to_ttn": sq.networks.to_ttn,
    "to_quimb": sq.networks.to_quimb,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_circuit_refuses_a_model_and_takes_its_circuit(name):
    arguments = ARGUMENTS.get(name, ())
    with pytest.raises(sq.ParameterError) as caught:
        FUNCTIONS[name](MODEL, *arguments)
    assert str(caught.value) == f"{name} takes a Circuit, got {MODEL!r}. Fix: pass model.circuit()."
    if name not in ("to_mps", "to_ttn", "to_quimb"):  # which take some circuits only
        assert FUNCTIONS[name](MODEL.circuit(), *arguments) is not None


@pytest.mark.parametrize("function", [sq.are_compatible, sq.multiply, sq.inner_product])
def test_both_arguments_must_be_circuits(function):
    circuit = MODEL.circuit()
    for pair in ((MODEL, circuit), (circuit, MODEL)):
        with pytest.raises(
            sq.ParameterError, match=r"takes a Circuit, got SquaredCircuit.*model\.circuit\(\)"
        ):
            function(*pair)


@pytest.mark.parametrize("function", [sq.scalar.partition, sq.scalar.marginal, sq.inference.unitary.marginal])
def test_the_other_roads_to_z_refuse_models_too(function):
    with pytest.raises(sq.ParameterError, match=r"Fix: pass model\.circuit\(\)\."):
        function(MODEL)


@pytest.mark.parametrize("name", ["log_prob", "sample", "save", "cuda"])
def test_a_circuit_says_that_a_model_has_what_it_has_not(name):
    circuit = MODEL.circuit()
    with pytest.raises(
        AttributeError, match=rf"no attribute '{name}'\. Fix: make a model, sq\.SquaredCircuit"
    ):
        getattr(circuit, name)
    assert hasattr(MODEL, name)


def test_any_other_name_gets_no_advice():
    with pytest.raises(AttributeError, match=r"^a Circuit has no attribute 'colour'\.$"):
        _ = MODEL.circuit().colour
