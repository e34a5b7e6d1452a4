"""Which customers a list shows. A filter is text in a URL, in a segment and in the API, always in the same words."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from latchkey.domain.instants import DAY, LATEST, Ms
from latchkey.domain.money.amounts import MICROS
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import Invalid
from latchkey.subjects.segments.rules.facets import CustomerStatus, Facets, statuses

LONGEST_TEXT = 200
_MOST_DAYS = 36_500
_MOST_SPENT = 10**12
_DAYS = re.compile(r"(\d{1,5})d")


class Sort(StrEnum):
    """The highest first."""

    LAST_SEEN = "last_seen"
    FIRST_SEEN = "first_seen"
    SPENT = "spent"
    # In the order in which the customers were created: a long list does not change while it is read.
    KEY = "key"


@dataclass(frozen=True, slots=True)
class When:
    """An instant, or so many days ago: a saved segment means 30 days before each look."""

    at: Ms | None = None
    days: int | None = None

    def resolved(self, now: Ms) -> Ms:
        return now - self.days * DAY if self.days is not None else self.at or 0

    @property
    def text(self) -> str:
        if self.days is not None:
            return f"{self.days}d"
        moment = datetime.fromtimestamp((self.at or 0) / 1000, UTC)
        midnight = (self.at or 0) % DAY == 0
        return moment.strftime("%Y-%m-%d") if midnight else moment.isoformat(timespec="milliseconds")[:-6] + "Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerFilter:
    """Everything that is given must hold. The fields are the names in URLs and in the API."""

    # Any of these.
    status: frozenset[CustomerStatus] = frozenset()
    product_id: str | None = None
    # Whether its time must run now, and not only have been bought once.
    product_active: bool = False
    # Millionths of a US dollar, both included.
    spent_from: int | None = None
    spent_to: int | None = None
    # Two letters.
    country: str | None = None
    store: str | None = None
    environment: Environment | None = None
    last_seen_after: When | None = None
    last_seen_before: When | None = None
    first_seen_after: When | None = None
    first_seen_before: When | None = None
    # Days: a trial runs and ends within them.
    trial_ends_within: int | None = None
    billing_issue: bool = False

    @property
    def is_empty(self) -> bool:
        return self == EVERYBODY


EVERYBODY = CustomerFilter()
NAMES = tuple(one.name for one in fields(CustomerFilter))


def matches(facets: Facets, wanted: CustomerFilter, now: Ms, own_now: Ms | None = None) -> bool:
    """`own_now`: the time of the customer's test clock. When somebody was seen is always compared with real time."""
    at = now if own_now is None else own_now
    within = wanted.trial_ends_within
    conditions = (
        not wanted.status or bool(wanted.status & statuses(facets, at)),
        wanted.product_id is None or _has(facets, wanted.product_id, at if wanted.product_active else None),
        wanted.spent_from is None or facets.spent_usd >= wanted.spent_from,
        wanted.spent_to is None or facets.spent_usd <= wanted.spent_to,
        wanted.country is None or facets.country == wanted.country,
        wanted.store is None or wanted.store in facets.stores,
        wanted.environment is None or facets.environment is wanted.environment,
        wanted.last_seen_after is None or facets.last_seen_at >= wanted.last_seen_after.resolved(now),
        wanted.last_seen_before is None or facets.last_seen_at < wanted.last_seen_before.resolved(now),
        wanted.first_seen_after is None or facets.first_seen_at >= wanted.first_seen_after.resolved(now),
        wanted.first_seen_before is None or facets.first_seen_at < wanted.first_seen_before.resolved(now),
        within is None or (facets.trial_until is not None and at < facets.trial_until <= at + within * DAY),
        not wanted.billing_issue or (facets.billing_issue_until is not None and at < facets.billing_issue_until),
    )
    return all(conditions)


def _has(facets: Facets, product_id: str, now: Ms | None) -> bool:
    until = dict(zip(facets.products, facets.product_untils, strict=True)).get(product_id)
    return until is not None and (now is None or until > now)


def single(
    pairs: Iterable[tuple[str, str]],
    known: Collection[str],
    several: Collection[str] = ("status",),
    what: str = "A list",
) -> dict[str, str]:
    """The parameters of a query, each once. A name that is not known is refused, and so is one that is given twice: if
    it were ignored, the list would be longer than was meant. Those of `several` are joined with commas."""
    found: dict[str, str] = {}
    for name, text in pairs:
        if name not in known:
            raise Invalid(f"{what} has no parameter {name[:50]!r}. It has {', '.join(sorted(known))}.", param=name[:50])
        if name in found and name not in several:
            raise Invalid(f"{name} is given more than once.", param=name)
        found[name] = f"{found[name]},{text}" if name in found else text
    return found


