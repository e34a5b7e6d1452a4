"""What Hypothesis tries: the same examples on every run, or many new ones with LATCHKEY_HYPOTHESIS=thorough."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A slow machine is not a wrong rule: no deadline, and no complaint that lives take long to draw.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("ci", max_examples=200, derandomize=True, database=None, **_PATIENT)  # type: ignore[arg-type]
# For `make quick`: a quarter of the examples.
settings.register_profile("quick", max_examples=50, derandomize=True, database=None, **_PATIENT)  # type: ignore[arg-type]
settings.register_profile("thorough", max_examples=5_000, **_PATIENT)  # type: ignore[arg-type]
settings.load_profile(os.environ.get("LATCHKEY_HYPOTHESIS", "ci"))
