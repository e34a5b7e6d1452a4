"""What the supervisor tells a process about the others while it runs."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class News(Struct, frozen=True):
    """The whole state each time, so that no message depends on an earlier one."""

    # Listening sockets of other processes, by number, at which this process must accept connections too.
    sockets: tuple[int, ...] = ()
    # Processes of this machine that have crashed again and again and are not healthy yet.
    restarting: tuple[str, ...] = ()


class Standing:
    """The latest news."""

    def __init__(self) -> None:
        self.news = News()
        self._follow: Callable[[News], None] = lambda _: None

    def hear(self, news: News) -> None:
        self.news = news
        self._follow(news)

    def follow(self, told: Callable[[News], None]) -> None:
        """Call this with the present news, and whenever they change."""
        self._follow = told
        told(self.news)
