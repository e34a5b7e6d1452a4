"""Your own account: the password, and your sessions."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from latchkey.dashboard.cookie import device_of
from latchkey.dashboard.page import ROOT, Needs, Pages, Visit
from latchkey.domain.refusal import Refusal
from latchkey.usecases.access import accounts, sessions
from latchkey.usecases.access.keys import hash_of

# The first that is found counts. Most browsers also claim to be the ones further down.
_BROWSERS = (
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("EdgiOS/", "Edge"),
    ("OPR/", "Opera"),
    ("OPiOS/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("DuckDuckGo/", "DuckDuckGo"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("HeadlessChrome/", "Chrome without a window"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
_SYSTEMS = (
    ("iPhone", "an iPhone"),
    ("iPad", "an iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Macintosh", "a Mac"),
    ("Linux", "Linux"),
    ("X11", "Unix"),
)


def in_words(agent: str) -> str:
    """What is not known is left out."""
    browser = next((title for sign, title in _BROWSERS if sign in agent), "")
    system = next((title for sign, title in _SYSTEMS if sign in agent), "")
    if not browser and not system:
        return "An unknown browser"
    return f"{browser or 'An unknown browser'} on {system}" if system else browser


pages = Pages()
HERE = f"{ROOT}/account"


@pages.get("/account", Needs.ACCOUNT)
async def show_account(visit: Visit) -> Response:
    return await _page(visit)


@pages.post("/account/password", Needs.ACCOUNT, "account.password_changed")
async def change_password(visit: Visit) -> Response:
    assert visit.session is not None
    try:
        if visit.account.has_password:
            # Wrong passwords are limited here too: somebody else may use a session that was left open.
            old, device = visit.form.raw("old_password"), partial(device_of, visit)
            await sessions.sign_in(visit.database, visit.account.email, old, visit.address, visit.now, device)
        password = visit.form.raw("new_password")
        keep = hash_of(visit.session.token)
        await accounts.set_password(visit.database, visit.account.id, password, visit.now, keep=keep)
        if visit.services.mail is not None:
            await visit.services.mail.tell_of_change(visit.account.email, visit.now)
    except sessions.WrongCredentials:
        return await _page(visit, 400, "The present password is not right.")
    except sessions.TooManyGuesses:
        raise
    except Refusal as refusal:
        return await _page(visit, 400, refusal.message)
    return await visit.to(HERE, "Your password is changed, and you are signed out everywhere else.")


@pages.post("/account/sessions/end", Needs.ACCOUNT, "account.sessions_ended")
async def end_others(visit: Visit) -> Response:
    assert visit.session is not None
    await sessions.end_other_stays(visit.database, visit.session)
    return await visit.to(HERE, "You are signed out everywhere else.")


@pages.post("/account/sessions/{session_id}/end", Needs.ACCOUNT, "account.session_ended")
async def end_one(visit: Visit) -> Response:
    visit.subject = "one session"
    await sessions.end_stay(visit.database, visit.account.id, visit.param("session_id"))
    return await visit.to(HERE, "That session is over.")


async def _page(visit: Visit, status: int = 200, error: str = "") -> Response:
    stays = await sessions.stays(visit.database, visit.account.id)
    return visit.page("account.html", status, stays=[(one, in_words(one.agent)) for one in stays], error=error)
