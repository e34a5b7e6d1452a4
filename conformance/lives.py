"""A whole life at each of the four stores: after every step V1, V2, the webhook and the consumer's copy agree."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.https import ask, wait_for
from conformance.life import Customer, World

Options = Mapping[str, Any]
# What is done, the events that follow, and whether there is access afterwards. A step with the name of a date waits for
# that date, as the newest event that has one says it.
Step = tuple[str, Options, str, bool]
END, GRACE_END, RESUMPTION = "expiration_at_ms", "grace_period_expires_at_ms", "auto_resume_at_ms"

TRIAL: list[Step] = [
    ("purchase", {"trial": True}, "TRIAL_STARTED", True),
    ("cancel", {}, "TRIAL_CANCELLED", True),
    ("uncancel", {}, "UNCANCELLATION", True),
]
TURNED_OFF_AND_ON: list[Step] = [
    ("cancel", {}, "CANCELLATION", True),
    ("uncancel", {}, "UNCANCELLATION", True),
]
FAILURE: list[Step] = [
    ("fail_billing", {"grace_days": 16}, "", True),
    (END, {}, "BILLING_ISSUE", True),
]
CANCELLED: list[Step] = [
    ("cancel", {}, "CANCELLATION", True),
    (END, {}, "EXPIRATION", False),
]
LIVES: dict[str, list[Step]] = {
    "test_store": [
        *TRIAL,
        (END, {}, "INITIAL_PURCHASE", True),
        (END, {}, "RENEWAL", True),
        *TURNED_OFF_AND_ON,
        ("fail_billing", {"grace_days": 16}, "BILLING_ISSUE", True),
        ("recover_billing", {}, "RENEWAL", True),
        ("extend", {"days": 3}, "SUBSCRIPTION_EXTENDED", True),
        ("pause", {"resume_at_ms": lambda end: end + 60 * 86_400_000}, "SUBSCRIPTION_PAUSED", True),
        (END, {}, "EXPIRATION", False),
        (RESUMPTION, {}, "RENEWAL", True),
        ("fail_billing", {"grace_days": 16}, "BILLING_ISSUE", True),
        (GRACE_END, {}, "EXPIRATION", False),
        ("recover_billing", {}, "RENEWAL", True),
        ("change_product", {"new_product_id": "pro_yearly"}, "PRODUCT_CHANGE", True),
        *CANCELLED,
        ("purchase", {}, "INITIAL_PURCHASE", True),
        ("refund", {}, "REFUND", False),
        ("reverse_refund", {}, "REFUND_REVERSED", True),
    ],
    "apple": [
        *TRIAL,
        (END, {}, "INITIAL_PURCHASE", True),
        (END, {}, "RENEWAL", True),
        *TURNED_OFF_AND_ON,
        *FAILURE,
        ("recover", {}, "RENEWAL", True),
        ("extend", {"days": 7}, "SUBSCRIPTION_EXTENDED", True),
        *FAILURE,
        (GRACE_END, {}, "EXPIRATION", False),
        ("recover", {}, "RENEWAL", True),
        ("change", {"product_id": "team_monthly"}, "PRODUCT_CHANGE", True),
        *CANCELLED,
        ("purchase", {}, "INITIAL_PURCHASE", True),
        ("refund", {}, "REFUND", False),
        ("reverse_refund", {}, "REFUND_REVERSED", True),
    ],
    "google": [
        *TRIAL,
        (END, {}, "INITIAL_PURCHASE", True),
        (END, {}, "RENEWAL", True),
        *TURNED_OFF_AND_ON,
        *FAILURE,
        ("recover", {}, "RENEWAL", True),
        ("defer", {"days": 7}, "SUBSCRIPTION_EXTENDED", True),
        ("pause", {}, "SUBSCRIPTION_PAUSED", True),
        (END, {}, "EXPIRATION", False),
        (RESUMPTION, {}, "RENEWAL", True),
        *FAILURE,
        (GRACE_END, {}, "EXPIRATION", False),
        ("recover", {}, "RENEWAL", True),
        ("change", {"product_id": "team_monthly:monthly"}, "PRODUCT_CHANGE", True),
        *CANCELLED,
        ("purchase", {}, "INITIAL_PURCHASE", True),
        ("refund", {}, "REFUND", False),
    ],
    "stripe": [
        *TRIAL,
        (END, {}, "INVOICE_ISSUANCE INITIAL_PURCHASE", True),
        (END, {}, "INVOICE_ISSUANCE RENEWAL", True),
        *TURNED_OFF_AND_ON,
        ("fail_billing", {}, "", True),
        (END, {}, "INVOICE_ISSUANCE BILLING_ISSUE", True),
        ("recover", {}, "RENEWAL", True),
        ("pause", {"for": "P2M"}, "SUBSCRIPTION_PAUSED", True),
        ("resume", {}, "UNCANCELLATION", True),
        ("fail_billing", {}, "", True),
        (END, {}, "INVOICE_ISSUANCE BILLING_ISSUE", True),
        (GRACE_END, {}, "EXPIRATION", False),
        ("purchase", {}, "INVOICE_ISSUANCE INITIAL_PURCHASE", True),
        ("change", {"product_id": "team_monthly:price_team_monthly"}, "INVOICE_ISSUANCE PRODUCT_CHANGE", True),
        ("extend_trial", {"days": 7}, "SUBSCRIPTION_EXTENDED", True),
        *CANCELLED,
        ("purchase", {}, "INVOICE_ISSUANCE INITIAL_PURCHASE", True),
        ("refund", {}, "REFUND", False),
        ("fail_refund", {}, "REFUND_REVERSED", True),
    ],
}
PRODUCTS = {"google": "pro_monthly:monthly", "stripe": "pro_monthly:price_pro_monthly"}


@dataclass
class Life:
    """A customer on a test clock of the service, which follows the clock of the store."""

    store: str
    customer: Customer
    clock: str = ""
    purchase: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> None:
        service = self.customer.world.service
        wanted = {"name": f"conformance: {self.store}", "now_ms": self.now()}
        self.clock = service.call("POST", "test_clocks", wanted)["id"]
        service.call("POST", "customers", {"id": self.customer.id, "test_clock_id": self.clock})

    def now(self) -> int | None:
        """Of the store. The test store has no clock but the service's."""
        return None if self.store == "test_store" else self.control("GET", "/clock")["now_ms"]

    def control(self, method: str, path: str, value: Any = None) -> Any:
        reply = ask(self.customer.world.service.store(self.store), method, path, value)
        assert reply.status < 300, (path, value, reply)
        return reply.json

    def moment(self, date: str) -> int:
        found: int = next(event[date] for event in reversed(self.events) if event.get(date) is not None)
        return found

    def step(self, what: str, options: Options) -> list[dict[str, Any]]:
        """Gives the events that follow, as they were delivered."""
        service = self.customer.world.service
        to = self.moment(what) + 1000 if what in {END, GRACE_END, RESUMPTION} else None
        if what == "purchase":
            options = {"product_id": PRODUCTS.get(self.store, "pro_monthly"), **options}
        if self.store != "test_store":
            self.act_at_emulator(what, options, to)
            self.follow()
        elif to is not None:
            self.advance(to)
        else:
            given = {name: value(self.moment(END)) if callable(value) else value for name, value in options.items()}
            service.call("POST", "test_store/actions", {"action": what, "app_user_id": self.customer.id, **given})
        events = service.call("GET", f"customers/{self.customer.id}/events?limit=100")["items"]
        new, self.events = events[len(self.events) :], events
        for event in new:
            assert self.customer.delivered(event["id"]) == event
        return list(new)

    def follow(self) -> None:
        """The test clock goes where the store's clock is."""
        self.advance(self.now())

    def advance(self, to: int | None) -> None:
        self.customer.world.service.call("POST", f"test_clocks/{self.clock}/advance", {"to_ms": to})

    def act_at_emulator(self, what: str, options: Options, to: int | None) -> None:
        """Returns when the service has processed what the store sent about it."""
        if to is not None:
            # Google takes back what is not acknowledged within three days.
            bought = f"/purchases/{self.purchase}"
            wait_for(lambda: self.control("GET", bought)["acknowledged"], f"the acknowledgement at {self.store}")
            self.control("PUT", "/clock", {"to_ms": to})
        elif what == "purchase":
            sale = {"buyer": self.customer.id, "account_token": self.customer.id, **options}
            self.purchase = self.control("POST", "/purchases", sale)["purchase"]
        else:
            acted = self.control("POST", f"/purchases/{self.purchase}/acts", {"act": what, **options})
            self.purchase = acted["purchase"]
        service = self.customer.world.service
        waiting = f"store_notifications?status=waiting&limit=1&app_id={service.stores[self.store]['app_id']}"
        wait_for(lambda: not service.call("GET", waiting)["items"], f"what {self.store} sent to be processed")


def lived(world: World, store: str) -> list[dict[str, Any]]:
    """The events of a whole life."""
    # A key of its own: the lives run beside each other, and a key may ask 480 times a minute.
    service = replace(world.service, key=world.service.new_key(store))
    life = Life(store, replace(world, service=service).customer())
    life.begin()
    for what, options, types, access in LIVES[store]:
        told = [event["type"] for event in life.step(what, options)]
        assert told == types.split(), f"{what} at {store}: {told}"
        life.customer.has_its_dates(life.events[-1])
        assert bool(life.customer.agrees_with(life.events[-1])) == access, f"{what} at {store}"
    return life.events
