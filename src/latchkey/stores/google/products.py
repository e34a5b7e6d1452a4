"""What an app sells on Google Play: subscriptions with their base plans and offers, and one-time products."""

from collections.abc import Iterable

from latchkey.domain.catalog import ProductType
from latchkey.domain.instants import Duration, parse_duration
from latchkey.domain.money.amounts import Price
from latchkey.domain.stores.store_product import StoreProduct, from_home, offer_in_words
from latchkey.stores.adapter import ConnectedApp
from latchkey.stores.errors import CredentialsRefused, StoreDown
from latchkey.stores.google.publisher import Gone, Publisher, UnknownPurchase
from latchkey.stores.google.resources import Empty, GoogleMoney, Resource

_ACTIVE = "ACTIVE"


class _Listing(Resource, frozen=True):
    language_code: str = ""
    title: str = ""


class _RegionalPrice(Resource, frozen=True):
    region_code: str
    price: GoogleMoney | None = None
    # Only in a phase of an offer.
    free: Empty | None = None


class _Renewing(Resource, frozen=True):
    billing_period_duration: str = ""


class _BasePlan(Resource, frozen=True):
    base_plan_id: str
    state: str = ""
    regional_configs: tuple[_RegionalPrice, ...] = ()
    auto_renewing_base_plan_type: _Renewing | None = None
    prepaid_base_plan_type: _Renewing | None = None
    installments_base_plan_type: _Renewing | None = None


class _Subscription(Resource, frozen=True):
    product_id: str
    archived: bool = False
    listings: tuple[_Listing, ...] = ()
    base_plans: tuple[_BasePlan, ...] = ()


class _Phase(Resource, frozen=True):
    duration: str
    recurrence_count: int = 1
    regional_configs: tuple[_RegionalPrice, ...] = ()


class _Offer(Resource, frozen=True):
    product_id: str
    base_plan_id: str
    offer_id: str
    state: str = ""
    phases: tuple[_Phase, ...] = ()


class _PurchaseOption(Resource, frozen=True):
    state: str = ""
    regional_pricing_and_availability_configs: tuple[_RegionalPrice, ...] = ()


class _OneTimeProduct(Resource, frozen=True):
    product_id: str
    listings: tuple[_Listing, ...] = ()
    purchase_options: tuple[_PurchaseOption, ...] = ()


class _Page(Resource, frozen=True):
    next_page_token: str = ""
    subscriptions: tuple[_Subscription, ...] = ()
    subscription_offers: tuple[_Offer, ...] = ()
    one_time_products: tuple[_OneTimeProduct, ...] = ()


async def list_products(publisher: Publisher, app: ConnectedApp) -> tuple[StoreProduct, ...]:
    try:
        pages = await publisher.everything(app, "/subscriptions", _Page, showArchived="true")
        # A dash stands for all of them.
        pages += await publisher.everything(app, "/subscriptions/-/basePlans/-/offers", _Page)
        pages += await publisher.everything(app, "/oneTimeProducts", _Page)
    except (UnknownPurchase, Gone):
        raise CredentialsRefused("Google knows no app with this package_name.") from None
    offers: dict[tuple[str, str], list[_Offer]] = {}
    for offer in (one for page in pages for one in page.subscription_offers):
        offers.setdefault((offer.product_id, offer.base_plan_id), []).append(offer)
    plans = [
        _plan(one, plan, offers.get((one.product_id, plan.base_plan_id), ()))
        for page in pages
        for one in page.subscriptions
        for plan in one.base_plans
    ]
    return (*plans, *(_one_time(one) for page in pages for one in page.one_time_products))


def _plan(subscription: _Subscription, plan: _BasePlan, offers: Iterable[_Offer]) -> StoreProduct:
    prepaid = plan.prepaid_base_plan_type
    renewing = prepaid or plan.auto_renewing_base_plan_type or plan.installments_base_plan_type
    trial, words = None, []
    for offer in offers:
        for phase in offer.phases if offer.state == _ACTIVE else ():
            length, prices = _duration(phase.duration), from_home(_prices(phase.regional_configs))
            free = any(one.free is not None for one in phase.regional_configs)
            if free and trial is None:
                trial = length
            elif length is not None and (free or prices):
                price = prices[0].price if prices else None
                words.append(offer_in_words(offer.offer_id, price, length, phase.recurrence_count))
    return StoreProduct(
        id=f"{subscription.product_id}:{plan.base_plan_id}",
        name=_name(subscription.listings, subscription.product_id),
        # To Latchkey, a prepaid plan is bought for a while, time after time.
        type=ProductType.NON_RENEWING_SUBSCRIPTION if prepaid else ProductType.SUBSCRIPTION,
        on_sale=plan.state == _ACTIVE and not subscription.archived,
        duration=_duration(renewing.billing_period_duration) if renewing else None,
        trial=trial,
        prices=from_home(_prices(plan.regional_configs)),
        offers=tuple(words),
    )


def _one_time(product: _OneTimeProduct) -> StoreProduct:
    active = [option for option in product.purchase_options if option.state == _ACTIVE]
    # The first option is the one that old versions of the billing library buy.
    shown = (active or product.purchase_options)[:1]
    prices = [one for option in shown for one in option.regional_pricing_and_availability_configs]
    return StoreProduct(
        id=product.product_id,
        name=_name(product.listings, product.product_id),
        type=ProductType.ONE_TIME,
        on_sale=bool(active),
        prices=from_home(_prices(prices)),
    )


def _prices(regions: Iterable[_RegionalPrice]) -> dict[str, Price]:
    return {one.region_code: one.price.price for one in regions if one.price is not None and one.price.currency_code}


def _name(listings: Iterable[_Listing], id: str) -> str:
    titles = sorted(listings, key=lambda one: (not one.language_code.startswith("en"), one.language_code))
    return next((one.title for one in titles if one.title), id)


def _duration(text: str) -> Duration | None:
    try:
        return parse_duration(text) if text else None
    except ValueError:
        raise StoreDown("Google answered with a duration of an unexpected form.") from None
