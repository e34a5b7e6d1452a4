"""`latchkey customer`: look at customers, grant and revoke entitlements, and delete a customer."""

import sys
from collections.abc import Sequence
from typing import Any

import typer
from msgspec import to_builtins

from latchkey.cli import output
from latchkey.cli.command import LIMIT, argument, command, flag, option
from latchkey.cli.output import shown, typed_ahead
from latchkey.cli.project_command import ProjectContext, project_context
from latchkey.domain.customers.customer import visible
from latchkey.domain.customers.identity import ERASED
from latchkey.domain.customers.promotion import DURATIONS
from latchkey.domain.formats import in_words, money
from latchkey.domain.purchases.purchase import Purchase
from latchkey.domain.purchases.reference import v2_id
from latchkey.domain.purchases.subscription import Subscription
from latchkey.domain.purchases.summary import gives_access, purchase_status, summary_of
from latchkey.engine.reads import CustomerView
from latchkey.now import real_now
from latchkey.subjects.customers.render import customer_v2
from latchkey.subjects.customers.rules.explanation import explain, explain_all
from latchkey.subjects.customers.usecases import edits
from latchkey.subjects.customers.usecases.edits import erase
from latchkey.subjects.customers.usecases.identities import list_aliases
from latchkey.subjects.search import usecases as search
from latchkey.subjects.segments.render import entry
from latchkey.subjects.segments.rules.facets import statuses
from latchkey.subjects.segments.rules.filter import NAMES, CustomerFilter, Sort, parse, single
from latchkey.subjects.segments.usecases.customer_lists import (
    COLUMNS,
    csv_pieces,
    list_page,
    load_segment,
    missing_customers,
)
from latchkey.wire import paging

_SAMPLE = "status=trial, country=DE, last_seen_before=30d"
_NAMES = ", ".join(NAMES)


async def _filter(
    at: ProjectContext, where: Sequence[str], segment: str | None, sort: Sort | None
) -> tuple[CustomerFilter, Sort]:
    if segment is not None:
        if where:
            raise typer.BadParameter("cannot be given together with --where.", param_hint="--segment")
        saved = await at.run(load_segment, segment)
        return saved.filter, sort or saved.sort
    pairs = [condition.partition("=") for condition in where]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise typer.BadParameter(f"{wrong[0]!r} is not NAME=VALUE, such as status=trial.", param_hint="--where")
    said = single([(name.strip(), text) for name, _, text in pairs], NAMES)
    return parse(said), sort or Sort.LAST_SEEN


async def _show_filtered(at: ProjectContext, chosen: CustomerFilter, sort: Sort, limit: int, csv: bool) -> None:
    if csv:
        pieces = csv_pieces(at.database, at.catalogs, at.project_id, chosen, tuple(COLUMNS), real_now())
        async for piece in pieces:
            sys.stdout.write(piece.decode())
        sys.stdout.flush()
        _tell(await at.run(missing_customers, real_now()))
        return
    found = await at.run(list_page, chosen, real_now(), sort=sort, limit=limit)
    more = found.next is not None
    if at.as_json:
        items = [to_builtins(entry(list_entry)) for list_entry in found.entries]
        said = {"complete": found.complete, "missing_customers": found.missing}
        output.write({"object": "list", "items": items, "has_more": more, **said})
        return
    rows = [
        (
            list_entry.app_user_id or "",
            ", ".join(sorted(statuses(list_entry.facets, list_entry.now))),
            ", ".join(list_entry.facets.products),
            money(list_entry.facets.spent_usd),
            list_entry.facets.country or "",
            shown(list_entry.facets.last_seen_at),
        )
        for list_entry in found.entries
    ]
    columns = ("id", "status", "products", "spent", "country", "last seen")
    output.show_list(rows, columns, "No customers found.", "There are more. See --limit." if more else "")
    _tell(found.missing)


def _tell(missing: int) -> None:
    if missing:
        output.told(f"{missing:,} new customers are not in the lists yet. Try again in a while.")


app = typer.Typer(no_args_is_help=True)

CUSTOMER = argument("Any id of the customer.", metavar="CUSTOMER")
ENTITLEMENT = argument("The entitlement's id.", metavar="ENTITLEMENT")

_LENGTHS = {name: "for ever" if length is None else in_words(length) for name, length in DURATIONS.items()}


