"""One purchase in the books of a store emulator, without keys and sockets, and the steps of its life."""

from types import ModuleType
from typing import Any, Generic, Self, TypeVar

from latchkey.domain.instants import Ms, add, parse_duration
from latchkey.emulators.emulator import advance

B = TypeVar("B")
# A duration that passes, or an act with its options; `buy` buys the monthly product unless another one is named.
Step = str | tuple[str, dict[str, Any]]


class EmulatedPurchase(Generic[B]):
    # The store's module with `due_events` and `happen`.
    rules: ModuleType
    unit: Ms = 1
    start: Ms = 1_800_000_000_000

    def __init__(self, books: B) -> None:
        self.books, self.now = books, self.start
        # The kinds of the notifications that were sent.
        self.sent: list[str] = []
        self.id = ""

    def buy(self, **sale: Any) -> None:
        raise NotImplementedError

    def act(self, act: str, **options: Any) -> None:
        raise NotImplementedError

    def pass_by(self, duration: str) -> None:
        self.now = add(self.now, parse_duration(duration))
        self.keep(advance(self.books, self.now // self.unit, self.rules.due_events, self.rules.happen))

    def keep(self, step: tuple[B, tuple[Any, ...]]) -> None:
        self.books = step[0]
        self.sent += [notice.kind for notice in step[1]]

    def live(self, *steps: Step) -> Self:
        for step in steps:
            name, options = step if isinstance(step, tuple) else (step, {})
            if name.startswith("P"):
                self.pass_by(name)
            elif name == "buy":
                self.buy(**options)
            else:
                self.act(name, **options)
        return self
