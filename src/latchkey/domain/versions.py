"""Versions of apps, compared by their numbers: 1.10 is newer than 1.9."""

import re

# Bounded, because phones send anything.
_VERSION = re.compile(r"[vV]?([0-9]{1,18}(?:\.[0-9]{1,18}){0,11})(?![0-9.]*[0-9])")


def version_of(text: str | None) -> tuple[int, ...] | None:
    """What versions are compared by: the numbers at the beginning, without zeros at the end, so that 2 equals 2.0.0.
    What follows them, such as `-beta.1` or ` (42)`, does not count. None: there is no version, or it is none."""
    found = _VERSION.match(text.strip()) if text else None
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