@command(app, "show", project_context)
async def show_one(at: ProjectContext, customer: str = CUSTOMER) -> None:
    """Show one customer: entitlements and why, purchases, attributes and ids."""
    view = await at.customer(customer)
    ids = [alias.id for alias in await at.run(list_aliases, view.key)]
    if at.as_json:
        output.write(_as_data(view, ids))
    else:
        _show(view, ids)


@command(app, "list", project_context)
async def show_list(
    at: ProjectContext,
    where: list[str] | None = option(
        f"A condition, such as {_SAMPLE}. Repeat it for more; all must hold. The names are {_NAMES}.",
        metavar="NAME=VALUE",
    ),
    segment: str | None = option("The id of a saved segment, instead of --where."),
    sort: Sort | None = option("The highest first; key is the order of creation."),
    csv: bool = flag("All customers of the list as CSV, without --limit.", "--csv"),
    limit: int = LIMIT,
) -> None:
    """List customers: the newest first, or those that match conditions.

    With --where, --segment or --sort, the JSON has the fields of customer_list in the API."""
    if csv and at.as_json:
        raise typer.BadParameter("cannot be given together with --json.", param_hint="--csv")
    if csv and sort is not None:
        words = "has no order of its own: customers come in the order of creation."
        raise typer.BadParameter(words, param_hint="--csv")
    if where or segment or sort or csv:
        await _show_filtered(at, *await _filter(at, where or (), segment, sort), limit, csv)
    else:
        found = await search.newest(at.database, at.catalogs, at.project_id, real_now(), limit=limit)
        _show_views(found.views, [""] * len(found.views), at.as_json, more=found.before is not None)


@command(app, "find", project_context)
async def find(
    at: ProjectContext,
    text: str = argument("An id, an e-mail address, a transaction, or how one of them begins."),
    limit: int = LIMIT,
) -> None:
    """Find customers by an id, an e-mail address or a transaction. Exact matches come first."""
    found = await search.search(at.database, at.catalogs, at.project_id, text, real_now(), limit=limit)
    if found.erased and not at.as_json:
        output.console().print("This transaction belongs to a customer who was deleted.")
        return
    matched = [f"{match.by.value} {match.matched}" for match in found.matches]
    _show_views([match.view for match in found.matches], matched, at.as_json, more=found.more)


@command(app, "grant", project_context)
async def grant(
    at: ProjectContext,
    customer: str = CUSTOMER,
    entitlement: str = ENTITLEMENT,
    lasts: str | None = option(f"For how long: {', '.join(f'{k} ({v})' for k, v in _LENGTHS.items())}.", "--for"),
    until: str | None = option("Until when: a date and time in UTC such as 2027-01-31T08:00, or 12h, 90d."),
    create: bool = flag("Create the customer if there is none.", "--create"),
) -> None:
    """Grant an entitlement to a customer, for a time or (--for lifetime) for ever."""
    if (lasts is None) == (until is None):
        raise typer.BadParameter("Give either --for or --until.", param_hint="--for")
    if lasts is not None and lasts not in DURATIONS:
        raise typer.BadParameter(f"{lasts!r} is none of {', '.join(DURATIONS)}.", param_hint="--for")
    ends = typed_ahead(until, real_now()) if until is not None else None
    detail = {"entitlement": entitlement, "for": lasts or "", "until_ms": str(ends or "")}
    async with at.audited("customer.granted", customer, **{k: v for k, v in detail.items() if v}):
        await edits.grant(at.changes, at.project_id, customer, entitlement, ends_at=ends, duration=lasts, create=create)
    await _show_access(at, customer, entitlement)


@command(app, "revoke", project_context)
async def revoke(at: ProjectContext, customer: str = CUSTOMER, entitlement: str = ENTITLEMENT) -> None:
    """End every active grant of an entitlement. Purchases are not changed."""
    async with at.audited("customer.grant_revoked", customer, entitlement=entitlement):
        await edits.revoke(at.changes, at.project_id, customer, entitlement)
    await _show_access(at, customer, entitlement)


@command(
    app,
    "delete",
    project_context,
    asks="Delete the customer {customer!r}? Access ends at once, and this cannot be undone.",
)
async def delete(at: ProjectContext, customer: str = CUSTOMER) -> None:
    """Delete a customer: ids, attributes and access. Sales stay in the charts under a pseudonym. Asks first."""
    async with at.audited("customer.deleted", customer, afterwards=ERASED):
        await erase(at.changes, at.project_id, customer)
    at.show_deleted("customer", customer, f"The customer {output.plain(customer)} is deleted.")


