"""The charts' facts once more, from the feed of events alone.

This is the oracle of `facts_of`: it knows nothing of states, periods and segments. It reads the events as a receiver
gets them, works out of each transaction from when until when it gave access, and then walks through time: at each
instant it looks what every subscription is worth, and books what has changed since the instant before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from msgspec import UNSET

from latchkey.domain.instants import DAY, HOUR, Ms
from latchkey.subjects.charts.rules.facts import Kind
from latchkey.wire.event import Event
from tests.subjects.charts.fact import Fact

# Kind, day, n, currency, product.
Key: TypeAlias = tuple[Kind, int, int, str, str]
# Quantity, millionths, millionths of a US dollar.
Amounts: TypeAlias = tuple[int, int, int]

MONTHS = {"pro_monthly": 1, "team_monthly": 1, "pro_yearly": 12}
TRIAL_PRICE = 9_990_000
WINDOWS = (0, 7, 14, 30, 90, 180, 365, 730)
# The day under which the value now is booked.
NOW = 0
LEEWAY = 6 * HOUR
STARTS = {"INITIAL_PURCHASE", "RENEWAL", "TRIAL_STARTED", "PRODUCT_CHANGE"}


def sums_of(facts: Iterable[Fact], until: Ms) -> dict[Key, Amounts]:
    """What `facts_of` says, in the form of the oracle."""
    ledger = Ledger()
    for one in facts:
        if one.at <= until:
            ledger.add(
                one.kind,
                # Of a status only the value now means anything.
                NOW if one.kind is Kind.STATUS else one.at,
                one.n,
                one.currency,
                one.dimensions.product,
                (one.quantity, one.money.micros, one.money.usd),
            )
    return ledger.sums()


class Ledger:
    def __init__(self) -> None:
        self._found: defaultdict[Key, Amounts] = defaultdict(lambda: (0, 0, 0))

    def add(self, kind: Kind, at: Ms, n: int, currency: str, product: str, amounts: Amounts) -> None:
        key = kind, at // DAY, n, currency, product
        a, b, c = self._found[key]
        self._found[key] = a + amounts[0], b + amounts[1], c + amounts[2]

    def sums(self) -> dict[Key, Amounts]:
        return {key: one for key, one in self._found.items() if any(one)}


class Worth(NamedTuple):
    """What a subscription is counted as at an instant. A trial has no currency."""

    product: str
    currency: str
    monthly: int
    monthly_usd: int


@dataclass
class Transaction:
    start: Event
    at: Ms
    product: str
    paid: bool
    ends: Ms
    grace: Ms | None = None
    over: Ms | None = None
    refunded: Ms | None = None
    failed: Ms | None = None

    @property
    def id(self) -> str:
        return str(self.start.transaction_id)

    @property
    def end(self) -> Ms:
        end = self.over if self.over is not None else max(self.ends, self.grace or 0)
        return end if self.refunded is None else min(end, self.refunded)

    @property
    def price(self) -> tuple[str, int, int]:
        return _price(self.start)

    @property
    def worth(self) -> Worth:
        currency, micros, usd = self.price
        months = MONTHS[self.product]
        if not self.paid:
            return Worth(self.product, "", 0, 0)
        return Worth(self.product, currency, round(Fraction(micros, months)), round(Fraction(usd, months)))


@dataclass
class Line:
    """A subscription: its transactions in order."""

    transactions: list[Transaction] = field(default_factory=list)

    def runs(self, at: Ms) -> Transaction | None:
        """The transaction that gives access at an instant."""
        begun = [one for one in self.transactions if one.at <= at]
        return begun[-1] if begun and begun[-1].end > at else None

    def before(self, one: Transaction) -> Transaction | None:
        place = self.transactions.index(one)
        return self.transactions[place - 1] if place else None

    def after(self, one: Transaction) -> Transaction | None:
        place = self.transactions.index(one) + 1
        return self.transactions[place] if place < len(self.transactions) else None

    def followed_at_once(self, one: Transaction) -> bool:
        """Whether the next transaction began while this one still gave access."""
        following = self.after(one)
        return following is not None and following.paid and following.at <= one.end


def recount(events: Sequence[Event], first_seen_at: Ms, until: Ms) -> dict[Key, Amounts]:
    """The sums of everything that the feed tells, up to an instant. `events` are in the order they were told."""
    ledger = Ledger()
    lines = _lines(events)
    _money(ledger, events, first_seen_at)
    _movement(ledger, lines, until)
    for line in lines:
        for one in line.transactions:
            _trial(ledger, line, one, events, until)
            _issue(ledger, line, one, events)
        _renewals(ledger, line, until)
        next_of = _retention(ledger, line)
        _standing(ledger, line, events, until, next_of)
    _enrollments(ledger, events)
    return ledger.sums()


def _price(event: Event) -> tuple[str, int, int]:
    """Currency, millionths, millionths of a US dollar."""
    amount = Decimal(str(event.price_in_purchased_currency or 0)) * 1_000_000
    usd = Decimal(str(event.price or 0)) * 1_000_000
    assert event.currency is not None
    return event.currency, int(amount), int(usd)


def _is_start(event: Event) -> bool:
    """A product change that is only announced names no price."""
    return event.type in STARTS and (event.type != "PRODUCT_CHANGE" or bool(event.price_in_purchased_currency))


def _lines(events: Sequence[Event]) -> list[Line]:
    lines: dict[tuple[str | None, object], Line] = defaultdict(Line)
    known: dict[object, Transaction] = {}
    for event in events:
        if not _is_start(event):
            continue
        new = event.new_product_id if event.type == "PRODUCT_CHANGE" else event.product_id
        assert isinstance(new, str)
        assert event.expiration_at_ms is not None
        one = Transaction(event, event.event_timestamp_ms, new, event.type != "TRIAL_STARTED", event.expiration_at_ms)
        known[event.transaction_id] = one
        lines[event.store, event.original_transaction_id].transactions.append(one)
    refunds: dict[object, list[Event]] = defaultdict(list)
    for event in events:
        told = known.get(event.transaction_id)
        if told is None or event.original_transaction_id is UNSET:
            continue
        match event.type:
            case "SUBSCRIPTION_EXTENDED":
                assert event.expiration_at_ms is not None
                told.ends, told.over = event.expiration_at_ms, None
            case "BILLING_ISSUE":
                grace = event.grace_period_expires_at_ms
                told.grace, told.over = grace if isinstance(grace, int) else None, None
                told.failed = min(event.event_timestamp_ms, told.failed or event.event_timestamp_ms)
            case "EXPIRATION":
                told.over = event.expiration_at_ms
            case "REFUND" | "REFUND_REVERSED":
                refunds[event.transaction_id].append(event)
    for id, told_of in refunds.items():
        last = max(told_of, key=lambda one: (one.event_timestamp_ms, _number(events, one)))
        known[id].refunded = last.event_timestamp_ms if last.type == "REFUND" else None
    for line in lines.values():
        line.transactions.sort(key=lambda one: (one.at, one.start.renewal_number))
    return list(lines.values())


def _number(events: Sequence[Event], event: Event) -> int:
    return next(place for place, one in enumerate(events) if one is event)


def _movement(ledger: Ledger, lines: list[Line], until: Ms) -> None:
    instants = {one.at for line in lines for one in line.transactions}
    instants |= {one.end for line in lines for one in line.transactions}
    churned = returned = 0
    for at in sorted(instants):
        if at > until:
            break
        begun: list[tuple[Line, Transaction]] = []
        for line in lines:
            was, now = line.runs(at - 1), line.runs(at)
            before = was.worth if was is not None and was.paid else None
            after = now.worth if now is not None and now.paid else None
            if was is not None and not was.paid and was is not now:
                ledger.add(Kind.TRIAL, at, 0, "", was.product, (-1, 0, 0))
            if now is not None and not now.paid and was is not now:
                ledger.add(Kind.TRIAL, at, 0, "", now.product, (1, 0, 0))
            if before == after:
                continue
            if before is not None:
                ledger.add(Kind.ACTIVE, at, 0, before.currency, before.product, _times(-1, before))
            if after is not None and now is not None:
                ledger.add(Kind.ACTIVE, at, 0, after.currency, after.product, _times(1, after))
            if before is None and now is not None:
                begun.append((line, now))
            elif after is None and before is not None:
                ledger.add(Kind.CHURN, at, 0, before.currency, before.product, _times(1, before))
                churned += 1
            elif before is not None and after is not None:
                _changed(ledger, at, before, after)
        for line, one in sorted(begun, key=lambda two: (str(two[1].start.store), two[1].start.original_transaction_id)):
            kind = Kind.RETURN if churned > returned else Kind.NEW
            returned += kind is Kind.RETURN
            last = line.before(one)
            converted = one.start.is_trial_conversion is True or (last is not None and not last.paid)
            worth = one.worth
            ledger.add(kind, at, 2 if converted else 0, worth.currency, worth.product, _times(1, worth))


def _times(sign: int, worth: Worth) -> Amounts:
    return sign, sign * worth.monthly, sign * worth.monthly_usd


def _changed(ledger: Ledger, at: Ms, before: Worth, after: Worth) -> None:
    if before.currency != after.currency:
        ledger.add(Kind.CONTRACTION, at, 0, before.currency, before.product, _times(1, before))
        ledger.add(Kind.EXPANSION, at, 0, after.currency, after.product, _times(1, after))
        return
    if before.product != after.product:
        kept = min(before.monthly, after.monthly), min(before.monthly_usd, after.monthly_usd)
        ledger.add(Kind.EXPANSION, at, 1, before.currency, before.product, (-1, -kept[0], -kept[1]))
        ledger.add(Kind.EXPANSION, at, 1, after.currency, after.product, (1, kept[0], kept[1]))
    paid, usd = after.monthly - before.monthly, after.monthly_usd - before.monthly_usd
    ledger.add(Kind.EXPANSION, at, 0, after.currency, after.product, (0, max(paid, 0), max(usd, 0)))
    ledger.add(Kind.CONTRACTION, at, 0, before.currency, before.product, (0, max(-paid, 0), max(-usd, 0)))


def _trial(ledger: Ledger, line: Line, one: Transaction, events: Sequence[Event], until: Ms) -> None:
    if one.paid:
        return
    following = line.after(one)
    converted = following is not None and following.paid
    fate = 0
    if following is not None and converted:
        fate = 1 if following.refunded is None else 3
    elif any(event.type == "EXPIRATION" and event.transaction_id == one.id for event in events):
        fate = 2
    ledger.add(Kind.TRIAL_STARTED, one.at, fate, "", one.product, (1, 0, 0))
    ended = one.end if following is None else min(one.end, following.at)
    if ended <= until:
        ledger.add(Kind.TRIAL_ENDED, ended, 1 if converted else 2, "", one.product, (1, 0, 0))


def _issue(ledger: Ledger, line: Line, one: Transaction, events: Sequence[Event]) -> None:
    if one.failed is None:
        return
    following = line.after(one)
    currency, micros, usd = one.price if following is None else following.price
    if not micros:
        micros = usd = TRIAL_PRICE
    # An end that was moved since means nothing.
    lost = any(
        event.type == "EXPIRATION" and event.transaction_id == one.id and event.expiration_at_ms == one.end
        for event in events
    )
    if following is not None:
        outcome = 1 if line.followed_at_once(one) else 2
    else:
        outcome = 3 if lost or one.refunded is not None else 0
    ledger.add(Kind.BILLING_ISSUE, one.failed, outcome, currency, one.product, (1, micros, usd))


def _renewals(ledger: Ledger, line: Line, until: Ms) -> None:
    number = 0
    for one in line.transactions:
        if not one.paid:
            continue
        following = line.after(one)
        last = line.before(one)
        if last is None or not last.paid or not line.followed_at_once(last) or last.product != one.product:
            number = 0
        number += 1
        due = one.over if one.over is not None and one.over < one.ends else one.ends
        if following is not None and line.followed_at_once(one):
            if following.start.type == "PRODUCT_CHANGE":
                continue
            due = min(due, following.at)
            ledger.add(Kind.RENEWED, due, min(number, 12), "", one.product, (1, 0, 0))
        elif one.refunded is not None and one.refunded < due:
            continue
        if due <= until:
            ledger.add(Kind.RENEWAL_DUE, due, min(number, 12), "", one.product, (1, 0, 0))


def _retention(ledger: Ledger, line: Line) -> tuple[Transaction | None, int]:
    """Gives the cohort of the newest transaction, and the number of the period that would follow it."""
    cohort: Transaction | None = None
    number = 0
    for one in line.transactions:
        if not one.paid:
            cohort = None
            continue
        last = line.before(one)
        if cohort is None or last is None or not line.followed_at_once(last) or last.product != one.product:
            cohort, number = one, 0
        if not number or one.refunded is None:
            ledger.add(Kind.RETAINED, cohort.at, number, "", cohort.product, (1, 0, 0))
        number += 1
    return cohort, number


def _standing(
    ledger: Ledger, line: Line, events: Sequence[Event], until: Ms, next_of: tuple[Transaction | None, int]
) -> None:
    """How the next renewal stands: what was told of the newest transaction since it began."""
    newest = line.transactions[-1]
    off = paused = over = False
    for event in events:
        if event.transaction_id != newest.id or event.store != newest.start.store:
            continue
        match event.type:
            case "CANCELLATION" | "TRIAL_CANCELLED":
                off = True
            case "SUBSCRIPTION_PAUSED":
                paused = True
            case "UNCANCELLATION":
                # Whoever cancels during a pause and takes it back still has the pause.
                off, paused = False, paused and off
                # Within the leeway the store may still report a renewal.
                over = over and until >= newest.end + LEEWAY
            case "EXPIRATION":
                # An end that was moved since means nothing. The same end is told once, whatever is reported later.
                over = over or event.expiration_at_ms == newest.end
    failed = newest.failed is not None
    running = line.runs(until)
    if running is not None:
        standing = 1 if off else 2 if failed else 0
        if failed and until >= newest.ends:
            # In the grace period, nothing but a payment helps.
            standing = 2
        if running.paid:
            worth = running.worth
            ledger.add(Kind.STATUS, NOW, standing, worth.currency, worth.product, _times(1, worth))
        else:
            ledger.add(Kind.STATUS, NOW, standing + 3, "", running.product, (1, 0, 0))
    cohort, number = next_of
    goes_on = not off and not paused and not over and newest.refunded is None
    if cohort is not None and goes_on:
        ledger.add(Kind.RETAINED_SOON, cohort.at, number, "", cohort.product, (1, 0, 0))


class _Move(NamedTuple):
    """Something bought (1) or given back (-1), and the money of it."""

    at: Ms
    sign: int
    id: str
    product: str
    currency: str
    micros: int
    usd: int


def _moves(events: Sequence[Event]) -> Iterator[_Move]:
    for event in events:
        bought = event.type == "NON_RENEWING_PURCHASE" and event.period_type == "normal"
        back = {"REFUND": -1, "REFUND_REVERSED": 1}.get(event.type)
        if not (bought or _is_start(event) or back):
            continue
        product = event.new_product_id if event.type == "PRODUCT_CHANGE" else event.product_id
        yield _Move(event.event_timestamp_ms, back or 1, str(event.transaction_id), str(product), *_price(event))


def _money(ledger: Ledger, events: Sequence[Event], first_seen_at: Ms) -> None:
    moves = sorted(_moves(events), key=lambda one: one.at)
    bought: dict[str, _Move] = {}
    for one in moves:
        bought.setdefault(one.id, one)
    seen_at = min([first_seen_at, *(one.at for one in moves)])
    ledger.add(Kind.CUSTOMER, seen_at, 0, "", "", (1, 0, 0))
    paid = [one for one in bought.values() if one.micros]
    first = min(paid, key=lambda one: (one.at, one.id)) if paid else None
    if first is not None:
        ledger.add(Kind.PAYING_CUSTOMER, first.at, 0, "", first.product, (1, 0, 0))
    final: Counter[str] = Counter()
    for one in moves:
        if one.micros:
            product = bought[one.id].product
            is_refund = bought[one.id] is not one
            n = 0 if first is not None and one.id == first.id else 1
            sign = -one.sign if is_refund else 1
            kind = Kind.REFUND if is_refund else Kind.PAYMENT
            ledger.add(kind, one.at, n, one.currency, product, (sign, sign * one.micros, sign * one.usd))
            window = _window(one.at, seen_at)
            amounts = one.sign, one.sign * one.micros, one.sign * one.usd
            ledger.add(Kind.SEEN_REVENUE, seen_at, window, one.currency, product, amounts)
            final[one.id] += one.sign
    for id, count in final.items():
        if not count:
            one = bought[id]
            n = 0 if first is not None and id == first.id else 1
            ledger.add(Kind.REFUNDED_PAYMENT, one.at, n, one.currency, one.product, (1, one.micros, one.usd))
    _whether(ledger, Kind.SEEN_PAYER, [one for one in moves if one.micros], bought, seen_at)
    _whether(ledger, Kind.SEEN_CONVERTED, moves, bought, seen_at)


def _whether(ledger: Ledger, kind: Kind, moves: list[_Move], bought: dict[str, _Move], seen_at: Ms) -> None:
    """+1 in the window in which the customer came to have something, -1 in the one in which nothing was left."""
    for at, change, id in _changes(moves):
        ledger.add(kind, seen_at, _window(at, seen_at), "", bought[id].product, (change, 0, 0))


def _changes(moves: list[_Move]) -> Iterator[tuple[Ms, int, str]]:
    """When somebody came to have something (1), and when nothing was left of it (-1); with what it was."""
    shown: str | None = None
    had = 0
    # Within one millisecond, what was bought comes before what was given back.
    for one in sorted(moves, key=lambda one: (one.at, -one.sign, one.id)):
        had += one.sign
        if had > 0 and shown is None:
            shown = one.id
            yield one.at, 1, shown
        elif had == 0 and shown is not None:
            yield one.at, -1, shown
            shown = None


def _enrollments(ledger: Ledger, events: Sequence[Event]) -> None:
    """What was bought after each enrollment. When two customers were merged, the survivor's enrollment in an experiment
    counts, which is told last."""
    moves = sorted(_moves(events), key=lambda one: one.at)
    bought_at: dict[str, Ms] = {}
    for one in moves:
        bought_at.setdefault(one.id, one.at)
    enrolled = {one.experiment_id: one.event_timestamp_ms for one in events if one.type == "EXPERIMENT_ENROLLMENT"}
    for at in enrolled.values():
        later = [one for one in moves if bought_at[one.id] >= at]
        paid = [one for one in later if one.micros]
        ledger.add(Kind.ENROLLED, at, 0, "", "", (1, 0, 0))
        for kind, found in ((Kind.ENROLLED_CONVERTED, later), (Kind.ENROLLED_PAYER, paid)):
            for when, change, _ in _changes(found):
                ledger.add(kind, at, _window(when, at), "", "", (change, 0, 0))
        for one in paid:
            amounts = one.sign, one.sign * one.micros, one.sign * one.usd
            ledger.add(Kind.ENROLLED_REVENUE, at, _window(one.at, at), one.currency, "", amounts)
        # The square of what was paid within each window, in US cents, less that of the windows before it.
        squares = [0]
        for window in range(len(WINDOWS) + 1):
            within = sum(one.sign * one.usd for one in paid if _window(one.at, at) <= window)
            squares.append(round(Fraction(within, 10_000)) ** 2)
            ledger.add(Kind.ENROLLED_SQUARE, at, window, "", "", (squares[-1] - squares[-2], 0, 0))


def _window(at: Ms, seen_at: Ms) -> int:
    days = at // DAY - seen_at // DAY
    return next((place for place, longest in enumerate(WINDOWS) if days <= longest), len(WINDOWS))
