"""Test clocks: their customers, moving the time, purchases with the actions possible now, and the resulting events."""

import secrets
from typing import Any, get_args
from uuid import uuid4

from latchkey.dashboard import texts
from latchkey.dashboard.event_row import row_of
from latchkey.dashboard.form import Form
from latchkey.dashboard.links import address
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.dashboard.texts import instant
from latchkey.domain.catalog import Catalog, Product, ProductKind
from latchkey.domain.instants import DAY, Ms, parse_duration
from latchkey.domain.naming import checked_name
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import PeriodType, Subscription
from latchkey.domain.purchases.summary import SubscriptionState, standing_of
from latchkey.domain.refusal import Checks, Invalid, NotFound
from latchkey.domain.stores.test_store.orders import Action, ActionName, bought, refusal_of
from latchkey.domain.user_id import problem_with
from latchkey.engine.reads import CustomerView, look_at
from latchkey.subjects.events import usecases as events
from latchkey.subjects.test_clocks import rules, usecases
from latchkey.subjects.test_store import usecases as test_store

pages = Pages()

NAMES: tuple[ActionName, ...] = get_args(ActionName)
# How a subscription stands, in words, and whether they are good news.
WORDS: dict[SubscriptionState, tuple[str, str]] = {
    SubscriptionState.RENEWS: ("renews {end}", "good"),
    SubscriptionState.ENDS: ("ends {end}", "warn"),
    SubscriptionState.PAUSES: ("pauses {end}", "warn"),
    SubscriptionState.PAYMENT_FAILED: ("payment failed, access until {end}", "warn"),
    SubscriptionState.IN_GRACE: ("payment failed, access until {end}", "warn"),
    SubscriptionState.PAUSED: ("paused until {resumes}", "warn"),
    SubscriptionState.BILLING_RETRY: ("ended {end}", "bad"),
    SubscriptionState.OVERDUE: ("ended {end}", "bad"),
    SubscriptionState.REFUNDED: ("refunded {refunded}", "bad"),
    SubscriptionState.ENDED: ("ended {end}", "bad"),
}


def held(view: CustomerView, product_id: str, bought: Subscription | Purchase) -> dict[str, Any]:
    """A purchase of the customer in the test store, with the actions that are possible now."""
    customer, catalog, now = view.customer, view.catalog, view.now
    # Other subscriptions it could change to.
    subscriptions = (product.id for product in on_sale(catalog) if product.kind is ProductKind.SUBSCRIPTION)
    others = [id for id in subscriptions if id != product_id]
    ends_at = bought.current.ends_at if isinstance(bought, Subscription) else bought.access_ends_at

    def possible(name: ActionName) -> bool:
        tried = Action(
            name=name,
            app_user_id=customer.app_user_id,
            new_id="",
            product_id=product_id,
            new_product_id=others[0] if others else None,
            resumes_at=(ends_at or now) + DAY,
            days=1,
        )
        return refusal_of(customer, catalog, now, tried) is None

    standing, kind = in_words(bought, now)
    return {
        "product_id": product_id,
        "standing": standing,
        "kind": kind,
        "possible": [name for name in NAMES if possible(name)],
        "others": others,
        "ends_at": ends_at,
    }


def in_words(bought: Subscription | Purchase, now: Ms) -> tuple[str, str]:
    """In a few words, and whether they are good news."""
    if isinstance(bought, Purchase):
        if bought.refunded_at is not None:
            return f"refunded {instant(bought.refunded_at)}", "bad"
        ends = bought.access_ends_at
        return (
            ("bought once", "good") if ends is None else (f"{'ended' if ends <= now else 'until'} {instant(ends)}", "")
        )
    standing, pause, refunded_at = standing_of(bought, now), bought.status.pause, bought.current.refunded_at
    words, kind = WORDS[standing]
    said = words.format(
        end=instant(bought.access_ends_at),
        resumes=instant(pause.ends_at) if pause is not None and pause.ends_at is not None else "it is resumed",
        refunded=instant(refunded_at) if refunded_at is not None else "",
    )
    runs = standing in (SubscriptionState.RENEWS, SubscriptionState.ENDS)
    if runs and bought.current.period_type is PeriodType.TRIAL:
        return f"on trial, {said}", "accent" if standing is SubscriptionState.RENEWS else kind
    return said, kind


def on_sale(catalog: Catalog) -> list[Product]:
    """Subscriptions first, because clocks are mostly used for them."""
    found = (product for product in catalog.products.values() if product.on_sale)
    return sorted(found, key=lambda one: (one.kind is not ProductKind.SUBSCRIPTION, one.id))


def read_action(form: Form, now: Ms) -> Action:
    """The requested action; the test store decides whether it is possible."""
    return Action(
        name=form.choice("action", NAMES),
        app_user_id=form.needed("customer"),
        new_id=f"test_{now}_{uuid4()}",
        product_id=form.text("product") or None,
        trial=form.ticked("trial"),
        grace_days=form.number("grace_days", 0, high=365),
        new_product_id=form.text("new_product") or None,
        at_renewal=form.choice("when", ("now", "at_renewal"), "now") == "at_renewal",
        resumes_at=form.instant("resumes"),
        days=form.number("days", low=1, high=3650) if form.text("days") else None,
    )


ON_A_PAGE = 50
STEPS = (("P1D", "+1 day"), ("P1W", "+1 week"), ("P1M", "+1 month"), ("P1Y", "+1 year"))
TO_NEXT = "next"


@pages.get("/test-clocks")
async def show_clocks(visit: Visit) -> Response:
    clocks = await visit.run(usecases.newest_clocks, visit.after, ON_A_PAGE + 1)
    shown = clocks[:ON_A_PAGE]
    return visit.page(
        "test_clocks.html",
        clocks=shown,
        counted=rules.COUNTED,
        older=visit.path("test-clocks", after=shown[-1].clock.id) if len(clocks) > ON_A_PAGE else None,
        create=visit.curl("test_clocks", {"name": "Does a trial convert?"}),
    )


