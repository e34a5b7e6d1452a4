"""One customer: entitlements with reasons, the timeline of purchases, and all events. Actions on a customer: each is in
the audit log, and most need a confirmation."""

from collections.abc import Awaitable, Callable

from latchkey.dashboard import texts
from latchkey.dashboard.event_row import KINDS
from latchkey.dashboard.links import address, customer_id, isolated, written_out
from latchkey.dashboard.page import Needs, Pages, Response, Visit
from latchkey.domain.customers.customer import Customer
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.customers.promotion import DURATIONS
from latchkey.domain.formats import instant
from latchkey.domain.instants import DAY
from latchkey.domain.refusal import Checks, Invalid, NotFound, Refusal
from latchkey.domain.stores.store import store_of
from latchkey.domain.user_id import is_anonymous
from latchkey.engine.reads import CustomerView
from latchkey.stores import adapter
from latchkey.subjects.catalog.usecases.entitlement_catalog import list_entitlements
from latchkey.subjects.customers.page.timeline_svg import WORDS, picture
from latchkey.subjects.customers.rules.subscription_timeline import latest, lives
from latchkey.subjects.customers.usecases import edits, profile
from latchkey.subjects.customers.usecases.identities import transfer
from latchkey.subjects.customers.usecases.profile import load_profile, movements, timeline
from latchkey.subjects.purchases.usecases import store_actions

pages = Pages()

FIRST_EVENTS, EVENTS = 10, 25
FIRST_MOVEMENTS, MOVEMENTS = 5, 50
# How many purchases are shown, newest first; a game may sell the same coins a thousand times.
BOUGHT, TOLD = 20, 200
# The most entitlements in a select field.
CHOICES = 500


@pages.get("/customers/{customer_id}")
async def show_profile(visit: Visit) -> Response:
    id = customer_id(visit)
    if id.startswith(f"{ERASED}:"):
        raise NotFound("This customer was erased. Their events stay in the feed under a pseudonym.")
    profile = await load_profile(visit.services, visit.project_id, id)
    view, customer = profile.view, profile.view.customer
    id = customer.app_user_id
    told = await visit.run(timeline, view.key, limit=FIRST_EVENTS)
    moved = await visit.run(movements, view.key, limit=FIRST_MOVEMENTS)
    life = lives(customer, view.catalog, view.now, profile.past)
    return visit.page(
        "customer.html",
        id=id,
        isolated_id=isolated(id),
        profile=profile,
        customer=customer,
        subscriptions=list(reversed(customer.subscriptions))[:BOUGHT],
        purchases=list(reversed(customer.purchases))[:BOUGHT],
        own_now=view.now,
        anonymous=is_anonymous(id),
        written_out=written_out(id),
        lives=latest(life, TOLD),
        spans=sum(len(one.spans) for one in life),
        picture=picture(life, view.now),
        life_words=WORDS,
        timeline=told,
        kinds=KINDS,
        movements=moved,
        entitlements=await _choices(visit),
        durations=tuple(DURATIONS),
        searched=visit.query.raw("q"),
        to=lambda *below: address(visit, id, *below),
    )


@pages.get("/customers/{customer_id}/events")
async def show_events(visit: Visit) -> Response:
    view = await visit.services.reader.view(visit.project_id, customer_id(visit), visit.now)
    id = view.customer.app_user_id
    before = visit.query.text("before") or None
    told = await visit.run(timeline, view.key, before=before, limit=EVENTS)
    return visit.page(
        "customer_events.html",
        id=id,
        isolated_id=isolated(id),
        href=address(visit, id),
        timeline=told,
        kinds=KINDS,
        is_first=before is None,
        newest=address(visit, id, "events"),
        older=address(visit, id, "events", before=told.before) if told.before else None,
    )


@pages.get("/customers/{customer_id}/movements")
async def show_movements(visit: Visit) -> Response:
    view = await visit.services.reader.view(visit.project_id, customer_id(visit), visit.now)
    id = view.customer.app_user_id
    query = visit.query
    at = query.number("at", -1, high=2**63 - 1)
    before = (at, query.raw("key"), query.raw("code")) if at >= 0 else None
    found = await visit.run(movements, view.key, before=before, limit=MOVEMENTS)
    last = found.items[-1] if found.more else None
    return visit.page(
        "customer_movements.html",
        id=id,
        isolated_id=isolated(id),
        href=address(visit, id),
        movements=found.items,
        older=address(visit, id, "movements", at=last.at, key=last.key, code=last.code) if last else None,
    )


async def _choices(visit: Visit) -> list[tuple[str, str]]:
    if not visit.may("grant"):
        return []
    found = await visit.run(list_entitlements, limit=CHOICES)
    return [(entitlement.id, f"{entitlement.display_name} ({entitlement.id})") for entitlement in found]


Act = Callable[[Visit, CustomerView], Awaitable[str | Response]]
LONGEST_EXTENSION = 3650


def action(path: str, needs: Needs, name: str, *, confirmed: bool = True) -> Callable[[Act], Act]:
    """Adds an action. It returns what the customer's page says then, or a response of its own."""

    def add(act: Act) -> Act:
        @pages.post(f"/customers/{{customer_id}}/{path}", needs, name, show_profile)
        async def answer(visit: Visit) -> Response:
            view = await visit.services.reader.view(visit.project_id, customer_id(visit), visit.now)
            visit.audit(view.customer.app_user_id)
            if confirmed:
                visit.form.confirmed()
            said = await act(visit, view)
            if isinstance(said, Response):
                return said
            return await visit.to(address(visit, view.customer.app_user_id), said)

        return act

    return add


