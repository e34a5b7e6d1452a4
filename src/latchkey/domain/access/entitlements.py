"""Computes entitlements, each with an end, from a customer's purchases and the catalog; and who would gain or lose by
another catalog."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from latchkey.domain.catalog import Catalog, Former, without_plan
from latchkey.domain.customers.customer import Customer
from latchkey.domain.instants import Ms
from latchkey.domain.purchases.purchase import Purchase, PurchaseKind
from latchkey.domain.purchases.subscription import Subscription


class Access(Struct, frozen=True, gc=False):
    """One reason to hold an entitlement. Readers judge by `ends_at` alone; None never ends."""

    # A struct: every read makes one for each period and entitlement, and a frozen dataclass takes ten times as long.

    entitlement_id: str
    product_id: str
    purchased_at: Ms
    ends_at: Ms | None
    grace_ends_at: Ms | None
    source: Subscription | Purchase
    # Whether it ended because the product was detached from the entitlement.
    detached: bool = False

    def is_active(self, now: Ms) -> bool:
        return self.ends_at is None or self.ends_at > now

    @property
    def rank(self) -> tuple[bool, Ms, Ms, str]:
        """The access that ends last wins; no end beats every end."""
        return self.ends_at is None, self.ends_at or 0, self.purchased_at, self.product_id


def accesses(customer: Customer, catalog: Catalog) -> Iterable[Access]:
    """Every access this customer ever had, past ones included."""
    bought = _by_subscriptions(customer, catalog)
    return chain(bought, _by_purchases(customer, catalog)) if customer.purchases else bought


def _by_subscriptions(customer: Customer, catalog: Catalog) -> Iterator[Access]:
    former = catalog.former.get(customer.test_clock_id) if catalog.former else None
    for subscription in customer.subscriptions:
        periods, status = subscription.periods, subscription.status
        # The period after which a payment failed or has not come yet: a store may keep access open beyond its end.
        failing = periods[-1] if status.grace_ends_at is not None else None
        for period in periods:
            product_id, purchased_at = period.product_id, period.purchased_at
            grace = status.grace_ends_at if period is failing and subscription.in_grace else None
            ends_at = subscription.access_ends_at if period is failing else period.access_ends_at
            for entitlement_id in catalog.grants(product_id):
                yield Access(entitlement_id, product_id, purchased_at, ends_at, grace, subscription)
            if former:
                for one in _former(former, product_id):
                    if purchased_at <= one.detached_at:
                        whole = Access(one.entitlement_id, product_id, purchased_at, ends_at, grace, subscription)
                        yield _cut_off(whole, one.detached_at)


def _by_purchases(customer: Customer, catalog: Catalog) -> Iterator[Access]:
    former = catalog.former.get(customer.test_clock_id) if catalog.former else None
    for purchase in customer.purchases:
        product_id, purchased_at, ends_at = purchase.product_id, purchase.purchased_at, purchase.access_ends_at
        if purchase.entitlement_id:
            yield Access(purchase.entitlement_id, product_id, purchased_at, ends_at, None, purchase)
            continue
        for entitlement_id in catalog.grants(product_id):
            yield Access(entitlement_id, product_id, purchased_at, ends_at, None, purchase)
        for one in _former(former, product_id) if former else ():
            if purchased_at <= one.detached_at:
                whole = Access(one.entitlement_id, product_id, purchased_at, ends_at, None, purchase)
                yield _cut_off(whole, one.detached_at)


def _former(former: Mapping[str, tuple[Former, ...]], product_id: str) -> tuple[Former, ...]:
    """What was detached from a product, or from the product without its base plan."""
    return former.get(product_id) or former.get(without_plan(product_id), ())


def _cut_off(access: Access, at: Ms) -> Access:
    """The access, ended when its product was detached, unless it ended earlier."""
    if access.ends_at is not None and access.ends_at <= at:
        return access
    return replace(access, ends_at=at, grace_ends_at=None, detached=True)


def held(customer: Customer, catalog: Catalog) -> dict[str, Access]:
    """Every entitlement ever granted, each by the access that ends last."""
    return _best(accesses(customer, catalog))


def on_record(customer: Customer, catalog: Catalog) -> dict[str, Access]:
    """The entitlements that V1 lists, ended ones included. The vendor's web SDK treats every one-time purchase as
    active, so access from one is left out once a refund or a detached product ended it. Revoked grants are left out
    too."""
    if not customer.purchases:
        return held(customer, catalog)
    listed = (purchase for purchase in _by_purchases(customer, catalog) if not _struck(purchase))
    return _best(chain(_by_subscriptions(customer, catalog), listed))


def _struck(access: Access) -> bool:
    """Whether a purchase or grant gives no access any more because it was refunded, detached or revoked."""
    purchase = access.source
    assert not isinstance(purchase, Subscription)
    if purchase.revoked_at is not None or purchase.refunded_at is not None:
        return True
    return purchase.kind is PurchaseKind.ONE_TIME and purchase.ends_at is None and access.ends_at is not None


def _best(reasons: Iterable[Access]) -> dict[str, Access]:
    best: dict[str, Access] = {}
    for access in reasons:
        entitlement_id, ends_at = access.entitlement_id, access.ends_at
        known = best.get(entitlement_id)
        # Compare whole ranks only when their first parts are equal: a customer may have years of renewals.
        if (
            known is None
            or (ends_at is not None and known.ends_at is not None and ends_at > known.ends_at)
            or access.rank > known.rank
        ):
            best[entitlement_id] = access
    return best if len(best) < 2 else dict(sorted(best.items()))


def active(customer: Customer, catalog: Catalog, now: Ms) -> dict[str, Access]:
    return {id: access for id, access in held(customer, catalog).items() if access.is_active(now)}


class Grant(Struct, frozen=True, order=True):
    """One cell of the table on the mapping page: this product grants this entitlement."""

    product_id: str
    entitlement_id: str


class Remapping(Struct, frozen=True):
    attached: frozenset[Grant] = frozenset()
    detached: frozenset[Grant] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.attached or self.detached)

    def __len__(self) -> int:
        return len(self.attached) + len(self.detached)

    @property
    def entitlement_ids(self) -> tuple[str, ...]:
        return tuple(sorted({grant.entitlement_id for grant in self.attached | self.detached}))

    @property
    def product_ids(self) -> tuple[str, ...]:
        return tuple(sorted({grant.product_id for grant in self.attached | self.detached}))


def difference(before: Iterable[Grant], after: Iterable[Grant]) -> Remapping:
    had, wanted = frozenset(before), frozenset(after)
    return Remapping(wanted - had, had - wanted)


def remapped(catalog: Catalog, change: Remapping) -> Catalog:
    """The catalog with the change applied. Changes to products that are not in the catalog are ignored."""
    products = dict(catalog.products)
    for product_id in change.product_ids:
        if (product := products.get(product_id)) is None:
            continue
        granted = {Grant(product_id, grant) for grant in product.grants} | change.attached
        kept = sorted(grant.entitlement_id for grant in granted - change.detached if grant.product_id == product_id)
        products[product_id] = replace(product, grants=tuple(kept))
    return replace(catalog, products=products)


def gains_and_losses(customer: Customer, before: Catalog, after: Catalog, now: Ms) -> tuple[set[str], set[str]]:
    """The entitlements this customer would gain, and those they would lose."""
    has, will_have = active(customer, before, now).keys(), active(customer, after, now).keys()
    return set(will_have - has), set(has - will_have)