def parse(given: Mapping[str, str]) -> CustomerFilter:
    """From the text form. Empty values and unknown names are left out; what cannot be understood is refused."""
    said = {name: text.strip() for name, text in given.items() if name in NAMES and text.strip()}
    if _flag(said, "product_active") and "product_id" not in said:
        raise Invalid("product_active needs a product_id.", param="product_active")
    if "billing_issue" in said and not _flag(said, "billing_issue"):
        raise Invalid(
            "billing_issue is true or left out. A list of customers without one cannot be asked for.",
            param="billing_issue",
        )
    return CustomerFilter(
        status=frozenset(_status(one) for one in said.get("status", "").split(",") if one.strip()),
        product_id=_text(said, "product_id"),
        product_active=_flag(said, "product_active"),
        spent_from=_money(said, "spent_from"),
        spent_to=_money(said, "spent_to"),
        country=_country(said),
        store=_text(said, "store"),
        environment=_environment(said),
        last_seen_after=_when(said, "last_seen_after"),
        last_seen_before=_when(said, "last_seen_before"),
        first_seen_after=_when(said, "first_seen_after"),
        first_seen_before=_when(said, "first_seen_before"),
        trial_ends_within=_number(said, "trial_ends_within"),
        billing_issue=_flag(said, "billing_issue"),
    )


def written(wanted: CustomerFilter) -> dict[str, str]:
    """The text form: only what is given, each value in one spelling."""
    found = {
        "status": ",".join(sorted(wanted.status)),
        "product_id": wanted.product_id,
        "product_active": "true" if wanted.product_active else None,
        "spent_from": _usd(wanted.spent_from),
        "spent_to": _usd(wanted.spent_to),
        "country": wanted.country,
        "store": wanted.store,
        "environment": wanted.environment.lower() if wanted.environment is not None else None,
        "last_seen_after": wanted.last_seen_after.text if wanted.last_seen_after else None,
        "last_seen_before": wanted.last_seen_before.text if wanted.last_seen_before else None,
        "first_seen_after": wanted.first_seen_after.text if wanted.first_seen_after else None,
        "first_seen_before": wanted.first_seen_before.text if wanted.first_seen_before else None,
        "trial_ends_within": str(wanted.trial_ends_within) if wanted.trial_ends_within is not None else None,
        "billing_issue": "true" if wanted.billing_issue else None,
    }
    return {name: text for name, text in found.items() if text}


def _status(text: str) -> CustomerStatus:
    try:
        return CustomerStatus(text.strip().lower())
    except ValueError:
        raise Invalid(f"A status is one of {', '.join(CustomerStatus)}.", param="status") from None


def _text(said: Mapping[str, str], name: str) -> str | None:
    text = said.get(name)
    if text is not None and (len(text) > LONGEST_TEXT or "\x00" in text):
        raise Invalid(f"{name} has at most {LONGEST_TEXT} characters.", param=name)
    return text


def _flag(said: Mapping[str, str], name: str) -> bool:
    text = said.get(name, "false").lower()
    if text not in ("true", "yes", "false", "no"):
        raise Invalid(f"{name} is true or false.", param=name)
    return text in ("true", "yes")


def _country(said: Mapping[str, str]) -> str | None:
    text = said.get("country")
    if text is not None and not re.fullmatch(r"[A-Za-z]{2}", text):
        raise Invalid("A country has two letters, such as DE or US.", param="country")
    return text.upper() if text is not None else None


def _environment(said: Mapping[str, str]) -> Environment | None:
    text = said.get("environment")
    try:
        return Environment(text.upper()) if text is not None else None
    except ValueError:
        raise Invalid("An environment is production or sandbox.", param="environment") from None


def _money(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name)
    if text is None:
        return None
    try:
        amount = Decimal(text)
        if not amount.is_finite() or abs(amount) > _MOST_SPENT:
            raise InvalidOperation
        return int(amount * MICROS)
    except InvalidOperation:
        raise Invalid(f"{name} is an amount in US dollars, such as 19.99.", param=name) from None


def _usd(micros: int | None) -> str | None:
    return None if micros is None else format((Decimal(micros) / MICROS).normalize(), "f")


def _number(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:6]) <= _MOST_DAYS:
        raise Invalid(f"{name} is a number of days from 1 to {_MOST_DAYS:,}.", param=name)
    return int(text)


def _when(said: Mapping[str, str], name: str) -> When | None:
    text = said.get(name)
    if text is None:
        return None
    if days := _DAYS.fullmatch(text):
        return When(days=min(int(days[1]), _MOST_DAYS))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{name} is a date such as 2026-10-01, or days ago such as 30d.", param=name) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at = int(moment.timestamp() * 1000)
    if not 0 <= at <= LATEST:
        raise Invalid(f"{name} is a date since 1970.", param=name)
    return When(at=at)
