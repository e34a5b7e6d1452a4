"""The catalog compared with what a store has for sale, and what taking a product over changes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

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
# What is taken over where nothing is named.
WANTED: frozenset[Status] = frozenset({"new", "different"})

Field = Literal["price", "country_prices", "duration", "trial", "type", "apps"]


class ProductDifference(Struct, frozen=True):
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
    # What it becomes there when it is taken over, and the prices that are then listed for it. Nobody's access depends
    # on it. None: it cannot be taken over.
    wanted: Product | None = None
    prices: tuple[ListedPrice, ...] = ()
    differences: tuple[ProductDifference, ...] = ()
    # Why it is impossible.
    reason: str = ""

    @property
    def creates(self) -> bool:
        return self.status in ("new", "covered", "deleted")

    @property
    def changes(self) -> bool:
        """Whether taking it over changes anything."""
        return self.creates or self.wanted != self.known or bool(self.prices)


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

    def sells(self, product: Product) -> bool:
        return not product.apps or self.app_id in product.apps


def compare(shelf: Shelf, sold: Iterable[StoreProduct]) -> tuple[Compared, ...]:
    """By id: everything that either of them has."""
    there = {one.id: one for one in sold}
    plans = Counter(without_plan(one.id) for one in there.values() if one.on_sale)
    names = {*there, *map(without_plan, there)}
    found = [_compared(shelf, one, plans[without_plan(one.id)]) for one in there.values()]
    found += [
        Compared(id=product.id, status="missing", known=product)
        for product in shelf.products.values()
        if product.id not in names and product.on_sale and shelf.sells(product)
    ]
    return tuple(sorted(found, key=lambda one: one.id))


def _compared(shelf: Shelf, sold: StoreProduct, plans: int) -> Compared:
    """`plans`: how many base plans of the product are on sale there."""
    exact, whole = shelf.products.get(sold.id), shelf.products.get(without_plan(sold.id))
    known = exact if exact is not None else whole
    made = Compared(id=sold.id, status="off_sale", sold=sold, known=known)
    if not sold.on_sale:
        archived = known is not None and known.on_sale and (exact is not None or not plans)
        return replace(made, status="archived") if archived else made
    if reason := _reason(sold, exact):
        return replace(made, status="impossible", reason=reason)
    status: Status = "new" if exact is None else "deleted"
    wanted, differences = _created(shelf, sold, known), tuple[ProductDifference, ...]()
    if known is not None and known.on_sale:
        if exact is None and (plans > 1 or known.kind is not sold.type.kind):
            status = "covered"
        else:
            wanted = _updated(shelf, sold, known)
            differences = tuple(_differences(shelf, sold, known, wanted))
            status = "different" if differences else "same"
    # Those that a buyer would see otherwise.
    prices = (one for one in sold.prices if _storable(one) and shelf.seen(wanted, one) != one.price)
    listed = tuple(replace(one, store=shelf.store) for one in prices)
    return replace(made, status=status, wanted=wanted, prices=listed, differences=differences)


def _reason(sold: StoreProduct, known: Product | None) -> str:
    if not is_id(sold.id) or sold.id.startswith(PREFIX):
        return "The catalog takes no product with such an id."
    if known is not None and known.kind is not sold.type.kind:
        return f"Here it is a {known.kind.replace('_', '-')} product, and customers may hold it. A kind never changes."
    if sold.prices and not _storable(sold.prices[0]):
        return "The catalog does not take its price."
    return ""


def _created(shelf: Shelf, sold: StoreProduct, known: Product | None) -> Product:
    """`known` stood for it. From now on it stands for itself, and its owners must lose nothing."""
    return Product(
        id=sold.id,
        kind=sold.type.kind,
        price=sold.prices[0].price if sold.prices else FREE,
        display_name=_name(sold),
        duration=sold.duration,
        trial=_trial(sold),
        grants=known.grants if known is not None else (),
        credits=known.credits if known is not None else None,
        type=sold.type,
        apps=(shelf.app_id,),
    )


def _updated(shelf: Shelf, sold: StoreProduct, known: Product) -> Product:
    main = sold.prices[0] if sold.prices else None
    # A product that other apps sell too keeps its price; this store's is listed beside it.
    priced = main is not None and known.apps == (shelf.app_id,) and shelf.seen(known, main) != main.price
    trials = sold.trial is not UNSET and known.kind is ProductKind.SUBSCRIPTION
    general = {known.kind.value, None}
    return replace(
        known,
        price=main.price if main is not None and priced else known.price,
        duration=sold.duration or known.duration,
        trial=_trial(sold) if trials else known.trial,
        type=known.type if sold.type == known.kind.value or known.type in general else sold.type,
        apps=known.apps if shelf.sells(known) else (*known.apps, shelf.app_id),
    )


def _differences(shelf: Shelf, sold: StoreProduct, known: Product, wanted: Product) -> Iterator[ProductDifference]:
    if sold.prices and shelf.seen(known, sold.prices[0]) != sold.prices[0].price:
        yield ProductDifference("price", _money(shelf.seen(known, sold.prices[0])), _money(sold.prices[0].price))
    listed = {one.country for one in shelf.listed.get(known.id, ()) if one.store in (None, shelf.store)}
    # A country without a price of its own is no difference: most catalogs have one price.
    others = [one for one in sold.prices[1:] if one.country in listed and _storable(one)]
    if wrong := [one.country or "" for one in others if shelf.seen(known, one) != one.price]:
        same = len(others) - len(wrong)
        yield ProductDifference("country_prices", f"{same} the same", f"other in {', '.join(wrong)}")
    if wanted.duration != known.duration:
        yield ProductDifference("duration", duration(known.duration, "not known"), duration(wanted.duration))
    if wanted.trial != known.trial:
        yield ProductDifference("trial", duration(known.trial, "none"), duration(wanted.trial, "none"))
    if wanted.type != known.type:
        yield ProductDifference("type", *((one or "").replace("_", " ") for one in (known.type, wanted.type)))
    if wanted.apps != known.apps:
        yield ProductDifference("apps", "not sold in this app", "sold")


def _storable(one: ListedPrice) -> bool:
    price = one.price
    return price.currency in CURRENCIES and 0 <= price.micros <= HIGHEST * MICROS and one.country in {None, *COUNTRIES}


def _trial(sold: StoreProduct) -> Duration | None:
    return sold.trial if isinstance(sold.trial, Duration) and sold.type is ProductType.SUBSCRIPTION else None


def _name(sold: StoreProduct) -> str:
    try:
        return checked_name(sold.name[:LONGEST_NAME])
    except Invalid:
        return sold.id


def _money(price: Price) -> str:
    return money(price.micros, price.currency)
