"""Your own account: the password, your sessions, the second factor and its recovery codes."""

import tomllib
from functools import partial
from importlib.resources import files

import segno
from msgspec import Struct

from latchkey.dashboard.cookie import device_of
from latchkey.dashboard.page import ROOT, Needs, Pages, Response, Visit
from latchkey.domain.refusal import Refusal
from latchkey.subjects.accounts.rules import SHORTEST_PASSWORD
from latchkey.subjects.accounts.usecases import accounts, second_factor, sessions
from latchkey.subjects.api_keys.usecases import hash_of
from latchkey.subjects.mail.usecases import MailKind

_AGENTS = tomllib.loads((files(__package__) / "user_agents.toml").read_text(encoding="utf-8"))


def in_words(agent: str) -> str:
    """What is not known is left out."""
    browser = next((title for sign, title in _AGENTS["browsers"].items() if sign in agent), "")
    system = next((title for sign, title in _AGENTS["systems"].items() if sign in agent), "")
    if not browser and not system:
        return "An unknown browser"
    return f"{browser or 'An unknown browser'} on {system}" if system else browser


pages = Pages()
HERE_ACCOUNT = f"{ROOT}/account"


@pages.get("/account", Needs.ACCOUNT)
async def show_account(visit: Visit) -> Response:
    stays = [(stay, in_words(stay.agent)) for stay in await sessions.stays(visit.database, visit.account.id)]
    return visit.page("account.html", 400 if visit.refusal else 200, stays=stays)


@pages.post("/account/password", Needs.ACCOUNT, "account.password_changed", show_account)
async def change_password(visit: Visit) -> Response:
    assert visit.session is not None
    if visit.account.has_password:
        # Wrong passwords are limited here too: somebody else may use a session that was left open.
        await _check_password(visit, "old_password", "The present password is not right.")
    password, keep = visit.form.raw("new_password"), hash_of(visit.session.token)
    await accounts.set_password(visit.database, visit.account.id, password, visit.now, keep=keep)
    if visit.services.mail is not None:
        await visit.services.mail.add(MailKind.CHANGED, visit.account.email, visit.now)
    return await visit.to(HERE_ACCOUNT, "Your password is changed, and you are signed out everywhere else.")


@pages.post("/account/sessions/end", Needs.ACCOUNT, "account.sessions_ended")
async def end_others(visit: Visit) -> Response:
    assert visit.session is not None
    await sessions.end_other_stays(visit.database, visit.session)
    return await visit.to(HERE_ACCOUNT, "You are signed out everywhere else.")


@pages.post("/account/sessions/{session_id}/end", Needs.ACCOUNT, "account.session_ended")
async def end_one(visit: Visit, session_id: str) -> Response:
    visit.subject = "one session"
    await sessions.end_stay(visit.database, visit.account.id, session_id)
    return await visit.to(HERE_ACCOUNT, "That session is over.")


# Readers need an empty border of four modules.
BORDER = 4


class QrCode(Struct, frozen=True):
    # Modules on each side, with the border.
    size: int
    path: str


def qr_code(text: str) -> QrCode:
    matrix = segno.make(text, error="m", micro=False).matrix
    runs = []
    for y, row in enumerate(matrix):
        x = 0
        while x < len(row):
            start = x
            while x < len(row) and row[x]:
                x += 1
            if x > start:
                runs.append(f"M{start + BORDER} {y + BORDER}h{x - start}v1h-{x - start}z")
            x += 1
    return QrCode(len(matrix) + 2 * BORDER, "".join(runs))


NOT_RIGHT = "The password is not right."


@pages.get("/account/second-factor", Needs.ACCOUNT)
async def show(visit: Visit) -> Response:
    left = await visit.services.second_factors.codes_left(visit.account.id) if visit.account.has_second_factor else 0
    required = visit.settings.require_second_factor and visit.session is not None and not visit.session.is_openid
    return visit.page("second_factor.html", 400 if visit.refusal else 200, left=left, required=required)


@pages.post("/account/second-factor/begin", Needs.ACCOUNT, "account.second_factor_begun", show)
async def begin(visit: Visit) -> Response:
    if visit.account.has_password:
        await _check_password(visit, "password")
    return _set_up(visit, await visit.services.second_factors.begin(visit.account, visit.now))


async def show_again(visit: Visit) -> Response:
    """After a wrong code: the same QR code, while it counts."""
    made = await visit.services.second_factors.under_way(visit.account, visit.now)
    return await show(visit) if made is None else _set_up(visit, made)


@pages.post("/account/second-factor/confirm", Needs.ACCOUNT, "account.second_factor_added", show_again)
async def confirm(visit: Visit) -> Response:
    assert visit.session is not None
    codes = await visit.services.second_factors.confirm(
        visit.account,
        visit.form.text("code"),
        visit.address,
        device_of(visit, visit.account.id),
        visit.now,
        keep=hash_of(visit.session.token),
    )
    return _codes(visit, codes)


@pages.post("/account/second-factor/codes", Needs.ACCOUNT, "account.recovery_codes_made", show)
async def make_codes(visit: Visit) -> Response:
    await _prove(visit, "proof")
    return _codes(visit, await visit.services.second_factors.new_codes(visit.account.id))


@pages.post("/account/second-factor/remove", Needs.ACCOUNT, "account.second_factor_removed", show)
async def remove(visit: Visit) -> Response:
    await _prove(visit, "removal_proof")
    await second_factor.remove(visit.database, visit.account.id)
    return await visit.to(f"{ROOT}/account", "Your second factor is removed.")


async def _prove(visit: Visit, field: str) -> None:
    """A code or the password: somebody else may use a session that was left open."""
    proof = visit.form.raw(field)
    if second_factor.looks_like_code(proof):
        try:
            device = device_of(visit, visit.account.id)
            await visit.services.second_factors.check(visit.account.id, proof, visit.address, device, visit.now)
            return
        except second_factor.WrongCode:
            # Some passwords look like a recovery code.
            if not visit.account.has_password or len(proof) < SHORTEST_PASSWORD:
                raise
    await _check_password(visit, field)


async def _check_password(visit: Visit, field: str, wrong: str = NOT_RIGHT) -> None:
    device, password = partial(device_of, visit), visit.form.raw(field)
    try:
        await sessions.sign_in(visit.database, visit.account.email, password, visit.address, visit.now, device)
    except sessions.WrongCredentials:
        raise Refusal(wrong, param=field) from None


def _set_up(visit: Visit, made: second_factor.SetUp) -> Response:
    status = 400 if visit.refusal else 200
    return visit.page("second_factor_set_up.html", status, made=made, qr=qr_code(made.address))


def _codes(visit: Visit, codes: list[str]) -> Response:
    return visit.page("second_factor_codes.html", codes=codes)
