"""Profiles for the property tests of storage: `pytest --hypothesis-profile=soak` for long runs."""

from hypothesis import Phase, settings

_PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink)

settings.register_profile("storage", deadline=None, max_examples=60, phases=_PHASES)
settings.register_profile(
    "soak", deadline=None, max_examples=5000, stateful_step_count=120, phases=_PHASES
)
