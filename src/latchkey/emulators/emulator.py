"""What the store emulators share: a clock, an outbox, misbehaviour, how time is moved, and what a store says of a
purchase."""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from starlette.applications import Starlette

from latchkey.domain.instants import Ms
from latchkey.domain.refusal import found
from latchkey.emulators.control_requests import converted
from latchkey.emulators.misbehaviour import Dice, Fate, Misbehaviour
from latchkey.emulators.notification_outbox import NotificationOutbox, NotificationRequest, OutgoingNotification
from latchkey.now import real_now

L = TypeVar("L")
N = TypeVar("N")

# By store.
FIRST_PRODUCTS: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (files("latchkey.emulators") / "first_products.toml").read_text(encoding="utf-8")
)


def without_none(**fields: Any) -> dict[str, Any]:
    """The fields of an object that a store leaves out where they say nothing."""
    return {name: value for name, value in fields.items() if value is not None}


class ExpectedState(msgspec.Struct, frozen=True, kw_only=True):
    """What the store itself thinks of a purchase, in words that do not depend on the store. Tests compare it with what
    Latchkey concluded from notifications and API reads."""

    # What the control API calls the purchase: Apple's original transaction id, Google's purchase token.
    purchase: str
    # What Latchkey calls it: Apple's original transaction id (of a one-time purchase: the transaction id); Google's
    # order id without a suffix, of the first purchase in a chain of replacements.
    id: str
    buyer: str
    account_token: str | None
    # subscription, prepaid or one_time
    kind: str
    product_id: str
    # How many transactions, or orders, the store keeps of it.
    periods: int
    # Whether the buyer may use it now.
    active: bool
    # When the paid time ends. None for a purchase that does not end.
    ends_at: Ms | None
    # When access ends, with a grace period and with a refund or revocation. None for a purchase that does not end.
    access_ends_at: Ms | None
    # When access had ended before, of which the store says nothing any more: who was told then keeps that end.
    access_had_ended_at: Ms | None = None
    auto_renew: bool = False
    in_trial: bool = False
    billing_problem: bool = False
    grace_ends_at: Ms | None = None
    # The moment of the refund of the latest period, if it stands.
    refunded_at: Ms | None = None
    next_product_id: str | None = None
    resumes_at: Ms | None = None
    acknowledged: bool = True
    # Another purchase has taken its place and goes on under the same id.
    replaced: bool = False
    sandbox: bool = True


def advance(
    books: L,
    until: int,
    due_events: Callable[[L], Iterable[tuple[Any, ...]]],
    happen: Callable[[L, Any], tuple[L, tuple[N, ...]]],
) -> tuple[L, tuple[N, ...]]:
    """Everything that time brings up to and with `until`, oldest first. One event may bring about another. An event
    begins with its moment."""
    notices: list[N] = []
    while due := [event for event in due_events(books) if event[0] <= until]:
        books, new = happen(books, min(due))
        notices.extend(new)
    return books, tuple(notices)


class EmulatorClock:
    """It follows the real clock, or stands still, and can be moved forward."""

    def __init__(self, *, starts_at: Ms | None = None, ticks: bool = True) -> None:
        now = real_now()
        self._ticks = ticks
        self._latest = now if starts_at is None else starts_at
        self._ahead = self._latest - now

    def now(self) -> Ms:
        if self._ticks:
            # A real clock that is set back must not make the store contradict itself.
            self._latest = max(self._latest, real_now() + self._ahead)
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
            self._ahead += at - now
            self._latest = at


