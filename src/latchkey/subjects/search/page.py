"""The search box of every page: a page of results, and the same as JSON while somebody types."""

import tomllib
from importlib.resources import files

from msgspec import Struct, json

from latchkey.dashboard import texts
from latchkey.dashboard.links import address
from latchkey.dashboard.page import Pages, Response, Visit
from latchkey.domain.customers.customer import visible
from latchkey.subjects.charts.rules.definition import CHARTS
from latchkey.subjects.search.usecases import By, Findings, Match, Named, find


class MenuEntry(Struct, frozen=True):
    title: str
    # The path below the project.
    pieces: tuple[str, ...]
    # Other words that people type for it.
    words: str = ""
    needs: str = "read"


_PAGES = tomllib.loads((files(__package__) / "pages.toml").read_text(encoding="utf-8"))
ENTRIES: tuple[MenuEntry, ...] = (
    *(MenuEntry(title, tuple(filter(None, one.pop("path").split("/"))), **one) for title, one in _PAGES.items()),
    *(
        MenuEntry(chart.title, ("charts", chart.name), f"chart {chart.group} {chart.name.replace('_', ' ')}")
        for chart in CHARTS
    ),
)


def entries_for(text: str, limit: int = 5) -> list[MenuEntry]:
    """Those in which every word of the text begins a word. Titles that begin with the text come first."""
    sought = text.casefold().split()
    if not sought:
        return []
    fitting = [entry for entry in ENTRIES if _begun(f"{entry.title} {entry.words}", sought)]

    def place(entry: MenuEntry) -> tuple[bool, bool]:
        return not entry.title.casefold().startswith(" ".join(sought)), not _begun(entry.title, sought)

    return sorted(fitting, key=place)[:limit]


def _begun(text: str, sought: list[str]) -> bool:
    return all(any(word.startswith(part) for word in text.casefold().split()) for part in sought)


pages = Pages()

WHILE_TYPING, ON_A_PAGE = 6, 25
# Where a thing has its page, and what its group is called.
_NAMED = {
    "product": ("Products", ("catalog", "products")),
    "entitlement": ("Entitlements", ("catalog", "entitlements")),
    "offering": ("Offerings", ("catalog", "offerings")),
    "experiment": ("Experiments", ("experiments",)),
    "webhook": ("Webhooks", ("webhooks",)),
    "key": ("API keys", ("keys",)),
    "app": ("Apps", ("apps",)),
}


class SearchHit(Struct, frozen=True):
    title: str
    detail: str
    href: str


class Group(Struct, frozen=True):
    title: str
    results: list[SearchHit]


class Results(Struct, frozen=True):
    groups: list[Group]
    # What else there is to say.
    note: str = ""
    # Where all customers that match are listed.
    more: str = ""


@pages.get("/find")
async def show_results(visit: Visit) -> Response:
    text = visit.query.raw("q")
    results = await _results(visit, text, ON_A_PAGE)
    found = [result for group in results.groups for result in group.results]
    if len(found) == 1 and not results.note:
        return await visit.to(found[0].href)
    return visit.page("found.html", sought=text, results=results)


@pages.get("/find.json")
async def list_results(visit: Visit) -> Response:
    results = await _results(visit, visit.query.raw("q"), WHILE_TYPING)
    return Response(json.encode(results), media_type="application/json")


async def _results(visit: Visit, text: str, limit: int) -> Results:
    found = await find(visit.database, visit.services.catalogs, visit.project_id, text, visit.now, limit=limit)
    matches, named = found.results.matches, dict[str, list[SearchHit]]()
    for one in found.named:
        named.setdefault(_NAMED[one.kind][0], []).append(_named(visit, one))
    entries = [entry for entry in entries_for(text) if visit.may(entry.needs)]
    here = Group("Pages", [SearchHit(entry.title, "", visit.path(*entry.pieces)) for entry in entries])
    groups = [
        Group("Customers", [_customer(visit, match) for match in matches if match.by is not By.TRANSACTION]),
        Group("Transactions", [_transaction(visit, match) for match in matches if match.by is By.TRANSACTION]),
        Group("Events", _event(visit, found)),
        *(Group(title, results[:limit]) for title, _ in _NAMED.values() if (results := named.get(title))),
    ]
    # Whoever types the beginning of a page's name means the page.
    begun = bool(entries) and entries[0].title.casefold().startswith(text.strip().casefold())
    groups = [here, *groups] if begun else [*groups, here]
    note = "More customers match. Type more of the id or e-mail address." if found.results.more else ""
    if found.results.erased:
        note = "There was a purchase with this id. Its customer was erased."
    more = visit.path("customers", q=text, all="yes") if found.results.more else ""
    return Results([group for group in groups if group.results], note, more)


def _customer(visit: Visit, match: Match) -> SearchHit:
    customer = match.view.customer
    attributes = visible(customer)
    told = [attributes[name].value for name in ("$displayName", "$email") if name in attributes]
    also = [f"also {match.matched}"] if match.matched not in (customer.app_user_id, *told) else []
    return SearchHit(customer.app_user_id, ", ".join([*told, *also]), address(visit, customer.app_user_id))


def _transaction(visit: Visit, match: Match) -> SearchHit:
    customer = match.view.customer.app_user_id
    return SearchHit(match.matched, f"bought by {customer}", address(visit, customer))


def _event(visit: Visit, found: Findings) -> list[SearchHit]:
    if found.event is None:
        return []
    event = found.event.event
    return [SearchHit(event.id, f"{event.type}, {texts.instant(event.occurred_at)}", visit.path("events", event.id))]


def _named(visit: Visit, one: Named) -> SearchHit:
    _, pieces = _NAMED[one.kind]
    # The page of one key shows how to change it.
    own = one.kind != "key" or visit.may("manage")
    return SearchHit(one.name or one.id, one.id, visit.path(*pieces, one.id) if own else visit.path(*pieces))
