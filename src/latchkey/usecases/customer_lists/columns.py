"""What a list of customers can show of each: pages, CSV and the API choose from these columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from latchkey.domain.access.entitlements import active
from latchkey.domain.catalog import Catalog
from latchkey.domain.customers.customer import visible
from latchkey.domain.customers.facets import statuses
from latchkey.domain.instants import Ms
from latchkey.domain.refusal import Invalid
from latchkey.storage.customer_lists.reading import Entry
from latchkey.usecases.engine.passing_time import at_present


class Kind(StrEnum):
    """How a value is written."""

    TEXT = "text"
    LIST = "list"
    INSTANT = "instant"
    # Millionths of a US dollar.
    USD = "usd"


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    kind: Kind
    value: Callable[[Entry, Catalog], Any]
    # Needs the customer itself, which takes longer to read than its facets.
    whole: bool = False


def _attribute(name: str) -> Callable[[Entry, Catalog], str | None]:
    def value(entry: Entry, _: Catalog) -> str | None:
        found = visible(entry.customer).get(name) if entry.customer is not None else None
        return found.value if found is not None else None

    return value


def _entitlements(entry: Entry, catalog: Catalog) -> list[str]:
    if entry.customer is None:
        return []
    return list(active(at_present(entry.customer, catalog, entry.now), catalog, entry.now))


def _future(until: Ms | None, now: Ms) -> Ms | None:
    return until if until is not None and until > now else None


COLUMNS: dict[str, Column] = {
    "status": Column("Status", Kind.LIST, lambda entry, _: sorted(statuses(entry.facets, entry.now))),
    "entitlements": Column("Has now", Kind.LIST, _entitlements, whole=True),
    "email": Column("E-mail", Kind.TEXT, _attribute("$email"), whole=True),
    "name": Column("Name", Kind.TEXT, _attribute("$displayName"), whole=True),
    "products": Column("Products", Kind.LIST, lambda entry, _: list(entry.facets.products)),
    "spent": Column("Spent (USD)", Kind.USD, lambda entry, _: entry.facets.spent_usd),
    "refunded": Column("Refunded (USD)", Kind.USD, lambda entry, _: entry.facets.refunded_usd),
    "country": Column("Country", Kind.TEXT, lambda entry, _: entry.facets.country),
    "store": Column("Stores", Kind.LIST, lambda entry, _: list(entry.facets.stores)),
    "environment": Column("Environment", Kind.TEXT, lambda entry, _: entry.facets.environment.lower()),
    "trial_ends": Column("Trial ends", Kind.INSTANT, lambda entry, _: _future(entry.facets.trial_until, entry.now)),
    "access_ends": Column("Runs until", Kind.INSTANT, lambda entry, _: entry.facets.runs_until),
    "first_seen": Column("First seen", Kind.INSTANT, lambda entry, _: entry.facets.first_seen_at),
    "last_seen": Column("Last seen", Kind.INSTANT, lambda entry, _: entry.facets.last_seen_at),
}
DEFAULT = ("status", "entitlements", "email", "spent", "country", "first_seen", "last_seen")


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """In the order of `COLUMNS`, each once; the default if none is named."""
    wanted = {name.strip() for name in names if name.strip()}
    unknown = wanted - COLUMNS.keys()
    if unknown:
        raise Invalid(f"A column is one of {', '.join(COLUMNS)}.", param="columns")
    return tuple(name for name in COLUMNS if name in wanted) or DEFAULT


def needs_customer(names: Iterable[str]) -> bool:
    return any(COLUMNS[name].whole for name in names)
