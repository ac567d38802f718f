"""What type checkers see of `squircuit`, whose names are imported when they are first asked for."""

from types import ModuleType

from squircuit import (
    data as data,
)
from squircuit import (
    errors as errors,
)
from squircuit import (
    families as families,
)
from squircuit import (
    inference as inference,
)
from squircuit import (
    learning as learning,
)
from squircuit import (
    networks as networks,
)
from squircuit import (
    optim as optim,
)
from squircuit import (
    plots as plots,
)
from squircuit import (
    presets as presets,
)
from squircuit import (
    regions as regions,
)
from squircuit import (
    scalar as scalar,
)
from squircuit import (
    storage as storage,
)
from squircuit import (
    training as training,
)
from squircuit.api import *  # noqa: F403

__version__: str

def __getattr__(name: str) -> ModuleType: ...