@action("grant", Needs.GRANT, "customer.granted")
async def grant(visit: Visit, view: CustomerView) -> str:
    entitlement_id = visit.form.needed("entitlement_id")
    until = visit.form.instant("until")
    duration = None if until is not None else visit.form.choice("duration", DURATIONS)
    visit.audit(entitlement=entitlement_id, until=instant(until) if until is not None else duration)
    await edits.grant(
        visit.services.changes,
        visit.project_id,
        view.customer.app_user_id,
        entitlement_id,
        ends_at=until,
        duration=duration,
    )
    return f"{entitlement_id} is granted."


@action("revoke", Needs.GRANT, "customer.grant_revoked")
async def revoke(visit: Visit, view: CustomerView) -> str:
    entitlement_id = visit.form.needed("entitlement_id")
    visit.audit(entitlement=entitlement_id)
    await edits.revoke(visit.services.changes, visit.project_id, view.customer.app_user_id, entitlement_id)
    return f"Every grant of {entitlement_id} is revoked. What was bought is not touched."


@action("refund", Needs.MANAGE, "customer.refunded")
async def refund(visit: Visit, view: CustomerView) -> str:
    await store_actions.revoke(visit.services, _named(visit, view))
    return "Refunded. Access by this purchase has ended."


@action("cancel", Needs.MANAGE, "customer.cancelled")
async def cancel(visit: Visit, view: CustomerView) -> str:
    await store_actions.cancel(visit.services, _named(visit, view))
    return "Cancelled. It is not renewed; access stays until the end of what was paid."


@action("extend", Needs.MANAGE, "customer.extended")
async def extend(visit: Visit, view: CustomerView) -> str:
    with Checks() as check:
        until = check(visit.form.instant, "until")
        days = 0 if until is not None else check(visit.form.number, "days", low=1, high=LONGEST_EXTENSION)
    item = _named(visit, view)
    visit.audit(until=instant(until) if until is not None else f"{days} days more")
    await store_actions.extend(visit.services, item, adapter.Extension(by=days * DAY if days else None, until=until))
    after = (await visit.services.reader.view(visit.project_id, view.customer.app_user_id, visit.now)).customer
    extended = after.subscription(item.bought.store, item.bought.id)
    ends = f" It runs until {texts.instant(extended.current.ends_at)}." if extended is not None else ""
    return f"Extended.{ends}"


def _named(visit: Visit, view: CustomerView) -> store_actions.ActionItem:
    """What the form is about."""
    key = visit.form.needed("store"), visit.form.needed("purchase_id")
    visit.audit(store=key[0], purchase=key[1])
    bought = view.customer.subscription(*key) or view.customer.purchase(*key)
    if bought is None or not store_of(bought.store).takes_orders:
        raise Refusal("This purchase cannot be changed here.")
    return store_actions.item_of(view.customer, bought)


@action("transfer", Needs.MANAGE, "customer.transferred")
async def transfer_purchases(visit: Visit, view: CustomerView) -> Response:
    source = view.customer.app_user_id
    target = await _target(visit)
    visit.audit(target=target.app_user_id)
    await transfer(visit.services.changes, visit.project_id, source, target.app_user_id)
    return await visit.to(address(visit, target.app_user_id), f"All purchases of {source!r} are here now.")


@action("delete", Needs.MANAGE, "customer.deleted", confirmed=False)
async def delete(visit: Visit, view: CustomerView) -> Response:
    id = view.customer.app_user_id
    typed = visit.form.raw("customer_id")
    if id not in (typed, typed.strip()):
        raise Invalid("Type the customer's id, exactly as it stands at the top, to delete them.", param="customer_id")
    await edits.erase(visit.services.changes, visit.project_id, id)
    visit.audit(ERASED)
    return await visit.to(visit.path("customers"), f"{id!r} is deleted. Sales stay in the charts, without a name.")


@action("notes", Needs.GRANT, "customer.note_added", confirmed=False)
async def add_note(visit: Visit, view: CustomerView) -> str:
    author = visit.account
    id = await visit.run(profile.add_note, view.key, author.id, author.email, visit.form.raw("text"), visit.now)
    visit.audit(note=id)
    return "The note is added."


@action("notes/{note_id}", Needs.GRANT, "customer.note_changed", confirmed=False)
async def change_note(visit: Visit, view: CustomerView) -> str:
    id = visit.param("note_id")
    visit.audit(note=id)
    await visit.run(profile.change_note, view.key, id, visit.account.id, visit.form.raw("text"), visit.now)
    return "The note is changed."


@action("notes/{note_id}/delete", Needs.GRANT, "customer.note_deleted")
async def delete_note(visit: Visit, view: CustomerView) -> str:
    id = visit.param("note_id")
    visit.audit(note=id)
    await visit.run(profile.delete_note, view.key, id, visit.account.id)
    return "The note is deleted."


async def _target(visit: Visit) -> Customer:
    """An id may have surrounding spaces, and so may pasted text."""
    typed = visit.form.raw("target")
    visit.form.needed("target")
    try:
        return (await visit.services.reader.view(visit.project_id, typed, visit.now)).customer
    except NotFound:
        try:
            return (await visit.services.reader.view(visit.project_id, typed.strip(), visit.now)).customer
        except NotFound as missing:
            raise NotFound(missing.message, param="target") from None
