"""Offer codes: how often each was redeemed, and by whom."""

from latchkey.dashboard.page import Pages, Response, Visit
from latchkey.subjects.offer_codes import usecases

pages = Pages()


@pages.get("/catalog/offer-codes")
async def list_codes(visit: Visit) -> Response:
    id = visit.query.text("code")
    code, uses = await visit.run(usecases.load_uses, id) if id else (None, [])
    codes = await visit.run(usecases.list_codes)
    return visit.page("offer_codes.html", codes=codes, code=code, uses=uses, most=usecases.MOST_USES)
