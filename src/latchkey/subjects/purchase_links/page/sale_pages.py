"""What a buyer sees: what a link sells, then the provider's page, then what was bought and how to open the app.

Nobody signs in here. The address of each page is what its visitor may do: a link sells, the id of a checkout shows that
checkout, and a token takes the purchase over in the app. All of them are only read: the SDK in the app redeems."""

import secrets
from functools import wraps
from typing import Any

from starlette.responses import RedirectResponse

from latchkey.dashboard.page import AnyHandler, Needs, Pages, Response, Visit, address, status_of
from latchkey.domain.instants import MINUTE
from latchkey.domain.refusal import Invalid, Refusal, StoreUnreachable
from latchkey.domain.user_id import problem_with
from latchkey.engine.storage.catalog.app_rows import App
from latchkey.stores.selling import CheckoutState, LinkedPage, ReturnAddresses
from latchkey.subjects.accounts.rules import network_of
from latchkey.subjects.catalog.usecases.version import load_catalog
from latchkey.subjects.checkout.rules import obfuscated
from latchkey.subjects.checkout.usecases.checkouts import NOT_SET_UP
from latchkey.subjects.checkout.usecases.steps import CheckoutProblem, CheckoutRefusal, CheckoutRequest
from latchkey.subjects.projects.usecases import load_app
from latchkey.subjects.purchase_links import usecases
from latchkey.subjects.purchase_links.rules import ROOT, Offer, PurchaseLink, opens_app

pages = Pages(ROOT)

_STATUSES: dict[int, int] = {
    CheckoutProblem.HAS_ALREADY: 409,
    CheckoutProblem.NOT_FOR_SALE: 410,
    CheckoutProblem.NO_SUCH_CHECKOUT: 404,
    CheckoutProblem.CANNOT_SELL: 503,
}


def for_buyers(handler: AnyHandler) -> AnyHandler:
    """A refusal is a page too, and not one with the way to the dashboard."""

    @wraps(handler)
    async def answer(visit: Visit, **values: str) -> Response:
        try:
            return await handler(visit, **values)
        except Refusal as refusal:
            status, words = status_of(refusal)
            if isinstance(refusal, CheckoutRefusal) and refusal.problem is CheckoutProblem.CANNOT_SELL:
                # What is missing is for the operator, whom the log tells.
                words = NOT_SET_UP
            if isinstance(refusal, CheckoutRefusal):
                status = _STATUSES.get(refusal.problem, status)
            elif isinstance(refusal, usecases.NotSold):
                status = 410
            elif isinstance(refusal, StoreUnreachable):
                status = 503
            return visit.page("sale_problem.html", status, words=words)

    return answer


async def _opened(visit: Visit, link_id: str) -> tuple[PurchaseLink, App, str | None, list[Offer]]:
    """The link, its app, who the link says is the buyer, and what is sold."""
    link, app = await usecases.open_link(visit.database, link_id)
    user = visit.query.text("app_user_id")
    if user and (problem := problem_with(user)):
        raise Invalid(problem, param="app_user_id")
    return link, app, user or None, await usecases.offers(visit.services.changes, link, app)


@pages.get("/{link_id}", Needs.NOTHING)
@for_buyers
async def show_offers(visit: Visit, link_id: str) -> Response:
    link, app, user, offers = await _opened(visit, link_id)
    buy = [(offer, address(link.path, ("checkout",), {"product": offer.product.id, "app_user_id": user}))
           for offer in offers]  # fmt: skip
    return visit.page("sale_offers.html", seller=app.title, offers=buy)


@pages.get("/{link_id}/checkout", Needs.NOTHING)
@for_buyers
async def go_to_payment(visit: Visit, link_id: str) -> Response:
    """A redirect, and not a form: a browser would not let a form of ours lead to another site."""
    link, _, user, offers = await _opened(visit, link_id)
    offer = next((one for one in offers if one.product.id == visit.query.text("product")), None)
    if offer is None:
        raise usecases.NotSold(usecases.NOT_SOLD)
    limit, network = visit.services.checkouts.limit, network_of(visit.address)
    if not limit.takes(link.project_id, user or link.id, network, visit.now):
        wait = -(-(MINUTE - visit.now % MINUTE) // 1000)
        refused = visit.page("sale_problem.html", 429, words="Too many checkouts at once. Try again in a minute.")
        refused.headers["retry-after"] = str(wait)
        return refused
    start = usecases.public_start(visit.settings.public_url, visit.request.headers.get("host", ""))
    given_up = address(start + link.path, (), {"app_user_id": user})

    def back(checkout_id: str) -> ReturnAddresses:
        return ReturnAddresses(f"{start}{link.path}/done/{checkout_id}", given_up)

    wanted = CheckoutRequest(
        product_id=offer.product.id,
        # Without a known user the purchase belongs to a new anonymous one, until the buyer redeems it in the app.
        app_user_id=user or f"$RCAnonymousID:{secrets.token_hex(16)}",
        presented_offering_identifier=offer.offering,
    )
    start_sale = visit.services.checkouts.start
    _, page = await start_sale(link.project_id, link.app_id, wanted, back, redeemable=user is None)
    assert isinstance(page, LinkedPage)
    return RedirectResponse(page.url, 303)


@pages.get("/{link_id}/done/{checkout_id}", Needs.NOTHING)
@for_buyers
async def show_purchase(visit: Visit, link_id: str, checkout_id: str) -> Response:
    """Also before the provider has told of the payment: it is asked."""
    link, app = await usecases.open_link(visit.database, link_id)
    progress = await visit.services.checkouts.status(link.project_id, link.app_id, checkout_id)
    paid, token = progress.checkout, None
    if progress.state is CheckoutState.PAID and paid.redeemable and paid.redeemed_by is None:
        token = visit.services.redemptions.token(paid)
    return await _purchase_page(
        visit,
        app,
        paid.product_id,
        token,
        state=progress.state.name.lower(),
        again=link.path,
        redeemed=paid.redeemed_by is not None,
        mailed_to=obfuscated(paid.email) if token and visit.services.mail is not None else "",
    )


@pages.get("/redeem/{token}", Needs.NOTHING)
@for_buyers
async def show_redemption(visit: Visit, token: str) -> Response:
    """The link of the mail. Programs that look at mails open it too, so it changes nothing."""
    found = await visit.services.redemptions.find(token)
    if found is None:
        return visit.page("sale_problem.html", 404, words="This link is not valid. Is the whole address there?")
    paid = found.checkout
    app = await load_app(visit.database, paid.project_id, paid.app_id)
    sent_to = await visit.services.redemptions.send_again(paid) if found.expired and visit.query.ticked("again") else ""
    return await _purchase_page(
        visit,
        app,
        paid.product_id,
        token,
        state="expired_link" if found.expired else "paid",
        again=address(f"{ROOT}/redeem", (token,), {"again": "yes"}),
        redeemed=paid.redeemed_by is not None,
        mailed_to=sent_to,
    )


async def _purchase_page(visit: Visit, app: App, product_id: str, token: str | None, **values: Any) -> Response:
    product = (await load_catalog(visit.services.changes, app.project_id)).find(product_id)
    link = app.details.get("deep_link")
    return visit.page(
        "sale_done.html",
        seller=app.title,
        bought=product.display_name if product is not None and product.display_name else product_id,
        redeems=token is not None,
        opens=opens_app(link, token) if link else "",
        help=app.details.get("support_email") or "",
        **values,
    )
