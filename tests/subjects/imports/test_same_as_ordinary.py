"""The same lives, told by a store and imported from a file, leave the same rows, reads and charts."""

from typing import Any

from msgspec import json
from msgspec.structs import replace

from latchkey.database.pool import Database
from latchkey.domain.customers.customer import Attribute, Customer, LastSeen, with_attributes
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY, Ms
from latchkey.domain.money.amounts import Price
from latchkey.domain.purchases.purchase import Environment, MoneyBack, Purchase, PurchaseKind, Reason
from latchkey.domain.purchases.reconciliation import settle, settle_purchase
from latchkey.domain.purchases.subscription import Cause, Moment, Period, PeriodType, Status, Subscription
from latchkey.engine.changes import Change, Situation
from latchkey.engine.reads import CustomerView
from latchkey.engine.storage.catalog.catalogs import Catalogs
from latchkey.engine.storage.read_rows import load_projects
from latchkey.engine.storage.state import decode
from latchkey.subjects.charts.rules.facts import Kind
from latchkey.subjects.customers.render import customer_v2 as v2
from latchkey.subjects.customers.render import subscriber_v1 as v1
from latchkey.subjects.exports import render as rendering
from latchkey.subjects.imports.usecases.runs import ImportOrder, run_import
from tests.engine.fixtures import NOON, Core, new_project
from tests.subjects.charts.stored_rows import Facts, agree, facts
from tests.subjects.imports.conftest import Desk
from tests.subjects.imports.own_rows import cells_of

BEGIN: Ms = NOON - 100 * DAY
OTHER = "proj_other"


def bought(chain: str, months: int, **status: Any) -> list[tuple[Ms, Subscription]]:
    """A subscription as a store tells it, month by month."""
    told = []
    for number in range(months):
        at = BEGIN + number * 30 * DAY
        period = Period(
            id=f"{chain}.{number}x",
            number=0,
            cause=Cause.RENEWAL if number else Cause.TRIAL,
            product_id="pro_monthly",
            period_type=PeriodType.NORMAL if number else PeriodType.TRIAL,
            purchased_at=at,
            ends_at=at + 30 * DAY,
            as_of=Moment(at),
            price=Price(8_990_000 if number else 0, "EUR"),
            country="DE",
        )
        told.append((at, _subscription(chain, (period,), Status(as_of=Moment(at)))))
    if status:
        at = told[-1][0] + DAY
        told.append((at, _subscription(chain, told[-1][1].periods, Status(as_of=Moment(at), **status))))
    return told


def _subscription(chain: str, periods: tuple[Period, ...], status: Status) -> Subscription:
    return Subscription(store="app_store", id=chain, environment=Environment.PRODUCTION, periods=periods, status=status)


def refunded(chain: str) -> list[tuple[Ms, Subscription]]:
    told = bought(chain, 3)
    at = told[-1][0] + 3 * DAY
    period = replace(told[-1][1].current, money_back=(MoneyBack(at),), as_of=Moment(at))
    return [*told, (at, _subscription(chain, (period,), Status(as_of=Moment(at))))]


def lifetime(id: str) -> list[tuple[Ms, Purchase]]:
    once = Purchase(
        kind=PurchaseKind.ONE_TIME,
        store="app_store",
        id=id,
        product_id="pro_lifetime",
        environment=Environment.PRODUCTION,
        purchased_at=BEGIN,
        price=Price(99_990_000, "USD"),
        told_at=BEGIN,
    )
    return [(BEGIN, once)]


LIVES: dict[str, list[tuple[Ms, Any]]] = {
    "running": bought("1000", 4),
    "cancelled": bought("1001", 4, auto_renew=False, renewal_off_reason=Reason.UNSUBSCRIBE),
    "over": bought("1002", 2, auto_renew=False, renewal_off_reason=Reason.UNSUBSCRIBE),
    "refunded": refunded("1003"),
    "lifetime": lifetime("1004"),
    "several": [*bought("1005", 2), *lifetime("1006"), *bought("1007", 4)],
    "unpaid": bought("1008", 3, billing_issue_at=BEGIN + 90 * DAY, grace_ends_at=BEGIN + 106 * DAY),
}