@pages.post("/test-clocks", Needs.MANAGE, "test_clock.created", show_clocks)
async def create_clock(visit: Visit) -> Response:
    with Checks() as check:
        name = check(checked_name, visit.form.text("name"))
        start = check(visit.form.instant, "start")
    id, begins = f"clk_{secrets.token_hex(12)}", visit.now if start is None else start
    clock = await visit.run(usecases.create_clock, id, name, begins, visit.now)
    visit.audit(id, name=name, now=texts.iso(clock.now))
    return await visit.to(visit.path("test-clocks", id), "The clock was created. Add a customer to it.")


@pages.get("/test-clocks/{clock_id}")
async def show_clock(visit: Visit, clock_id: str) -> Response:
    chosen = (visit.form if visit.refusal else visit.query).text("customer")
    clock = await visit.run(usecases.get_clock, clock_id)
    people = await visit.run(usecases.inhabitants, clock.id)
    page = await visit.run(events.newest_of_clock, clock.id)
    if not chosen and len(people) == 1:
        chosen = people[0].customer.app_user_id
    try:
        view = await _read(visit, chosen) if chosen else None
    except NotFound as missing:
        view, visit.refusal = None, visit.refusal or missing
    return visit.page(
        "test_clock.html",
        clock=clock,
        steps=STEPS,
        to_next=TO_NEXT,
        people=[_person(visit, person, clock.now) for person in people[: usecases.SHOWN]],
        more_people=len(people) > usecases.SHOWN,
        next_due_at=people[0].next_due_at if people else None,
        chosen=view.customer.app_user_id if view else "",
        chosen_href=address(visit, view.customer.app_user_id) if view else "",
        held=[held(view, *one) for one in bought(view.customer).items()] if view else [],
        products=on_sale(view.catalog) if view else [],
        rows=[row_of(visit, event) for event in page.events],
        stream=visit.path("events", "stream", clock=clock.id),
        after=page.head,
    )


@pages.post("/test-clocks/{clock_id}/advance", Needs.MANAGE, "test_clock.advanced", show_clock)
async def advance(visit: Visit, clock_id: str) -> Response:
    by = visit.form.text("by")
    length, moment = None, visit.form.instant("to")
    if by == TO_NEXT:
        moment = await visit.run(usecases.next_due, clock_id)
    elif by:
        length, moment = parse_duration(visit.form.choice("by", [step for step, _ in STEPS])), None
    elif moment is None:
        raise Invalid("Give a time, or press one of the steps.", param="to")
    moved = await usecases.advance(visit.services.changes, visit.project_id, clock_id, by=length, to=moment)
    visit.audit(now=texts.iso(moved.clock.now), events=moved.events)
    told = "Nothing happened on the way" if not moved.events else f"{moved.events:,} events happened on the way"
    told = "1 event happened on the way" if moved.events == 1 else told
    return await _done(visit, visit.form.text("customer"), f"It is {texts.instant(moved.clock.now)} now. {told}.")


@pages.post("/test-clocks/{clock_id}/customers", Needs.MANAGE, "test_clock.customer_created", show_clock)
async def add_customer(visit: Visit, clock_id: str) -> Response:
    id = visit.form.needed("customer")
    if (problem := problem_with(id)) is not None:
        raise Invalid(problem, param="customer")
    visit.audit(f"{id}, {clock_id}")
    await usecases.create_customer(visit.services.changes, visit.project_id, id, clock_id)
    return await _done(visit, id, f"\u2068{id}\u2069 is on this clock now.")


@pages.post("/test-clocks/{clock_id}/act", Needs.MANAGE, "test_store.acted", show_clock)
async def act(visit: Visit) -> Response:
    """Only for customers of this clock, so that real purchases cannot be changed from here."""
    action = read_action(visit.form, visit.now)
    visit.audit(f"{action.app_user_id}, {action.name}", product=action.product_id)
    view = await _read(visit, action.app_user_id)
    done = await test_store.act(visit.services.changes, visit.project_id, action)
    told = ", ".join(event.type for event in done.events)
    visit.audit(events=told)
    return await _done(visit, view.customer.app_user_id, f"Done: {told}." if told else "Done. It caused no event.")


@pages.confirmed("/test-clocks/{clock_id}/delete", Needs.MANAGE, "test_clock.deleted", show_clock)
async def delete(visit: Visit, clock_id: str) -> Response:
    await visit.run(usecases.delete_clock, clock_id)
    return await visit.to(visit.path("test-clocks"), "The clock is deleted.")


async def _done(visit: Visit, customer: str, said: str) -> Response:
    return await visit.to(visit.path("test-clocks", visit.param("clock_id"), customer=customer), said)


async def _read(visit: Visit, customer_id: str) -> CustomerView:
    row = await visit.services.reader.read(visit.project_id, customer_id)
    view = look_at(row, visit.now) if row is not None else None
    if view is None or view.customer.test_clock_id != visit.param("clock_id"):
        raise NotFound(f"There is no customer {customer_id!r} on this clock.", param="customer")
    return view


def _person(visit: Visit, person: rules.Inhabitant, now: int) -> dict[str, Any]:
    customer = person.customer
    return {
        "id": customer.app_user_id,
        "href": visit.path("test-clocks", visit.param("clock_id"), customer=customer.app_user_id),
        "has": [
            (one.product_id if isinstance(one, Purchase) else one.current.product_id, *in_words(one, now))
            for one in customer.bought[-3:]
        ],
        "next_due_at": person.next_due_at,
    }
