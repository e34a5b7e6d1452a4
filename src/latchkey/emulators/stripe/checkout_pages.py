"""What a browser sees of the Stripe emulator: the hosted checkout page, and a stand-in for Stripe.js.

Stripe.js asks with the publishable key and the client secret of one object, in a form, from any page. The hosted page
(`/pay/cs_...`) needs no script."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from latchkey.domain.formats import money
from latchkey.domain.money.amounts import DECIMALS
from latchkey.domain.refusal import Refusal
from latchkey.emulators.stripe import stripe_writes
from latchkey.emulators.stripe.stripe_books import CheckoutSession, StripeBooks, decimals_of
from latchkey.emulators.stripe.stripe_catalog_objects import session as session_resource
from latchkey.emulators.stripe.stripe_emulator import StripeEmulator
from latchkey.emulators.stripe.stripe_queries import StripeError, parse

_SCRIPT = Path(__file__).with_name("stand_in.js")
_LARGEST_FORM = 16 * 1024
# The release of Stripe.js whose name the script has, unless its address names another.
_RELEASE = "v3"
# Stripe asks for it where the seller has not named it.
_EMAIL = "<label>Email <input type=email name=email autocomplete=email required></label>"
_DOCUMENT = Path(__file__).with_name("hosted_page.html")


def routes(store: StripeEmulator) -> list[BaseRoute]:
    pages = _Pages(store)
    return [
        Route("/v3/", pages.script, methods=["GET"]),
        Route("/{release}/stripe.js", pages.script, methods=["GET"]),
        Route("/pay/{id}", pages.guarded(pages.page), methods=["GET"]),
        Route("/pay/{id}", pages.guarded(pages.pay), methods=["POST"]),
    ]


class _Pages:
    def __init__(self, store: StripeEmulator) -> None:
        self._store = store

    def guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except StripeError as error:
                return _refused(request, error.message, error.status)
            except Refusal as error:
                return _refused(request, error.message, 400)

        return answer

    async def script(self, request: Request) -> Response:
        release = str(request.path_params.get("release", _RELEASE))
        if not release.isalnum():
            return Response(status_code=404)
        base = str(request.base_url).rstrip("/")
        text = _SCRIPT.read_text().replace("__API__", base).replace("__RELEASE__", release)
        return Response(text, media_type="text/javascript", headers={"Access-Control-Allow-Origin": "*"})

    async def page(self, request: Request) -> Response:
        session = self._session(request)
        if session.status != "open":
            return _page(f"<h1>This checkout is {session.status}</h1><p>You can close this page.</p>", 410)
        checkout = summary(self._store.books, session)
        amount = int(Decimal(checkout["total"]).scaleb(DECIMALS))
        due = "Nothing is due today" if checkout["free"] else money(amount, checkout["currency"].upper())
        back = f"<p><a href='{escape(str(session.cancel_url))}'>Back</a></p>" if _is_web(session.cancel_url) else ""
        return _page(
            f"<h1>{escape(checkout['name'])}</h1><p class=due>{due}</p>"
            f"<form method=post>{'' if checkout['email'] else _EMAIL}"
            f"<button class=first>{'Start trial' if checkout['free'] else 'Pay'}</button>"
            "<button name=payment_method value=pm_card_chargeDeclined>Pay with a card that is declined</button>"
            f"</form>{back}"
        )

    async def pay(self, request: Request) -> Response:
        session = self._session(request)
        body = await request.body()
        asked = parse(body[:_LARGEST_FORM].decode("utf-8", "replace"))
        self._store.do(lambda changes: stripe_writes.complete_session(changes, session.id, asked))
        url = session.success_url
        if not _is_web(url):
            return _page("<h1>Done</h1><p>You can close this page.</p>")
        return RedirectResponse(str(url).replace("{CHECKOUT_SESSION_ID}", session.id), 303)

    def _session(self, request: Request) -> CheckoutSession:
        found = self._store.books.sessions.get(str(request.path_params["id"]))
        if found is None or found.ui_mode != "hosted_page":
            raise StripeError(404, "There is no such checkout.")
        return found


def summary(books: StripeBooks, session: CheckoutSession) -> dict[str, Any]:
    shown = session_resource(books, session)
    names = [books.products[books.prices[item.price].product].name for item in session.items]
    total = Decimal(shown["amount_total"]).scaleb(-decimals_of(session.currency))
    customer = books.customers.get(session.customer or "")
    return {
        "id": session.id,
        "name": ", ".join(names) or "Card",
        "total": str(total),
        "currency": session.currency,
        "free": shown["amount_total"] == 0,
        "email": (customer.email if customer else None) or session.customer_email,
        "return_url": session.return_url,
        "status": session.status,
    }


def _is_web(url: str | None) -> bool:
    return url is not None and urlsplit(url).scheme in ("http", "https")


def _refused(request: Request, message: str, status: int) -> Response:
    """After a declined card the customer may try another one; not so where nothing was found."""
    again = "" if status == 404 else f"<p><a href='{escape(request.url.path)}'>Try again</a></p>"
    return _page(f"<h1>Not paid</h1><p role=alert>{escape(message)}</p>{again}", status)


def _page(content: str, status: int = 200) -> Response:
    document = _DOCUMENT.read_text().replace("__CONTENT__", content)
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return HTMLResponse(document, status, headers)