def _show_views(views: list[CustomerView], matched: list[str], as_json: bool, *, more: bool) -> None:
    if as_json:
        output.write_list((customer_v2.customer(customer_view) for customer_view in views), more=more)
        return
    found_by = ("found by",) if any(matched) else ()
    rows = []
    for view, by in zip(views, matched, strict=True):
        active = [
            item.entitlement_id for item in customer_v2.active_entitlements(view, paging.LARGEST_LIMIT, None).items
        ]
        row = [
            view.customer.app_user_id,
            ", ".join(active) or "none",
            shown(view.customer.first_seen_at),
            shown(view.last_seen.at),
            view.last_seen.country or "",
        ]
        rows.append([*row, by] if found_by else row)
    columns = ("id", "entitlements", "first seen", "last seen", "country", *found_by)
    output.show_list(rows, columns, "No customers found.", "There are more. See --limit." if more else "")


async def _show_access(at: ProjectContext, customer: str, entitlement: str) -> None:
    view = await at.customer(customer)
    sentence = explain(view.customer, view.catalog, entitlement, view.now).sentence
    at.done(customer_v2.customer(view), output.plain(sentence))


def _as_data(view: CustomerView, ids: list[str]) -> dict[str, Any]:
    """The customer as V2 shows it, and what V2 shows on other paths."""
    return {
        **to_builtins(customer_v2.customer(view)),
        "aliases": ids,
        "test_clock_id": view.customer.test_clock_id,
        "explanations": to_builtins(explain_all(view.customer, view.catalog, view.now)),
        "purchases": [_purchase(view, purchase) for purchase in view.customer.bought],
    }


def _purchase(view: CustomerView, one: Subscription | Purchase) -> dict[str, Any]:
    price = one.price if isinstance(one, Purchase) else one.current.price
    return {
        "id": v2_id(one),
        "kind": one.kind.value if isinstance(one, Purchase) else "subscription",
        "product_id": one.product_id if isinstance(one, Purchase) else one.current.product_id,
        "store": one.store,
        "environment": one.environment.value.lower(),
        "status": _status(view, one),
        "gives_access": gives_access(one, view.now),
        "purchased_at": one.purchased_at if isinstance(one, Purchase) else one.started_at,
        "ends_at": one.access_ends_at,
        "price": price.amount if price.known else None,
        "currency": price.currency if price.known else None,
    }


def _status(view: CustomerView, one: Subscription | Purchase) -> str:
    if isinstance(one, Purchase):
        return purchase_status(one)
    return summary_of(one, view.catalog, view.now).status.value


def _show(view: CustomerView, ids: list[str]) -> None:
    one, seen = view.customer, view.last_seen
    output.show_facts(
        (
            ("id", one.app_user_id),
            ("other ids", ", ".join(id for id in ids if id != one.app_user_id)),
            ("first seen", shown(one.first_seen_at)),
            ("last seen", shown(seen.at)),
            ("country", seen.country or ""),
            ("platform", f"{seen.platform or ''} {seen.platform_version or ''}".strip()),
            ("app version", seen.app_version or ""),
            ("test clock", f"{one.test_clock_id}, at {shown(view.now)}" if one.test_clock_id else ""),
            *((f"attribute {name}", attribute.value) for name, attribute in visible(one).items()),
        )
    )
    console = output.console()
    access = output.table("entitlement", "access", "why")
    for explained in explain_all(view.customer, view.catalog, view.now):
        has = "[green]yes[/green]" if explained.has_access else "no"
        access.add_row(output.plain(explained.entitlement_id), has, output.plain(explained.sentence))
    if access.row_count:
        output.show_table(access)
    else:
        console.print("The project has no entitlements.")
    # The id is last, because it is the longest; nothing is broken in two, so that it can be copied.
    bought = output.table("product", "store", "status", "since", "until", "price", "purchase", ids=7)
    for purchase in view.customer.bought:
        price = purchase.price if isinstance(purchase, Purchase) else purchase.current.price
        fields = _purchase(view, purchase)
        cells = (fields["product_id"], fields["store"], fields["status"])
        times = (shown(fields["purchased_at"]), shown(fields["ends_at"]) or "for ever")
        bought.add_row(*map(output.plain, (*cells, *times, money(price.micros, price.currency), fields["id"])))
    if bought.row_count:
        output.show_table(bought, widest=400)
    else:
        console.print("No purchases.")
