"""What a batch left to do."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Rolled(Struct, frozen=True):
    # There is more to do at once.
    more: bool
    # Some customers are not counted yet.
    uncounted: bool

    def plus(self, other: Rolled) -> Rolled:
        return Rolled(self.more or other.more, self.uncounted or other.uncounted)


NOTHING: Final = Rolled(more=False, uncounted=False)
