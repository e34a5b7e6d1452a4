"""The App Store Connect API of the emulator, as far as it tells what is for sale: JSON:API, page by page.

Every call has to show a token that was signed with a key of this API: another kind than that of the App Store Server
API, which is refused here as this one is there.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jwt
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from latchkey.domain.instants import Duration
from latchkey.domain.money.amounts import MICROS, Price
from latchkey.emulators.apple.apple_books import AppleDiscount, AppleKind, AppleProduct
from latchkey.emulators.apple.apple_emulator import AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys, public_key_of
from latchkey.emulators.misbehaviour import Handler, faulty

AUDIENCE = "appstoreconnect-v1"
_LARGEST_PAGE = 200
_LENGTHS = {
    Duration(days=3): "THREE_DAYS",
    Duration(days=7): "ONE_WEEK",
    Duration(days=14): "TWO_WEEKS",
    Duration(months=1): "ONE_MONTH",
    Duration(months=2): "TWO_MONTHS",
    Duration(months=3): "THREE_MONTHS",
    Duration(months=6): "SIX_MONTHS",
    Duration(months=12): "ONE_YEAR",
}

# What a list holds, and what belongs to it.
Found = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def claims_of(authorization: str, keys: AppleKeys, key_id: str, private_key: str) -> Mapping[str, Any] | None:
    """What a token claims, if this key has signed it."""
    token = authorization.removeprefix("Bearer ")
    try:
        if jwt.get_unverified_header(token).get("kid") != key_id:
            return None
        claims: Mapping[str, Any] = jwt.decode(
            token,
            public_key_of(private_key),
            algorithms=["ES256"],
            audience=AUDIENCE,
            issuer=keys.issuer_id,
            # The service may live in another time than this machine, as it does in tests.
            options={"require": ["exp", "iss", "aud"], "verify_iat": False},
        )
    except jwt.PyJWTError:
        return None
    return claims


def routes(store: AppleEmulator) -> list[Route]:
    def products(*kinds: AppleKind) -> Iterator[AppleProduct]:
        return (product for product in store.books.products.values() if product.kind in kinds)

    def groups(_: str) -> Found:
        names = dict.fromkeys(product.group for product in products(AppleKind.SUBSCRIPTION))
        return [_resource("subscriptionGroups", _number(name), referenceName=name) for name in names], []

    def subscriptions(group: str) -> Found:
        found = [one for one in products(AppleKind.SUBSCRIPTION) if _number(one.group) == group]
        return [
            _sold("subscriptions", one, subscriptionPeriod=_word(one.period), groupLevel=one.level) for one in found
        ], []

    def in_app_purchases(_: str) -> Found:
        kinds = {AppleKind.CONSUMABLE: "CONSUMABLE", AppleKind.NON_CONSUMABLE: "NON_CONSUMABLE"}
        kinds[AppleKind.NON_RENEWING] = "NON_RENEWING_SUBSCRIPTION"
        found = []
        for one in products(*kinds):
            shown = _sold("inAppPurchases", one, inAppPurchaseType=kinds[one.kind])
            found.append(_related(shown, iapPriceSchedule=("inAppPurchasePriceSchedules", shown["id"])))
        return found, []

    def numbered(id: str) -> AppleProduct:
        [found] = [product for product in store.books.products.values() if _number(product.id) == id]
        return found

    def prices(kind: str, id: str, territories: Mapping[str, Price]) -> Found:
        point = kind.removesuffix("s").replace("Price", "PricePoint")
        found, included = [], []
        for territory, price in territories.items():
            place = f"{id}-{territory}"
            row = _resource(kind, place, startDate=None)
            found.append(_related(row, territory=("territories", territory), **{point: (f"{point}s", place)}))
            included.append(_resource("territories", territory, currency=price.currency))
            included.append(_resource(f"{point}s", place, customerPrice=f"{price.micros / MICROS:.2f}"))
        return found, included

    def priced(kind: str, of: Callable[[AppleProduct], Mapping[str, Price]]) -> Callable[[str], Found]:
        return lambda id: prices(kind, id, of(numbered(id)))

    def offers(id: str) -> Found:
        found, included = [], []
        one = numbered(id)
        terms = [(AppleDiscount.FREE_TRIAL, one.trial, 1, Price(0, one.currency))] if one.trial else []
        terms += [(one.intro.discount, one.intro.duration, one.intro.periods, one.intro.price)] if one.intro else []
        for mode, length, periods, price in terms:
            [row], belonging = prices("subscriptionPrices", id, {home: price})
            row |= {"type": "subscriptionIntroductoryOffers", "id": f"{id}-{mode}"}
            row["attributes"] |= {"offerMode": str(mode), "duration": _word(length), "numberOfPeriods": periods}
            found.append(row)
            included += belonging
        return found, included

    app, home = f"/v1/apps/{store.app.app_apple_id}", store.app.storefront
    schedule = "/v1/inAppPurchasePriceSchedules/{id}"
    lists = {
        f"{app}/subscriptionGroups": groups,
        "/v1/subscriptionGroups/{id}/subscriptions": subscriptions,
        f"{app}/inAppPurchasesV2": in_app_purchases,
        "/v1/subscriptions/{id}/prices": priced("subscriptionPrices", lambda one: {home: one.price, **one.elsewhere}),
        "/v1/subscriptions/{id}/introductoryOffers": offers,
        f"{schedule}/manualPrices": priced("inAppPurchasePrices", lambda one: {home: one.price}),
        f"{schedule}/automaticPrices": priced("inAppPurchasePrices", lambda one: one.elsewhere),
    }

    busy = _error(429, "RATE_LIMIT_EXCEEDED", "The request rate limit was reached.")

    def guarded(read: Any) -> Handler:
        async def answer(request: Request) -> Response:
            keys = store.keys
            shown = request.headers.get("authorization", "")
            if claims_of(shown, keys, keys.connect_key_id, keys.connect_private_key) is None:
                return _error(401, "NOT_AUTHORIZED", "Authentication credentials are missing or invalid.")
            try:
                found, included = read(str(request.path_params.get("id", "")))
            except ValueError:
                return _error(404, "NOT_FOUND", "The specified resource does not exist")
            return _page(request, found, included)

        return faulty(store.dice, answer, busy=bytes(busy.body))

    return [Route(path, guarded(read), methods=["GET"]) for path, read in lists.items()]


def _page(request: Request, found: list[dict[str, Any]], included: Iterable[dict[str, Any]]) -> Response:
    query = request.query_params
    start = int(query.get("cursor", "0"))
    end = start + min(int(query.get("limit", "50")), _LARGEST_PAGE)
    links = {"self": str(request.url)}
    if end < len(found):
        links["next"] = str(request.url.include_query_params(cursor=end))
    unique = {(one["type"], one["id"]): one for one in included} if query.get("include") else {}
    return JSONResponse({"data": found[start:end], "included": list(unique.values()), "links": links})


def _sold(type: str, product: AppleProduct, **attributes: Any) -> dict[str, Any]:
    state = "APPROVED" if product.on_sale else "DEVELOPER_REMOVED_FROM_SALE"
    names = {"name": product.id, "productId": product.id}
    return _resource(type, _number(product.id), **names, state=state, **attributes)


def _resource(type: str, id: str, **attributes: Any) -> dict[str, Any]:
    return {"type": type, "id": id, "attributes": attributes, "relationships": {}}


def _related(resource: dict[str, Any], **related: tuple[str, str]) -> dict[str, Any]:
    named = {name: {"data": {"type": type, "id": id}} for name, (type, id) in related.items()}
    return {**resource, "relationships": named}


def _number(name: str) -> str:
    """Apple numbers what has a name here."""
    return str(6_000_000_000 + zlib.crc32(name.encode()))


def _word(length: Duration | None) -> str | None:
    return _LENGTHS.get(length) if length is not None else None


def _error(status: int, code: str, title: str) -> Response:
    return JSONResponse({"errors": [{"status": str(status), "code": code, "title": title}]}, status)
