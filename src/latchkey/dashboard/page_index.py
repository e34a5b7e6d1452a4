"""The pages of a project and the settings on them, by name and by other words for them. The search looks here."""

from __future__ import annotations

from dataclasses import dataclass

from latchkey.domain.charts.definitions.listing import CHARTS


@dataclass(frozen=True, slots=True)
class Entry:
    title: str
    # The path below the project.
    pieces: tuple[str, ...]
    # Other words that people type for it.
    words: str = ""
    needs: str = "read"


_MANAGE = "manage"
ENTRIES: tuple[Entry, ...] = (
    Entry("Overview", (), "home start dashboard figures metrics kpi"),
    Entry("Charts", ("charts",), "graphs metrics kpi analytics numbers report"),
    Entry("Customers", ("customers",), "users subscribers people app user id profile"),
    Entry("Bulk grants", ("bulk-grants",), "give many customers access promotional free preview"),
    Entry("Events", ("events",), "feed history log live stream transactions"),
    Entry("Webhooks", ("webhooks",), "integrations endpoints receivers callbacks deliveries retries signing secret"),
    Entry("Add a webhook", ("webhooks", "new"), "new create integration endpoint", _MANAGE),
    Entry("Journal", ("journal",), "store notifications apple google stripe inbox s2s rtdn server"),
    Entry("Exports", ("exports",), "download csv parquet bucket s3 warehouse data backup schedule"),
    Entry("New export", ("exports", "new"), "create schedule bucket s3", _MANAGE),
    Entry("Catalog", ("catalog",), "mapping grid products entitlements"),
    Entry("Products", ("catalog", "products"), "skus plans subscriptions one-time purchases prices"),
    Entry("New product", ("catalog", "new-product"), "create add sku plan", _MANAGE),
    Entry("Entitlements", ("catalog", "entitlements"), "access features permissions"),
    Entry("New entitlement", ("catalog", "new-entitlement"), "create add access", _MANAGE),
    Entry("Offerings", ("catalog", "offerings"), "paywall packages current offering"),
    Entry("New offering", ("catalog", "new-offering"), "create add paywall", _MANAGE),
    Entry("Placements", ("catalog", "placements"), "targeting paywall places"),
    Entry("Test clocks", ("test-clocks",), "time travel simulate fast forward sandbox"),
    Entry("Experiments", ("experiments",), "a/b test variants split"),
    Entry("New experiment", ("experiments", "new"), "create a/b test", _MANAGE),
    Entry("Virtual currencies", ("currencies",), "coins credits gems tokens balance"),
    Entry("New virtual currency", ("new-currency",), "create coins credits", _MANAGE),
    Entry("Apps", ("apps",), "app store google play stripe connect credentials public keys sdk bundle"),
    Entry("New app", ("apps", "new"), "create connect a store app store google play stripe", _MANAGE),
    Entry("API keys", ("keys",), "secret key token authentication bearer rotate revoke"),
    Entry("New API key", ("keys", "new"), "create secret key token", _MANAGE),
    Entry("Requests", ("requests",), "api request log errors rate limit 429"),
    Entry("Money", ("money",), "exchange rates currencies tax vat commission fees small business program percentages"),
    Entry("Settings", ("settings",), "project name restore behavior behaviour test store rename configuration"),
    Entry("Team", ("team",), "members people invite roles owner developer support viewer"),
    Entry("Audit log", ("audit",), "who changed what history changes security"),
    *(Entry(one.title, ("charts", one.name), f"chart {one.group} {one.name.replace('_', ' ')}") for one in CHARTS),
)


def entries_for(text: str, limit: int = 5) -> list[Entry]:
    """Those in which every word of the text begins a word. Titles that begin with the text come first."""
    sought = text.casefold().split()
    if not sought:
        return []
    found = [one for one in ENTRIES if _fits(one, sought)]
    start = " ".join(sought)
    return sorted(found, key=lambda one: (not one.title.casefold().startswith(start), not _in_title(one, sought)))[
        :limit
    ]


def _fits(one: Entry, sought: list[str]) -> bool:
    words = f"{one.title} {one.words}".casefold().split()
    return all(any(word.startswith(part) for word in words) for part in sought)


def _in_title(one: Entry, sought: list[str]) -> bool:
    words = one.title.casefold().split()
    return all(any(word.startswith(part) for word in words) for part in sought)