class Emulator(ABC, Generic[L, N]):
    """`L` are the store's books, `N` its notices. The books change through `_change` only."""

    # "apple", "google" or "stripe"
    name: ClassVar[str]
    lies: ClassVar[frozenset[str]]
    # Statuses by which the service says that it took a notification.
    accepted: ClassVar[frozenset[int]]
    # The store's module with `due_events(books)` and `happen(books, event)`.
    rules: ModuleType
    # The unit of time in the books.
    unit: ClassVar[Ms] = 1

    def __init__(self, books: L, clock: EmulatorClock) -> None:
        self.books = books
        self.clock = clock
        self.dice = Dice(self.lies)
        self.outbox = NotificationOutbox(self)
        # Called with the new books after every change.
        self.kept: Callable[[L], None] = lambda _: None
        if not self.products():
            for product in FIRST_PRODUCTS[self.name]:
                self.add_product(product)

    @abstractmethod
    def add_product(self, given: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def sell(self, **sale: Any) -> str:
        """Sells as the control API does, and gives what to call the purchase by."""

    @abstractmethod
    def act(self, purchase: str, act: str, **options: Any) -> str:
        """Lets something happen to a purchase, and gives what to call it by afterwards: at Google a replaced purchase
        goes on under a new token."""

    def send_test(self) -> str:
        """Posts the store's own test notification, and gives its id."""
        message = self._message(self._test_notice())
        self.outbox.post(message)
        return message.id

    @abstractmethod
    def _test_notice(self) -> N: ...

    @abstractmethod
    def products(self) -> list[dict[str, Any]]: ...

    @abstractmethod
    def expected_states(self) -> list[ExpectedState]: ...

    @abstractmethod
    def receipt(self, purchase: str) -> dict[str, Any]:
        """What an app sends to `POST /v1/receipts` for this purchase, without its own `app_user_id`."""

    @abstractmethod
    def credentials(self, base_url: str) -> dict[str, Any]:
        """What is PUT to the app's credentials in Latchkey, where the emulator serves at `base_url`."""

    def application(self) -> Starlette:
        """The store's API. Imported here because its module knows the class of the store."""
        application: Starlette = import_module(f"latchkey.emulators.{self.name}.{self.name}_api").application(self)
        return application

    def _advance(self, until: Ms) -> None:
        self._change(*advance(self.books, until // self.unit, self.rules.due_events, self.rules.happen))

    def _due_at(self) -> Ms | None:
        return min((event[0] * self.unit for event in self.rules.due_events(self.books)), default=None)

    @abstractmethod
    def _message(self, notice: N) -> OutgoingNotification: ...

    @abstractmethod
    def write(self, message: OutgoingNotification, lie: str | None) -> NotificationRequest: ...

    @abstractmethod
    def next_try(self, message: OutgoingNotification) -> Ms | None: ...

    def misbehave(self, wanted: Misbehaviour | None = None, **settings: Any) -> None:
        self.dice.want(wanted or converted(settings, Misbehaviour))

    def behave(self) -> None:
        self.dice.want(Misbehaviour())

    def known(self, purchase: str) -> ExpectedState:
        """By what the control API or Latchkey calls it. Of a chain of replacements, the newest."""
        known = self.expected_states()
        named = next((state for state in known if state.purchase == purchase), None)
        named = named or next((state for state in reversed(known) if state.id == purchase), None)
        return found(named, f"The store knows no purchase {purchase!r}.", "purchase")

    async def deliver(self) -> None:
        await self.outbox.deliver()

    async def calm(self) -> None:
        """No more misbehaviour; whatever it holds back, or waits for its next try, is sent now. What was dropped stays
        lost. What a sale asked to be sent later is sent then, once."""
        self.behave()
        await self.outbox.deliver(everything=True)
        for message in self.outbox.waiting():
            message.fate = Fate()

    async def move(self, to: Ms, between: Callable[[Ms], Awaitable[None]] | None = None) -> None:
        """Moves the clock, and stops at every moment at which something happens or is sent. `between` is called at each
        of them, after the notifications were sent."""
        forward = to > self.clock.now()
        while True:
            stops = [at for at in (self._due_at(), self.outbox.next_due()) if at is not None]
            stop = min(stops, default=None)
            if stop is None or stop > to:
                break
            self.clock.reach(stop)
            self._advance(self.clock.now())
            await self.deliver()
            if between is not None:
                await between(self.clock.now())
        self.clock.reach(to)
        if forward:
            self.kept(self.books)
        if between is not None:
            await between(self.clock.now())

    async def close(self) -> None:
        await self.outbox.close()

    def _change(self, books: L, notices: tuple[N, ...]) -> None:
        if books is self.books and not notices:
            return
        self.books = books
        for notice in notices:
            self.outbox.post(self._message(notice))
        self.kept(books)
