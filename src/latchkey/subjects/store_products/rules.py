"""The catalog compared with what a store has for sale, and what taking a product over changes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from latchkey.domain.catalog import ListedPrice, Product, ProductKind, ProductType, price_for, without_plan
from latchkey.domain.customers.promotion import PREFIX
from latchkey.domain.formats import duration, money
from latchkey.domain.instants import Duration
from latchkey.domain.money.amounts import FREE, HIGHEST, MICROS, Price
from latchkey.domain.naming import COUNTRIES, CURRENCIES, LONGEST_NAME, checked_name, is_id
from latchkey.domain.refusal import Invalid
from latchkey.domain.stores.store_product import StoreProduct

Status = Literal[
    # On sale there, and unknown here.
    "new",
    "same",
    "different",
    # Here, the product stands for all its base plans, of which there are several.
    "covered",
    # It was taken off sale here.
    "deleted",
    # Off sale there, on sale here.
    "archived",
    # On sale here, unknown there.
    "missing",
    # Neither on sale there nor here.
    "off_sale",
    # The catalog cannot have it as the store does.
    "impossible",
]
# What is taken over where nothing is named, and what can be.
WANTED: frozenset[Status] = frozenset({"new", "different"})
POSSIBLE: frozenset[Status] = WANTED | {"same", "covered", "deleted"}
# These do not follow the store: an operator has to act.
WARNINGS: frozenset[Status] = frozenset({"different", "archived", "missing", "impossible"})

Field = Literal["price", "country_prices", "duration", "trial", "type", "apps"]


class Difference(Struct, frozen=True):
    field: Field
    # In words.
    here: str
    there: str


class Compared(Struct, frozen=True, kw_only=True):
    """A product of the store, or of the catalog, beside the other."""

    id: str
    status: Status
    sold: StoreProduct | None = None
    # What it is in the catalog: of the same id, or without the base plan.
    known: Product | None = None
    differences: tuple[Difference, ...] = ()
    # Why it is impossible.
    reason: str = ""


class Takeover(Struct, frozen=True, kw_only=True):
    """What makes the catalog like the store. Nobody's access depends on it."""

    product_id: str
    # None: nothing is created.
    kind: ProductKind | None = None
    # Fields of `ProductTerms`.
    terms: Mapping[str, Any]
    prices: tuple[ListedPrice, ...] = ()
    # What the product granted that stood for it.
    grants: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.kind is not None or bool(self.terms or self.prices)


class Shelf(Struct, frozen=True):
    """What is compared with a store: the catalog, as one app of that store sells it."""

    app_id: str
    store: str
    # Deleted ones too, by id.
    products: Mapping[str, Product]
    listed: Mapping[str, tuple[ListedPrice, ...]]

    def seen(self, product: Product, at: ListedPrice) -> Price:
        """What a buyer of that country sees in this store."""
        listed = self.listed.get(product.id, ())
        return price_for(product.price, listed, store=self.store, country=at.country, currency=at.price.currency)


def compare(shelf: Shelf, sold: Iterable[StoreProduct]) -> tuple[Compared, ...]:
    """By id: everything that either of them has."""
    there = {one.id: one for one in sold}
    plans = Counter(without_plan(one.id) for one in there.values() if one.on_sale)
    names = {*there, *map(without_plan, there)}
    found = [_compared(shelf, one, plans[without_plan(one.id)]) for one in there.values()]
    found += [
        Compared(id=product.id, status="missing", known=product)
        for product in shelf.products.values()
        if product.id not in names and product.on_sale and _sold_here(shelf, product)
    ]
    return tuple(sorted(found, key=lambda one: one.id))


def _compared(shelf: Shelf, sold: StoreProduct, plans: int) -> Compared:
    """`plans`: how many base plans of the product are on sale there."""
    exact, whole = shelf.products.get(sold.id), shelf.products.get(without_plan(sold.id))
    known = exact if exact is not None else whole
    made = Compared(id=sold.id, status="new", sold=sold, known=known)
    if not sold.on_sale:
        archived = known is not None and known.on_sale and (exact is not None or not plans)
        return replace(made, status="archived" if archived else "off_sale")
    if reason := _reason(sold, exact):
        return replace(made, status="impossible", reason=reason)
    if known is None or not known.on_sale:
        return made if exact is None else replace(made, status="deleted")
    if exact is None and (plans > 1 or known.kind is not sold.type.kind):
        return replace(made, status="covered")
    differences = tuple(_differences(shelf, sold, known))
    return replace(made, status="different" if differences else "same", differences=differences)


def _reason(sold: StoreProduct, known: Product | None) -> str:
    if not is_id(sold.id) or sold.id.startswith(PREFIX):
        return "The catalog takes no product with such an id."
    if known is not None and known.kind is not sold.type.kind:
        return f"Here it is a {known.kind.replace('_', '-')} product, and customers may hold it. A kind never changes."
    if sold.prices and not _storable(sold.prices[0]):
        return "The catalog does not take its price."
    return ""


