"""What a batch left to do."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class Rolled(Struct, frozen=True):
    # There is more to do at once.
    more: bool
    # Some customers are not counted yet.
    uncounted: bool
    # Projects whose tail is to be folded, now that the batch is committed.
    full: tuple[str, ...] = ()

    def plus(self, other: Rolled) -> Rolled:
        return Rolled(self.more or other.more, self.uncounted or other.uncounted, self.full + other.full)


NOTHING: Final = Rolled(more=False, uncounted=False)
