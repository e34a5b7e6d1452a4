"""A store emulator of `latchkey up`: sell, act and move its clock, and see what it sent.

The pages exist only for apps that the setting `store_emulators` names. The browser never talks to the control API.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from latchkey.dashboard import texts
from latchkey.dashboard.links import address
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid, NotFound, Refusal
from latchkey.domain.user_id import problem_with
from latchkey.engine.storage import records
from latchkey.settings import control_urls
from latchkey.subjects.projects import usecases as projects
from latchkey.subjects.purchase_intake.rules import JournalFilter
from latchkey.subjects.purchase_intake.usecases import journal
from latchkey.subjects.purchase_intake.usecases.app_receipts import ShownReceipt
from latchkey.subjects.test_clocks import usecases as test_clocks
from latchkey.subjects.test_store.usecases import EmulatorClient, StoreAway

pages = Pages()

# A move of years is for the command line.
PATIENCE = 60.0
PURCHASES = 25
NOTIFICATIONS = 25
CLOCKS = 50
# Seconds between two looks at what waits.
AGAIN = 0.1
ACTS = {
    "renew": "Renew",
    "cancel": "Cancel",
    "uncancel": "Turn renewal on",
    "fail_billing": "Fail the next payment",
    "recover": "Let the payment succeed",
    "refund": "Refund",
}
STEPS = {"PT1H": "1 hour", "P1D": "1 day", "P7D": "7 days", "P1M": "1 month"}


@pages.get("/apps/{app_id}/store-emulator")
async def show(visit: Visit, app_id: str) -> Response:
    store = _store(visit)
    app = await visit.run(projects.load_app, app_id)
    purchases: list[dict[str, Any]] = []
    notifications: list[dict[str, Any]] = []
    products: list[str] = []
    clock, away = None, None
    try:
        clock = (await store.ask("GET", "/clock"))["now_ms"]
        products = [one.get("name") or one["id"] for one in (await store.ask("GET", "/products"))["products"]]
        purchases = (await store.ask("GET", "/purchases"))["purchases"][: -PURCHASES - 1 : -1]
        notifications = (await store.ask("GET", f"/notifications?limit={NOTIFICATIONS}"))["notifications"]
    except StoreAway as refusal:
        away = refusal
    # The clock that followed last follows again, unless somebody chooses otherwise.
    chosen = visit.form.text("test_clock") or visit.query.text("test_clock")
    clocks = await visit.run(test_clocks.newest_clocks, None, CLOCKS)
    return visit.page(
        "store_emulator.html",
        503 if away else None,
        app=app,
        store=projects.TITLES[app.store],
        clock=clock,
        test_clocks=[("", "none"), *((listed_clock.clock.id, listed_clock.clock.name) for listed_clock in clocks)],
        test_clock=chosen if any(listed_clock.clock.id == chosen for listed_clock in clocks) else "",
        unacknowledged=any(purchase["active"] and not purchase["acknowledged"] for purchase in purchases),
        products=[(product, product) for product in products],
        purchases=await _with_owners(visit, app.store, purchases),
        notifications=[{**notification, "answer": _answer(notification)} for notification in notifications],
        acts=ACTS,
        steps=STEPS,
        usual=next((product for product in products if product.startswith("pro_")), ""),
        **({"error": away.message} if away else {}),
    )


@pages.post("/apps/{app_id}/store-emulator/sell", Needs.MANAGE, "store_emulator.sold", show)
async def sell(visit: Visit, app_id: str) -> Response:
    store = _store(visit)
    app = await visit.run(projects.load_app, app_id)
    customer = visit.form.needed("customer")
    if (wrong := problem_with(customer)) is not None:
        raise Invalid(wrong, param="customer")
    sale = {"product_id": visit.form.needed("product"), "trial": visit.form.ticked("trial")}
    visit.audit(customer=customer, product=sale["product_id"])

    async def shown(receipt: Mapping[str, Any]) -> None:
        proof = ShownReceipt(
            app_user_id=customer,
            token=receipt.get("fetch_token"),
            product_ids=(receipt["product_id"],),
            transaction_id=receipt.get("transaction_id"),
            app_transaction=receipt.get("app_transaction"),
        )
        await visit.services.receipts.take(visit.project_id, app.id, app.store, proof, {})

    await store.sell_to(customer, sale, shown)
    return await visit.to(_here(visit), f"Sold to {customer}.")


@pages.post("/apps/{app_id}/store-emulator/act", Needs.MANAGE, "store_emulator.acted", show)
async def act(visit: Visit) -> Response:
    store, moved = _store(visit), ""
    purchase, name = visit.form.needed("purchase"), visit.form.choice("act", ACTS)
    visit.audit(purchase=purchase[:100], act=name)
    if name == "renew":
        moved = await _follow(visit, await _renew(store, purchase))
    else:
        await store.act(purchase, name)
    return await visit.to(_here(visit), f"Done: {ACTS[name].lower()}.{moved}")


@pages.post("/apps/{app_id}/store-emulator/clock", Needs.MANAGE, "store_emulator.clock_moved", show)
async def move(visit: Visit) -> Response:
    store = _store(visit)
    by = visit.form.choice("by", STEPS)
    visit.audit(by=by)
    moved = await _follow(visit, (await store.ask("PUT", "/clock", {"by": by}))["now_ms"])
    return await visit.to(_here(visit), f"The store's clock moved by {STEPS[by]}.{moved}")


async def _follow(visit: Visit, to: Ms) -> str:
    """Moves the chosen test clock to where the store's clock stands, and says so. First everything that the store sent
    is processed: a clock that runs ahead of a renewal would let the subscription end."""
    id = visit.form.text("test_clock")
    if not id:
        return ""
    visit.audit(test_clock=id)
    clock = await visit.run(test_clocks.get_clock, id)
    waiting = JournalFilter(app_id=visit.param("app_id"), status="waiting")
    for _ in range(round(PATIENCE / AGAIN)):
        if not await visit.run(journal.page, waiting, after=None, limit=1):
            break
        await asyncio.sleep(AGAIN)
    else:
        raise Refusal(
            "Latchkey has not processed everything that the store sent, so the test clock was not moved. "
            "The page Store notifications lists what waits."
        )
    moved = await test_clocks.advance(visit.services.changes, visit.project_id, id, to=max(to, clock.now))
    return f" The test clock followed to {texts.instant(moved.clock.now)}."


async def _renew(store: EmulatorClient, purchase: str) -> Ms:
    """The store renews when the period ends, so its clock moves there."""
    known = (await store.ask("GET", "/purchases"))["purchases"]
    ends_at = next((one["ends_at"] for one in known if one["purchase"] == purchase), None)
    if ends_at is None:
        raise Refusal("This purchase has no period that could be renewed.")
    now = (await store.ask("GET", "/clock"))["now_ms"]
    moved: Ms = (await store.ask("PUT", "/clock", {"to": max(now, ends_at)}))["now_ms"]
    return moved


async def _with_owners(visit: Visit, store: str, purchases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = []
    async with visit.database.acquire() as connection:
        for purchase in purchases:
            owner = await records.owner_of(connection, visit.project_id, (store, purchase["id"]))
            href = address(visit, owner) if owner is not None else None
            shown.append({**purchase, "owner": owner, "href": href, "can": _possible(purchase)})
    return shown


def _possible(one: Mapping[str, Any]) -> list[str]:
    if one["refunded_at"] or one["replaced"]:
        return []
    can = []
    if one["kind"] == "subscription":
        if one["auto_renew"] and one["active"] and not one["billing_problem"]:
            can += ["renew", "cancel", "fail_billing"]
        elif one["billing_problem"]:
            can += ["recover"]
        elif one["active"]:
            can += ["uncancel"]
    return [*can, "refund"]


def _answer(one: Mapping[str, Any]) -> str:
    if not one["attempts"]:
        return ""
    last = one["attempts"][-1]
    return str(last["status"] or last["answer"] or last["did"])


def _store(visit: Visit) -> EmulatorClient:
    app_id = visit.param("app_id")
    url = control_urls(visit.settings.store_emulators).get((visit.project_id, app_id))
    if url is None:
        raise NotFound("This app has no store emulator.", param="app_id")
    return EmulatorClient(url, PATIENCE)


def _here(visit: Visit) -> str:
    return visit.path("apps", visit.param("app_id"), "store-emulator", test_clock=visit.form.text("test_clock"))
