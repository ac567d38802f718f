"""What happens to a model before it is asked: training by every optimiser, weights written in every way."""

from __future__ import annotations

from typing import Any

import numpy as np
from circuits import Random, chance, choice
from program import tensor

OPTIMISERS = (
    "sq.optim.Polar({m}.parameters(), lr=0.1)",
    "sq.optim.Polar({m}.parameters(), lr=0.5)",
    "sq.optim.POGO({m}.parameters(), lr=0.1)",
    "sq.optim.LandingPC({m}.parameters(), lr=0.1, rectify=False)",
    "sq.optim.LandingSGD({m}.parameters(), lr=0.1)",
    "torch.optim.Adam({m}.parameters(), lr=0.1)",
    "torch.optim.SGD({m}.parameters(), lr=0.1)",
)

WRITES = (
    "for p in {m}.parameters(): p.data.mul_({k})",
    "for p in {m}.parameters(): p.data += {k} * torch.randn(p.shape, generator=torch.Generator().manual_seed({s}), dtype=p.dtype)",
    "for p in {m}.parameters(): p.data = p.data * {k}",
    "with torch.no_grad(): [p.mul_({k}) for p in {m}.parameters()]",
    "with torch.no_grad(): [p.copy_(p.flip(-1)) for p in {m}.parameters() if p.ndim > 1]",
    "{m}.load_state_dict({{n: {k} * v for n, v in {m}.state_dict().items()}}, assign=True)",
    "{m}.load_state_dict({{n: {k} * v for n, v in {m}.state_dict().items()}})",
    "{m} = copy.deepcopy({m})",
    "{m} = copy.deepcopy({m}); [p.data.mul_({k}) for p in {m}.parameters()]",
    "{m} = {m}.double()",
    "{m} = {m}.to(torch.float32)",
    "{m}.save(tempfile.gettempdir() + '/squircuit-fuzz-{s}.safetensors'); {m} = sq.load(tempfile.gettempdir() + '/squircuit-fuzz-{s}.safetensors')",
    "{m} = sq.SquaredCircuit({m}.circuit(), dtype=torch.complex128)",
)

VECTOR = (
    "v = torch.nn.utils.parameters_to_vector([p for p in {m}.parameters() if not p.is_complex()])\n"
    "torch.nn.utils.vector_to_parameters(v * {k}, [p for p in {m}.parameters() if not p.is_complex()])"
)

STEPS = (
    "{m}.train()\nfor _ in range({n}):\n    o.zero_grad()\n    (-{m}.log_prob({x}).mean()).backward()\n"
    "    o.step()\n{m}.eval()"
)


def warm(random: Random, name: str) -> str:
    """A question whose answer is thrown away, so that whatever is remembered is remembered."""
    return str(choice(random, (f"{name}.is_normalised()", f"{name}.log_partition()", f"{name}.marginals()", f"{name}.sample(2)")))


def history(random: Random, name: str, rows: Any, is_discrete: bool, has_parameters: bool) -> list[str]:
    """Lines that change a model; the last leaves it in evaluation mode."""
    kind = random.random()
    if kind < 0.5 and has_parameters:
        return _trained(random, name, rows, is_discrete)
    if kind < 0.55 and has_parameters:
        many = np.repeat(rows, 8, axis=0)
        shown = tensor(many.astype(int) if is_discrete else many)
        optimiser = choice(random, ("polar", "pogo", "landing-pc", "landing-sgd"))
        return [f"sq.fit({name}, {shown}, epochs=2, optimiser={optimiser!r}, seed=0, progress=False)"]
    line = VECTOR if chance(random, 0.1) else str(choice(random, WRITES))
    factor = choice(random, (0.5, 1.5, -1.0, 1e-6, 3.0))
    line = line.format(m=name, k=factor, s=int(random.integers(100)))
    if line.startswith("v = ") and not has_parameters:
        return []
    return [line, f"{name}.eval()"]


def _trained(random: Random, name: str, rows: Any, is_discrete: bool) -> list[str]:
    optimiser = str(choice(random, OPTIMISERS)).format(m=name)
    shown = tensor(rows.astype(int) if is_discrete else rows)
    steps = STEPS.format(m=name, n=int(random.integers(1, 6)), x="t")
    return [f"t = {shown}", f"o = {optimiser}", steps]
