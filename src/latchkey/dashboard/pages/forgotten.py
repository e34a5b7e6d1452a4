"""A forgotten password: asks for a mail with a link to choose a new one.

The answer is the same for every address, and so is the work: whether there is such an account is found out later, when
the mail is sent.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from latchkey.dashboard.page import Needs, Pages, Visit
from latchkey.domain.refusal import Invalid
from latchkey.domain.team.account import checked_email
from latchkey.usecases.mail.outbox import Mail

pages = Pages()


@pages.get("/forgotten", Needs.NOTHING)
async def show(visit: Visit) -> Response:
    _mail(visit)
    return visit.page("forgotten.html", asked=False, error="", email="")


@pages.post("/forgotten", Needs.NOTHING, "account.reset_asked_for")
async def ask(visit: Visit) -> Response:
    mail, typed = _mail(visit), visit.form.text("email")
    try:
        email = checked_email(typed)
    except Invalid as refusal:
        # It may well be a password, so it is neither shown nor logged.
        visit.audit("not an e-mail address", refusal=refusal.message)
        return visit.page("forgotten.html", 400, asked=False, error=refusal.message, email="")
    visit.actor = email
    visit.audit(email)
    await mail.ask_for_reset(email, visit.address, visit.now)
    return visit.page("forgotten.html", asked=True, error="", email=email)


def _mail(visit: Visit) -> Mail:
    if visit.services.mail is None:
        raise HTTPException(404, "No mail is set up here. Ask an owner of your project for a new link.")
    return visit.services.mail
