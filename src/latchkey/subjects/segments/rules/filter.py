"""Which customers a list shows. A filter is text in a URL, in a segment and in the API, always in the same words."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from msgspec import Struct

from latchkey.domain.customers.customer import problem_with_attribute
from latchkey.domain.instants import DAY, LATEST, Ms
from latchkey.domain.money.amounts import MICROS, decimal_of
from latchkey.domain.purchases.purchase import Environment
from latchkey.domain.refusal import Checks, Invalid
from latchkey.subjects.segments.rules.facets import CustomerStatus

LONGEST_TEXT = 200
_MOST_DAYS = 36_500
_MOST_SPENT = 10**12
_DAYS = re.compile(r"(\d{1,5})d")
# Of an app. Bounded, because phones send anything.
_VERSION = re.compile(r"[vV]?([0-9]{1,18}(?:\.[0-9]{1,18}){0,11})(?![0-9.]*[0-9])")


class Sort(StrEnum):
    """The highest first."""

    LAST_SEEN = "last_seen"
    FIRST_SEEN = "first_seen"
    SPENT = "spent"
    # In the order in which the customers were created: a long list does not change while it is read.
    KEY = "key"


class When(Struct, frozen=True):
    """An instant, or so many days ago: a saved segment means 30 days before each look."""

    at: Ms | None = None
    days: int | None = None

    def resolved(self, now: Ms) -> Ms:
        return now - self.days * DAY if self.days is not None else self.at or 0

    def __str__(self) -> str:
        if self.days is not None:
            return f"{self.days}d"
        moment = datetime.fromtimestamp((self.at or 0) / 1000, UTC)
        midnight = (self.at or 0) % DAY == 0
        return moment.strftime("%Y-%m-%d") if midnight else moment.isoformat(timespec="milliseconds")[:-6] + "Z"


class CustomerFilter(Struct, frozen=True, kw_only=True):
    """Everything that is given must hold. The fields are the names in URLs and in the API."""

    # Any of these.
    status: frozenset[CustomerStatus] = frozenset()
    product_id: str | None = None
    # Whether its time must run now, and not only have been bought once.
    product_active: bool = False
    # Millionths of a US dollar, both included.
    spent_from: int | None = None
    spent_to: int | None = None
    # Any of these, with two letters each.
    country: frozenset[str] = frozenset()
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
        return not given(self)


class AttributeValues(Struct, frozen=True):
    """A customer attribute, and the values that match."""

    name: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}={','.join(self.values)}"


class AudienceFilter(CustomerFilter, frozen=True, kw_only=True):
    """Whom a targeting rule is for: the conditions of lists, and those that need the customer itself and its app."""

    # Any of these, in lower case, as the SDKs name them.
    platform: frozenset[str] = frozenset()
    # From this version on, and before this one.
    app_version_from: str | None = None
    app_version_below: str | None = None
    attribute: AttributeValues | None = None
    # Is active now, or is not.
    entitlement: str | None = None
    no_entitlement: str | None = None


class Segment(Struct, frozen=True):
    """A filter that was saved under a name."""

    id: str
    name: str
    filter: CustomerFilter
    columns: tuple[str, ...]
    sort: Sort
    created_at: Ms
    updated_at: Ms


EVERYBODY = CustomerFilter()
NAMES = CustomerFilter.__struct_fields__
# Without the last visit: whoever asks for an offering is there now.
AUDIENCE_NAMES = tuple(name for name in AudienceFilter.__struct_fields__ if not name.startswith("last_seen"))


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


def parse(texts: Mapping[str, str]) -> CustomerFilter:
    """From the text form. Empty values and unknown names are left out; what cannot be understood is refused."""
    return CustomerFilter(**_values(texts, NAMES))


def parse_audience(texts: Mapping[str, str]) -> AudienceFilter:
    return AudienceFilter(**_values(texts, AUDIENCE_NAMES))


def _values(texts: Mapping[str, str], names: Collection[str]) -> dict[str, Any]:
    said = {name: text.strip() for name, text in texts.items() if name in names and text.strip()}
    if "product_id" not in said and _flag(said.get("product_active", "false"), "product_active"):
        raise Invalid("product_active needs a product_id.", param="product_active")
    if not _flag(said.get("billing_issue", "true"), "billing_issue"):
        raise Invalid(
            "billing_issue is true or left out. A list of customers without one cannot be asked for.",
            param="billing_issue",
        )
    with Checks() as check:
        return {name: check(_READERS[name], text, name) for name, text in said.items()}


def given(wanted: CustomerFilter) -> dict[str, Any]:
    """The conditions that are given, by name."""
    nothing = type(wanted)()
    values = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    return {name: value for name, value in values.items() if value != getattr(nothing, name)}


def written(wanted: CustomerFilter) -> dict[str, str]:
    """The text form: only what is given, each value in one spelling."""
    return {name: _WRITERS.get(name, str)(value) for name, value in given(wanted).items()}


def _statuses(text: str, name: str) -> frozenset[CustomerStatus]:
    try:
        return frozenset(CustomerStatus(word.lower()) for word in _words(text, name))
    except ValueError:
        raise Invalid(f"A status is one of {', '.join(CustomerStatus)}.", param="status") from None


def _text(text: str, name: str) -> str:
    if len(text) > LONGEST_TEXT or "\x00" in text:
        raise Invalid(f"{name} has at most {LONGEST_TEXT} characters.", param=name)
    return text


def _flag(text: str, name: str) -> bool:
    if text.lower() not in ("true", "yes", "false", "no"):
        raise Invalid(f"{name} is true or false.", param=name)
    return text.lower() in ("true", "yes")


def _words(text: str, name: str) -> list[str]:
    """At least one: a condition without a value would match everybody."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise Invalid(f"{name} is empty.", param=name)
    return words