def _differences(shelf: Shelf, sold: StoreProduct, known: Product) -> Iterator[Difference]:
    terms = _terms(shelf, sold, known)
    if sold.prices and shelf.seen(known, sold.prices[0]) != sold.prices[0].price:
        yield Difference("price", _money(shelf.seen(known, sold.prices[0])), _money(sold.prices[0].price))
    listed = {one.country for one in shelf.listed.get(known.id, ()) if one.store in (None, shelf.store)}
    # A country without a price of its own is no difference: most catalogs have one price.
    others = [one for one in sold.prices[1:] if one.country in listed and _storable(one)]
    if wrong := [one.country or "" for one in others if shelf.seen(known, one) != one.price]:
        yield Difference("country_prices", f"{len(others) - len(wrong)} the same", f"other in {', '.join(wrong)}")
    if "duration" in terms:
        yield Difference("duration", duration(known.duration, "not known"), duration(sold.duration))
    if "trial_duration" in terms:
        yield Difference("trial", duration(known.trial, "none"), duration(terms["trial_duration"], "none"))
    if "type" in terms:
        yield Difference("type", _word(known.type), _word(sold.type))
    if "app_ids" in terms:
        yield Difference("apps", "not sold in this app", "sold")


def takeover(shelf: Shelf, one: Compared) -> Takeover:
    """What to change for a product that can be taken over. After that, nothing is left to change."""
    sold, known = one.sold, one.known
    assert sold is not None
    main = sold.prices[0].price if sold.prices else FREE
    if known is not None and one.status in ("same", "different"):
        terms = _terms(shelf, sold, known)
        after = replace(known, price=main) if "price" in terms else known
        return Takeover(product_id=known.id, terms=terms, prices=tuple(_prices(shelf, sold, after)))
    made = Product(id=sold.id, kind=sold.type.kind, price=main)
    return Takeover(
        product_id=sold.id,
        kind=made.kind,
        terms={
            "display_name": _name(sold),
            "price": main.amount,
            "currency": main.currency,
            "duration": _iso(sold.duration),
            "trial_duration": _iso(_trial(sold)),
            "type": None if sold.type == made.kind.value else sold.type,
            "app_ids": (shelf.app_id,),
            "credits": known.credits if known is not None else None,
            "store_decides_duration": sold.duration is None,
        },
        prices=tuple(_prices(shelf, sold, made)),
        # From now on it stands for itself. Of what the product without its plan grants, owners must lose nothing.
        grants=known.grants if known is not None and known.id != sold.id else (),
    )


def _terms(shelf: Shelf, sold: StoreProduct, known: Product) -> dict[str, Any]:
    """The terms of a product that is known here, as far as they differ."""
    terms: dict[str, Any] = {}
    # A product that other apps sell too keeps its price; this store's is listed beside it.
    if sold.prices and known.apps == (shelf.app_id,) and shelf.seen(known, sold.prices[0]) != sold.prices[0].price:
        terms |= {"price": sold.prices[0].price.amount, "currency": sold.prices[0].price.currency}
    if sold.duration is not None and sold.duration != known.duration:
        terms["duration"] = _iso(sold.duration)
    if sold.trial is not UNSET and _trial(sold) != known.trial and known.kind is ProductKind.SUBSCRIPTION:
        terms["trial_duration"] = _iso(_trial(sold))
    if sold.type != known.kind.value and known.type not in (None, sold.type, known.kind.value):
        terms["type"] = sold.type
    if not _sold_here(shelf, known):
        terms["app_ids"] = (*known.apps, shelf.app_id)
    return terms


def _prices(shelf: Shelf, sold: StoreProduct, product: Product) -> Iterator[ListedPrice]:
    """Those that a buyer would see otherwise."""
    for one in sold.prices:
        if _storable(one) and shelf.seen(product, one) != one.price:
            yield replace(one, store=shelf.store)


def _sold_here(shelf: Shelf, product: Product) -> bool:
    return not product.apps or shelf.app_id in product.apps


def _storable(one: ListedPrice) -> bool:
    price = one.price
    return price.currency in CURRENCIES and 0 <= price.micros <= HIGHEST * MICROS and one.country in {None, *COUNTRIES}


def _trial(sold: StoreProduct) -> Duration | None:
    return sold.trial if isinstance(sold.trial, Duration) and sold.type is ProductType.SUBSCRIPTION else None


def _iso(length: Duration | None) -> str | None:
    return str(length) if length is not None else None


def _name(sold: StoreProduct) -> str | None:
    try:
        return checked_name(sold.name[:LONGEST_NAME])
    except Invalid:
        return None


def _word(type: ProductType | None) -> str:
    return (type or "").replace("_", " ")


def _money(price: Price) -> str:
    return money(price.micros, price.currency)
