"""What happens to a model before it is asked: training by every optimiser, weights written in every way."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.circuits import Random, chance, choice
from fuzz.program import tensor

OPTIMISERS = (
    "sq.optim.Polar({m}.parameters(), lr=0.1)",
    "sq.optim.Polar({m}.parameters(), lr=0.5)",
    "sq.optim.POGO({m}.parameters(), lr=0.1)",
    "sq.optim.LandingPC({m}.parameters(), lr=0.1, rectify=False)",
    "sq.optim.LandingSGD({m}.parameters(), lr=0.1)",
    "torch.optim.Adam({m}.parameters(), lr=0.1)",
    "torch.optim.Adam({m}.parameters(), lr=0.1)",
    "torch.optim.SGD({m}.parameters(), lr=0.1)",
)

NOISE = "torch.randn(p.shape, generator=torch.Generator().manual_seed({s}), dtype=p.dtype)"
FILE = "tempfile.gettempdir() + '/squircuit-fuzz-{s}.safetensors'"

WRITES = (
    "for p in {m}.parameters(): p.data.mul_({k})",
    f"for p in {{m}}.parameters(): p.data += {{k}} * {NOISE}",
    f"with torch.no_grad(): [p.copy_({NOISE}) for p in {{m}}.parameters()]",
    "for p in {m}.parameters(): p.data = p.data * {k}",
    "with torch.no_grad(): [p.mul_({k}) for p in {m}.parameters()]",
    "with torch.no_grad(): [p.copy_(p.flip(-1)) for p in {m}.parameters() if p.ndim > 1]",
    "with torch.no_grad(): [p.copy_(p.roll(1, 0)) for p in {m}.parameters()]",
    "{m}.load_state_dict({{n: {k} * v for n, v in {m}.state_dict().items()}}, assign=True)",
    "{m}.load_state_dict({{n: {k} * v for n, v in {m}.state_dict().items()}})",
    "{m} = copy.deepcopy({m})",
    "{m} = copy.deepcopy({m}); [p.data.mul_({k}) for p in {m}.parameters()]",
    "{m} = {m}.double()",
    "{m} = {m}.to(torch.float32)",
    f"{{m}}.save({FILE}); {{m}} = sq.load({FILE})",
    "{m} = sq.SquaredCircuit({m}.circuit(), dtype=torch.complex128)",
)

VECTOR = (
    "own = [p for p in {m}.parameters() if p.dtype == next(iter({m}.parameters())).dtype]\n"
    "v = torch.nn.utils.parameters_to_vector(own)\n"
    "torch.nn.utils.vector_to_parameters(v * {k}, own)"
)

STEPS = (
    "{m}.train()\nfor _ in range({n}):\n    o.zero_grad()\n    (-{m}.log_prob({x}).mean()).backward()\n"
    "    o.step()\n{m}.eval()"
)


def warm(random: Random, name: str) -> str:
    """A question whose answer is thrown away, so that whatever is remembered is remembered."""
    asked = ("is_normalised()", "log_partition()", "marginals()", "sample(2)")
    return f"{name}.{choice(random, asked)}"


def history(random: Random, name: str, rows: Any, is_discrete: bool, has_parameters: bool) -> list[str]:
    """Lines that change a model; the last leaves it in evaluation mode."""
    kind = random.random()
    if kind < 0.45 and has_parameters:
        return _trained(random, name, rows, is_discrete)
    if kind < 0.5 and has_parameters:
        many = np.repeat(rows, 8, axis=0)
        shown = tensor(many.astype(int) if is_discrete else many)
        optimiser = choice(random, ("polar", "pogo", "landing-pc", "landing-sgd"))
        return [f"sq.fit({name}, {shown}, epochs=2, optimiser={optimiser!r}, seed=0, progress=False)"]
    line = VECTOR if chance(random, 0.1) and has_parameters else str(choice(random, WRITES))
    factor = choice(random, (0.5, 1.5, -1.0, -1.0, 1.0, 1e-6, 3.0))
    lines = [line.format(m=name, k=factor, s=int(random.integers(100))), f"{name}.eval()"]
    if "load_state_dict" in line and has_parameters:  # what parameters say of themselves has to survive it
        lines += _trained(random, name, rows, is_discrete, optimiser=OPTIMISERS[0])
    return lines


def _trained(
    random: Random, name: str, rows: Any, is_discrete: bool, optimiser: str | None = None
) -> list[str]:
    made = (str(choice(random, OPTIMISERS)) if optimiser is None else optimiser).format(m=name)
    shown = tensor(rows.astype(int) if is_discrete else rows)
    steps = STEPS.format(m=name, n=int(random.integers(1, 6)), x="t")
    return [f"t = {shown}", f"o = {made}", steps]
