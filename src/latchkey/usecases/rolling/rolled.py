"""What a pass of a roller left to do."""

from __future__ import annotations

from msgspec import Struct


class Rolled(Struct, frozen=True):
    # There is more to do at once.
    more: bool
    # Some customers are not counted yet.
    uncounted: bool
