"""A check that this machine cannot run is announced at the end of the run."""

from __future__ import annotations

import pytest

from tests import not_run


def test_the_end_of_a_run_says_how_many_checks_did_not_run_and_how_to_run_them() -> None:
    reasons = []
    for needed in ("Citus", "Docker", "Citus"):
        with pytest.raises(pytest.skip.Exception) as skipped:
            not_run.skip(needed, f"Name a {needed}.")
        reasons.append(f"Skipped: {skipped.value}")
    assert not_run.summary([*reasons, "Skipped: another reason"]) == [
        "2 checks DID NOT RUN, because this machine has no Citus. Name a Citus.",
        "1 check DID NOT RUN, because this machine has no Docker. Name a Docker.",
    ]
