"""One hypothesis profile for the whole suite: no deadlines (they are timings), the same examples each run."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "squircuit",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.register_profile(  # of kill_mutants.py, to which the first failure is enough
    "first-failure", settings.get_profile("squircuit"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("squircuit")
