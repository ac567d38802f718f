"""The names of the public API, from the folders that have them; `squircuit` has each of them."""

from squircuit.circuits import Circuit, Constraint, Hadamard, Input, Kronecker, Layer, Parameter, Sum, build
from squircuit.compression import compress, decompress
from squircuit.errors import DataError, FormatError, ParameterError, SquircuitError, StructureError
from squircuit.families import (
    Bins,
    BSpline,
    Categorical,
    Family,
    Fourier,
    Gaussian,
    Hermite,
    Laguerre,
    Legendre,
    Monotone,
    MultivariateGaussian,
    Orthonormalised,
    OrthonormalisedBlock,
    Transformed,
)
from squircuit.inference import (
    CircuitDistribution,
    Estimate,
    Marginals,
    MostProbable,
    fidelity,
    kl_divergence,
    marginal,
    overlap,
    partition,
    total_variation,
)
from squircuit.learning import fit_classes, learn, stack
from squircuit.models import SquaredCircuit, image_model, load, mixture, model_for, table_model
from squircuit.properties import (
    Report,
    Verdict,
    are_compatible,
    check,
    is_basis_decomposable,
    is_decomposable,
    is_deterministic,
    is_orthogonal,
    is_regular_orthogonal,
    is_smooth,
    is_structured_decomposable,
    is_unitary,
    satisfies_u1,
    satisfies_u2,
    satisfies_u3,
    satisfies_u4,
)
from squircuit.reference import evaluate, inner_product, integrate
from squircuit.regions import RegionGraph
from squircuit.training import History, TrainingConfig, fit
from squircuit.transforms import Unitarised, conjugate, multiply, square, unitarise, unroll

__all__ = [
    # input functions
    "BSpline", "Bins", "Categorical", "Family", "Fourier", "Gaussian", "Hermite", "Laguerre", "Legendre",
    "Monotone", "MultivariateGaussian", "Orthonormalised", "OrthonormalisedBlock", "Transformed",
    # circuits
    "Circuit", "Constraint", "Hadamard", "Input", "Kronecker", "Layer", "Parameter", "RegionGraph",
    "Sum", "build",
    # properties
    "Report", "Verdict", "are_compatible", "check", "is_basis_decomposable", "is_decomposable",
    "is_deterministic", "is_orthogonal", "is_regular_orthogonal", "is_smooth", "is_structured_decomposable",
    "is_unitary", "satisfies_u1", "satisfies_u2", "satisfies_u3", "satisfies_u4",
    # what a circuit means
    "evaluate", "inner_product", "integrate", "marginal", "partition",
    # circuit to circuit
    "Unitarised", "conjugate", "multiply", "square", "unitarise", "unroll",
    # models, and what they answer
    "CircuitDistribution", "Estimate", "Marginals", "MostProbable", "SquaredCircuit", "compress",
    "decompress", "fidelity",
    "image_model", "kl_divergence", "load", "mixture", "model_for", "overlap", "table_model",
    "total_variation",
    # training
    "History", "TrainingConfig", "fit", "fit_classes", "learn", "stack",
    # errors
    "DataError", "FormatError", "ParameterError", "SquircuitError", "StructureError",
]  # fmt: skip