async def tell(core: Core, user: str, at: Ms, seen: Subscription | Purchase) -> None:
    await core.wait(max(at - core.time, 0))

    def apply(situation: Situation) -> Customer:
        customer = situation.customer
        noted = {"$email": Attribute(f"{user}@example.com", BEGIN), "level": Attribute("7", BEGIN)}
        customer = with_attributes(customer, noted)
        if isinstance(seen, Purchase):
            known = customer.purchase(seen.store, seen.id)
            return take_in(customer, settle_purchase(known, seen), situation.now)
        before = customer.subscription(seen.store, seen.id)
        return take_in(customer, settle(before, seen, situation.now), situation.now)

    claims = frozenset({(seen.store, seen.id)})
    change = Change(project_id=core.project_id, app_user_id=user, apply=apply, create=True, claims=claims)
    await core.changes.make(change)


async def exported(database: Database, project_id: str) -> list[dict[str, Any]]:
    """All rows of a project, as `latchkey export` writes them."""
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, Catalogs(), {project_id}))[project_id].catalog
        found = await connection.fetch(
            "select id, state, last_seen_at from customers where project_id = $1 order by app_user_id", project_id
        )
    lines: list[dict[str, Any]] = []
    for one in found:
        customer = decode(one["state"])
        lines.append(cells_of(rendering.customer_row(customer, one["id"], LastSeen(one["last_seen_at"]))))
        lines += [cells_of(row) for row in rendering.transactions(customer, catalog, one["id"])]
    return lines


async def stored(database: Database, project_id: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row that belongs to customers, with app user ids in the place of keys."""
    fetch = database.pool.fetch
    queries = {
        "customers": "select app_user_id, test_clock_id, next_due_at, first_seen_at, "
        "last_seen_at, last_seen_platform, last_seen_country from customers where project_id = $1",
        "aliases": "select a.app_user_id, c.app_user_id from aliases a join customers c on c.project_id = a.project_id "
        "and c.id = a.customer_id where a.project_id = $1",
        "owners": "select o.store, o.store_id, c.app_user_id from purchase_owners o join customers c "
        "on c.project_id = o.project_id and c.id = o.customer_id where o.project_id = $1",
        "transactions": "select store, transaction_id, store_id from purchase_transactions where project_id = $1",
        "emails": "select e.email, c.app_user_id from customer_emails e join customers c "
        "on c.project_id = e.project_id and c.id = e.customer_id where e.project_id = $1",
    }
    return {name: sorted(map(tuple, await fetch(query, project_id)), key=repr) for name, query in queries.items()}


async def reads(database: Database, project_id: str, now: Ms) -> list[str]:
    """V1 and V2 of every customer."""
    async with database.acquire() as connection:
        catalog = (await load_projects(connection, Catalogs(), {project_id}))[project_id].catalog
        found = await connection.fetch(
            "select id, state, last_seen_at from customers where project_id = $1", project_id
        )
    bodies = []
    for one in found:
        customer = replace(decode(one["state"]), project_id="proj")
        view = CustomerView(one["id"], customer, catalog, now, LastSeen(one["last_seen_at"]))
        body = json.encode([v1.subscriber(view), v2.customer(view)])
        bodies.append(body.decode())
    return sorted(bodies)


async def charts(core: Core, project_id: str) -> Facts:
    """The facts of all customers. Of imported ones, failed payments of the past are not known."""
    await agree(core.database, project_id)
    found = await facts(core.database, project_id)
    return {key: amounts for key, amounts in found.items() if key.kind != Kind.BILLING_ISSUE}


async def test_an_import_leaves_what_the_ordinary_way_leaves(desk: Desk) -> None:
    core = desk.shop
    core.time = BEGIN
    told = sorted(
        ((at, number, user, seen) for user, life in LIVES.items() for number, (at, seen) in enumerate(life)),
        key=lambda one: one[:3],
    )
    for at, _, user, seen in told:
        await tell(core, user, at, seen)
    await core.wait(NOON - core.time)
    lines = await exported(core.database, core.project_id)
    file = desk.file("\n".join(json.encode(one).decode() for one in lines), "all.jsonl")

    await new_project(core.database, OTHER, NOON)
    result = await run_import(
        core.database, ImportOrder(project_id=OTHER, format="latchkey", files=(file,)), lambda: core.time
    )
    assert result.counts["new customers"] == len(LIVES)
    assert not result.skipped

    keyless = [{name: cell for name, cell in one.items() if name != "customer_key"} for one in lines]
    again = await exported(core.database, OTHER)
    assert [{name: cell for name, cell in one.items() if name != "customer_key"} for one in again] == keyless
    assert await stored(core.database, OTHER) == await stored(core.database, core.project_id)
    assert await reads(core.database, OTHER, core.time) == await reads(core.database, core.project_id, core.time)
    assert await charts(core, OTHER) == await charts(core, core.project_id)
