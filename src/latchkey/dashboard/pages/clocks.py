"""Test clocks: their customers, moving the time, purchases, and the resulting events."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.responses import Response

from latchkey.dashboard import texts
from latchkey.dashboard.customer_address import address
from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.dashboard.pages import clock_counter as counter
from latchkey.dashboard.pages.event_row import row_of
from latchkey.dashboard.snippets import curl
from latchkey.domain.instants import EARLIEST, LATEST, parse_duration
from latchkey.domain.naming import checked_name
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.refusal import Invalid, NotFound
from latchkey.domain.user_id import problem_with
from latchkey.usecases.events import listing as event_list
from latchkey.usecases.rendering.view import View, look_at
from latchkey.usecases.sandbox import clocks as test_clocks
from latchkey.usecases.sandbox import store as test_store

pages = Pages()

ON_A_PAGE = 50
STEPS = (("P1D", "+1 day"), ("P1W", "+1 week"), ("P1M", "+1 month"), ("P1Y", "+1 year"))
TO_NEXT = "next"


@pages.get("/test-clocks")
async def show_clocks(visit: Visit) -> Response:
    clocks = await test_clocks.newest_clocks(
        visit.database, visit.project_id, visit.query.text("after") or None, ON_A_PAGE + 1
    )
    shown = clocks[:ON_A_PAGE]
    return visit.page(
        "test_clocks.html",
        here="test-clocks",
        clocks=shown,
        counted=test_clocks.COUNTED,
        older=visit.path("test-clocks", after=shown[-1].clock.id) if len(clocks) > ON_A_PAGE else None,
        filled=visit.form.values(),
        create=curl(visit, "test_clocks", {"name": "Does a trial convert?"}),
    )


@pages.post("/test-clocks", Needs.MANAGE, "test_clock.created", show_clocks)
async def create_clock(visit: Visit) -> Response:
    name = checked_name(visit.form.text("name"))
    start = visit.form.instant("start")
    if start is not None and not EARLIEST <= start <= LATEST:
        raise Invalid("A clock starts between the years 2000 and 2199.", param="start")
    id = f"clk_{secrets.token_hex(12)}"
    now = visit.now
    clock = await test_clocks.create_clock(
        visit.database, visit.project_id, id, name, start if start is not None else now, now
    )
    visit.audit(id, name=name, now=texts.iso(clock.now))
    return await visit.to(visit.path("test-clocks", id), "The clock was created. Add a customer to it.")


@pages.get("/test-clocks/{clock_id}")
async def show_clock(visit: Visit) -> Response:
    chosen = (visit.form if visit.refusal else visit.query).text("customer")
    clock = await test_clocks.get_clock(visit.database, visit.project_id, visit.param("clock_id"))
    people = await test_clocks.inhabitants(visit.database, visit.project_id, clock.id)
    page = await event_list.newest_of_clock(visit.database, visit.project_id, clock.id)
    if not chosen and len(people) == 1:
        chosen = people[0].customer.app_user_id
    try:
        view = await _read(visit, chosen) if chosen else None
    except NotFound as missing:
        view, visit.refusal = None, visit.refusal or missing
    return visit.page(
        "test_clock.html",
        here="test-clocks",
        clock=clock,
        steps=STEPS,
        to_next=TO_NEXT,
        people=[_person(visit, one, clock.now) for one in people[: test_clocks.SHOWN]],
        more_people=len(people) > test_clocks.SHOWN,
        next_due_at=people[0].next_due_at if people else None,
        chosen=view.customer.app_user_id if view else "",
        chosen_href=address(visit, view.customer.app_user_id) if view else "",
        held=counter.held(view.customer, view.catalog, view.now) if view else [],
        products=counter.on_sale(view.catalog) if view else [],
        rows=[row_of(visit, event) for event in page.events],
        stream=visit.path("events", "stream", clock=clock.id),
        after=page.head,
        filled=visit.form.values(),
    )


@pages.post("/test-clocks/{clock_id}/advance", Needs.MANAGE, "test_clock.advanced", show_clock)
async def advance(visit: Visit) -> Response:
    clock_id, by = visit.param("clock_id"), visit.form.text("by")
    if by == TO_NEXT:
        to = await test_clocks.next_due(visit.database, visit.project_id, clock_id)
        moved = await test_clocks.advance(visit.services.changes, visit.project_id, clock_id, to=to)
    elif by:
        length = parse_duration(visit.form.choice("by", [step for step, _ in STEPS]))
        moved = await test_clocks.advance(visit.services.changes, visit.project_id, clock_id, by=length)
    else:
        moment = visit.form.instant("to")
        if moment is None:
            raise Invalid("Give a time, or press one of the steps.", param="to")
        moved = await test_clocks.advance(visit.services.changes, visit.project_id, clock_id, to=moment)
    visit.audit(now=texts.iso(moved.clock.now), events=moved.events)
    told = "Nothing happened on the way" if not moved.events else f"{moved.events:,} events happened on the way"
    told = "1 event happened on the way" if moved.events == 1 else told
    return await _done(visit, visit.form.text("customer"), f"It is {texts.instant(moved.clock.now)} now. {told}.")


@pages.post("/test-clocks/{clock_id}/customers", Needs.MANAGE, "test_clock.customer_created", show_clock)
async def add_customer(visit: Visit) -> Response:
    id = visit.form.needed("customer")
    if (problem := problem_with(id)) is not None:
        raise Invalid(problem, param="customer")
    await test_clocks.create_customer(visit.services.changes, visit.project_id, id, visit.param("clock_id"))
    visit.audit(f"{visit.param('clock_id')}, {id}")
    return await _done(visit, id, f"\u2068{id}\u2069 is on this clock now.")


@pages.post("/test-clocks/{clock_id}/act", Needs.MANAGE, "test_store.acted", show_clock)
async def act(visit: Visit) -> Response:
    """Only for customers of this clock, so that real purchases cannot be changed from here."""
    action = counter.read_action(visit.form, visit.now)
    view = await _read(visit, action.app_user_id)
    visit.audit(f"{view.customer.app_user_id}, {action.name}", product=action.product_id)
    done = await test_store.act(visit.services.changes, visit.project_id, action)
    told = ", ".join(event.type for event in done.events)
    visit.audit(events=told)
    return await _done(visit, view.customer.app_user_id, f"Done: {told}." if told else "Done. It caused no event.")


@pages.post("/test-clocks/{clock_id}/delete", Needs.MANAGE, "test_clock.deleted", show_clock)
async def delete(visit: Visit) -> Response:
    visit.form.confirmed()
    await test_clocks.delete_clock(visit.database, visit.project_id, visit.param("clock_id"))
    return await visit.to(visit.path("test-clocks"), "The clock is deleted.")


async def _done(visit: Visit, customer: str, said: str) -> Response:
    return await visit.to(visit.path("test-clocks", visit.param("clock_id"), customer=customer), said)


async def _read(visit: Visit, customer_id: str) -> View:
    row = await visit.services.reader.read(visit.project_id, customer_id)
    view = look_at(row, visit.now) if row is not None else None
    if view is None or view.customer.test_clock_id != visit.param("clock_id"):
        raise NotFound(f"There is no customer {customer_id!r} on this clock.", param="customer")
    return view


def _person(visit: Visit, one: test_clocks.Inhabitant, now: int) -> dict[str, Any]:
    customer = one.customer
    bought: list[Purchase | Subscription] = [*customer.subscriptions, *customer.purchases]
    return {
        "id": customer.app_user_id,
        "href": visit.path("test-clocks", visit.param("clock_id"), customer=customer.app_user_id),
        "has": [
            (
                each.product_id if isinstance(each, Purchase) else each.current.product_id,
                *counter.in_words(each, now),
            )
            for each in bought[-3:]
        ],
        "next_due_at": one.next_due_at,
    }
