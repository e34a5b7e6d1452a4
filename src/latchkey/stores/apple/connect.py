"""What an app sells in the App Store, as the App Store Connect API tells it: subscriptions by group, in-app purchases,
their prices in each country, and introductory offers. It takes another key than the App Store Server API."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from latchkey.domain.catalog import ProductType
from latchkey.domain.instants import Duration, Ms, to_iso
from latchkey.domain.money.amounts import DECIMALS, Price
from latchkey.domain.stores.store_product import StoreProduct, from_home, offer_in_words
from latchkey.stores.adapter import MOST_PRODUCTS, TOO_MANY_PRODUCTS
from latchkey.stores.apple.api import signed_token
from latchkey.stores.apple.credentials import AppleCredentials, signing_key
from latchkey.stores.apple.snapshots import country_of
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown
from latchkey.stores.http import StoreHttp

_HOST = "https://api.appstoreconnect.apple.com"
_PAGE = 200
# Apple allows 3,600 requests in an hour. This many at once.
_AT_ONCE = 4
_REMOVED = frozenset({"DEVELOPER_REMOVED_FROM_SALE", "REMOVED_FROM_SALE"})
_LENGTHS = {
    "THREE_DAYS": Duration(days=3),
    "ONE_WEEK": Duration(days=7),
    "TWO_WEEKS": Duration(days=14),
    "ONE_MONTH": Duration(months=1),
    "TWO_MONTHS": Duration(months=2),
    "THREE_MONTHS": Duration(months=3),
    "SIX_MONTHS": Duration(months=6),
    "ONE_YEAR": Duration(months=12),
}
_NO_KEY = (
    "Listing products needs a key of the App Store Connect API: save connect_key_id and connect_private_key with the "
    "app's credentials. The in-app purchase key cannot do it."
)

T = TypeVar("T")
Item = TypeVar("Item")


class _Resource(msgspec.Struct, frozen=True):
    id: str
    type: str = ""
    attributes: dict[str, Any] = {}
    relationships: dict[str, dict[str, Any]] = {}

    def text(self, name: str) -> str:
        value = self.attributes.get(name)
        return value if isinstance(value, str) else ""

    def of(self, name: str) -> str:
        """The id of what is related to it."""
        related = self.relationships.get(name, {}).get("data")
        return str(related.get("id", "")) if isinstance(related, dict) else ""


class _Page(msgspec.Struct, frozen=True):
    data: list[_Resource] = []
    included: list[_Resource] = []
    links: dict[str, Any] = {}


async def list_products(http: StoreHttp, credentials: AppleCredentials, now: Ms) -> tuple[StoreProduct, ...]:
    if credentials.connect_private_key is None:
        raise ActionRefused(_NO_KEY)
    api, today = _Api(http, credentials, now), to_iso(now)[:10]
    app = f"/v1/apps/{credentials.app_apple_id}"
    groups, _ = await api.all(f"{app}/subscriptionGroups")
    in_groups = await _each(groups, lambda group: api.all(f"/v1/subscriptionGroups/{group.id}/subscriptions"))
    subscriptions = [one for found, _ in in_groups for one in found]
    others, _ = await api.all(f"{app}/inAppPurchasesV2", include="iapPriceSchedule")
    if len(subscriptions) + len(others) > MOST_PRODUCTS:
        raise ActionRefused(TOO_MANY_PRODUCTS)

    async def subscription(one: _Resource) -> StoreProduct:
        asked = {"include": "subscriptionPricePoint,territory"}
        prices = _current(*await api.all(f"/v1/subscriptions/{one.id}/prices", **asked), today)
        offers, included = await api.all(f"/v1/subscriptions/{one.id}/introductoryOffers", **asked)
        return _subscription(one, prices, offers, _current(offers, included, today), today)

    async def in_app_purchase(one: _Resource) -> StoreProduct:
        prices: dict[str, Price] = {}
        asked = {"include": "inAppPurchasePricePoint,territory"}
        if schedule := one.of("iapPriceSchedule"):
            # Apple computes the automatic ones from the price in the base country.
            for kind in ("automaticPrices", "manualPrices"):
                found = await api.all(f"/v1/inAppPurchasePriceSchedules/{schedule}/{kind}", **asked)
                prices |= _current(*found, today)
        return _product(one, _type(one.text("inAppPurchaseType")), prices)

    return (*await _each(subscriptions, subscription), *await _each(others, in_app_purchase))


async def _each(items: Sequence[Item], read: Callable[[Item], Awaitable[T]]) -> list[T]:
    few = asyncio.Semaphore(_AT_ONCE)

    async def one(item: Item) -> T:
        async with few:
            return await read(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except ExceptionGroup as several:
        # One is enough to give up; the others were cancelled.
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


def _subscription(
    one: _Resource, prices: dict[str, Price], offers: Iterable[_Resource], charged: dict[str, Price], today: str
) -> StoreProduct:
    trial, words = None, {}
    for offer in offers:
        length = _LENGTHS.get(offer.text("duration"))
        if length is None or not _in_force(offer, today):
            continue
        if offer.text("offerMode") == "FREE_TRIAL":
            trial = trial or length
        elif price := next((found.price for found in from_home(charged)), None):
            periods = offer.attributes.get("numberOfPeriods")
            # Each country has an offer of its own; one is shown.
            words[offer.text("offerMode")] = offer_in_words("introductory", price, length, periods or 1)
    made = _product(one, ProductType.SUBSCRIPTION, prices)
    length = _LENGTHS.get(one.text("subscriptionPeriod"))
    return msgspec.structs.replace(made, duration=length, trial=trial, offers=tuple(words.values()))


def _product(one: _Resource, type: ProductType, prices: dict[str, Price]) -> StoreProduct:
    return StoreProduct(
        id=one.text("productId"),
        name=one.text("name") or one.text("productId"),
        type=type,
        on_sale=one.text("state") not in _REMOVED,
        prices=from_home(prices),
    )


def _type(text: str) -> ProductType:
    return ProductType(text.lower()) if text.lower() in {*ProductType} else ProductType.ONE_TIME


def _current(prices: Iterable[_Resource], included: Iterable[_Resource], today: str) -> dict[str, Price]:
    """By country, the prices of today for new buyers. Apple lists earlier and planned ones too."""
    others = {(one.type, one.id): one for one in included}
    found: dict[str, tuple[str, Price]] = {}
    for one in prices:
        territory = others.get(("territories", one.of("territory")))
        point = others.get(("subscriptionPricePoints", one.of("subscriptionPricePoint"))) or others.get(
            ("inAppPurchasePricePoints", one.of("inAppPurchasePricePoint"))
        )
        country, since = country_of(one.of("territory")), one.text("startDate")
        if territory is None or point is None or country is None or one.attributes.get("preserved") is True:
            continue
        if _in_force(one, today) and since >= found.get(country, ("",))[0]:
            found[country] = since, _price(point.text("customerPrice"), territory.text("currency"))
    return {country: price for country, (_, price) in found.items()}


def _in_force(one: _Resource, today: str) -> bool:
    ends = one.text("endDate")
    return one.text("startDate") <= today and (not ends or ends > today)


def _price(amount: str, currency: str) -> Price:
    try:
        return Price(int(Decimal(amount).scaleb(DECIMALS)), currency)
    except (ArithmeticError, ValueError):
        raise StoreDown("Apple answered with a price of an unexpected form.") from None


class _Api:
    def __init__(self, http: StoreHttp, credentials: AppleCredentials, now: Ms) -> None:
        self._http = http
        self._base = credentials.api_base_url or _HOST
        key = signing_key(credentials.connect_private_key or "")
        self._token = signed_token(credentials.issuer_id, credentials.connect_key_id or "", key, now)

    async def all(self, path: str, **query: str) -> tuple[list[_Resource], list[_Resource]]:
        """A list with all its pages, and what was included in them."""
        found, included = [], []
        url, asked = self._base + path, {"limit": str(_PAGE), **query}
        for _ in range(MOST_PRODUCTS // _PAGE):
            page = await self._get(url, asked)
            found += page.data
            included += page.included
            url, asked = str(page.links.get("next") or ""), {}
            if not url:
                return found, included
            if not url.startswith(f"{self._base}/"):
                # The token is for Apple alone.
                raise StoreDown("Apple's next page is at another address.")
        raise ActionRefused(TOO_MANY_PRODUCTS)

    async def _get(self, url: str, query: dict[str, str]) -> _Page:
        answer = await self._http.request("GET", url, headers={"Authorization": f"Bearer {self._token}"}, query=query)
        match answer.status:
            case 200:
                return answer.json(_Page, "Apple")
            case 401:
                raise CredentialsRefused(
                    "Apple refuses the key of the App Store Connect API: check connect_key_id, connect_private_key and "
                    "issuer_id."
                )
            case 403:
                raise CredentialsRefused("Apple refuses this key of the App Store Connect API: its role is too low.")
            case 404:
                raise CredentialsRefused("App Store Connect knows no app with this app_apple_id for this key.")
        raise StoreDown(f"Apple answered {answer.status}.")