def _countries(text: str, name: str) -> frozenset[str]:
    if not all(re.fullmatch(r"[A-Za-z]{2}", word) for word in _words(text, name)):
        raise Invalid("A country has two letters, such as DE or US. Separate several by commas.", param=name)
    return frozenset(_words(text.upper(), name))


def _platforms(text: str, name: str) -> frozenset[str]:
    if not all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", word) for word in _words(text, name)):
        raise Invalid("A platform is a word such as ios or android. Separate several by commas.", param=name)
    return frozenset(_words(text.lower(), name))


def version_of(text: str | None) -> tuple[int, ...] | None:
    """What an app's versions are compared by: the numbers at the beginning, without zeros at the end, so that 2 equals
    2.0.0 and 1.10 is newer than 1.9. What follows them, such as `-beta.1` or ` (42)`, does not count. None: there is no
    version, or it is none."""
    found = _VERSION.match(text.strip()) if text else None
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _version(text: str, name: str) -> str:
    if version_of(text) is None:
        raise Invalid("A version begins with a number, such as 1.10 or 2.0.3.", param=name)
    return _text(text, name)


def _attribute(text: str, name: str) -> AttributeValues:
    attribute, _, values = _text(text, name).partition("=")
    if problem_with_attribute(attribute.strip(), None) is not None or not values.strip(", "):
        raise Invalid("An attribute is written as name=value, with several values as name=one,two.", param=name)
    return AttributeValues(attribute.strip(), tuple(dict.fromkeys(_words(values, name))))


def _environment(text: str, name: str) -> Environment:
    try:
        return Environment(text.upper())
    except ValueError:
        raise Invalid("An environment is production or sandbox.", param=name) from None


def _money(text: str, name: str) -> int:
    amount = decimal_of(text)
    if amount is None or abs(amount) > _MOST_SPENT:
        raise Invalid(f"{name} is an amount in US dollars, such as 19.99.", param=name)
    return int(amount * MICROS)


def _usd(micros: int) -> str:
    return format((Decimal(micros) / MICROS).normalize(), "f")


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= _MOST_DAYS):
        raise Invalid(f"{name} is a number of days from 1 to {_MOST_DAYS:,}.", param=name)
    return int(text)


def _when(text: str, name: str) -> When:
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


_READERS: dict[str, Callable[[str, str], Any]] = {
    "status": _statuses,
    "product_id": _text,
    "product_active": _flag,
    "spent_from": _money,
    "spent_to": _money,
    "country": _countries,
    "store": _text,
    "environment": _environment,
    "last_seen_after": _when,
    "last_seen_before": _when,
    "first_seen_after": _when,
    "first_seen_before": _when,
    "trial_ends_within": _number,
    "billing_issue": _flag,
    "platform": _platforms,
    "app_version_from": _version,
    "app_version_below": _version,
    "attribute": _attribute,
    "entitlement": _text,
    "no_entitlement": _text,
}
# Of those that are not written as they are.
_WRITERS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("status", "country", "platform"), lambda words: ",".join(sorted(words))),
    "product_active": lambda _: "true",
    "spent_from": _usd,
    "spent_to": _usd,
    "environment": str.lower,
    "billing_issue": lambda _: "true",
}
