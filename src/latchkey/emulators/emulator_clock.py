"""An emulator's own clock. It follows the real one, or stands still, and can be moved forward."""

from collections.abc import Callable

from latchkey.domain.instants import Ms
from latchkey.now import real_now


class EmulatorClock:
    def __init__(self, *, starts_at: Ms | None = None, ticks: bool = True, real: Callable[[], Ms] = real_now) -> None:
        self._real = real
        self._ticks = ticks
        self._ahead = 0 if starts_at is None else starts_at - real()
        self._stands_at = real() + self._ahead
        self._latest = self._stands_at

    def now(self) -> Ms:
        read = self._real() + self._ahead if self._ticks else self._stands_at
        # A real clock that is set back must not make the store contradict itself.
        self._latest = max(self._latest, read)
        return self._latest

    def next(self) -> Ms:
        """A moment after every moment that was given before: two acts never happen in the same millisecond. What the
        App Store says is ordered by these moments."""
        self.reach(self.now() + 1)
        return self.now()

    def reach(self, at: Ms) -> None:
        """Be at this moment or later. A clock that ticks may have passed it by itself."""
        now = self.now()
        if at > now:
            if self._ticks:
                self._ahead += at - now
            self._stands_at = max(self._stands_at, at)
            self._latest = at
