"""Team: the members of the project, their roles, and invitations."""

from starlette.responses import RedirectResponse, Response

from latchkey.dashboard.page import ROOT, Needs, Pages, Visit
from latchkey.domain.refusal import Checks, found
from latchkey.subjects.accounts import rules
from latchkey.subjects.accounts.usecases import team
from latchkey.subjects.mail.usecases import MailKind

pages = Pages()


@pages.get("/team")
async def show_team(visit: Visit) -> Response:
    members = await visit.run(team.members)
    return visit.page(
        "team.html",
        members=members,
        roles=rules.EXPLAINED,
        options=[(role, role.capitalize()) for role in rules.Role],
        usual=rules.Role.DEVELOPER,
    )


@pages.post("/team/add", Needs.OWN, "member.added", show_team)
async def add_member(visit: Visit) -> Response:
    form = visit.form
    visit.audit(form.text("email")[:200])
    with Checks() as check:
        email = check(rules.checked_email, form.text("email"))
        role = check(rules.checked_role, form.text("role"))
        name = check(form.name, "name", "")
    visit.audit(role=role)
    account, made = await visit.run(team.add_member, email, role, visit.now, name=name, by=visit.account.id)
    visit.audit(account.email)
    if account.has_password or account.openid is not None:
        return await visit.to(visit.path("team"), f"{account.email} joined. They sign in as they did before.")
    mail = visit.services.mail
    if mail is None and not made:
        how = "They have no password yet, and earlier links do not work any more. Whoever runs Latchkey can make one"
        return await visit.to(visit.path("team"), f"{account.email} joined. {how} with `latchkey user invite`.")
    if mail is None:
        return _link(visit, *await visit.run(team.new_link, account.id, visit.account.id, visit.now))
    await mail.add(MailKind.INVITATION, account.email, visit.now)
    where = f"as a file in {mail.folder}" if mail.folder else "to them"
    return await visit.to(visit.path("team"), f"{account.email} is added. A mail with a link goes {where}.")


@pages.get("/team/{account_id}", Needs.OWN)
async def show_member(visit: Visit) -> Response:
    return visit.page("member.html", member=await _member(visit), roles=rules.EXPLAINED)


@pages.post("/team/{account_id}/role", Needs.OWN, "member.role_changed", show_member)
async def change_role(visit: Visit) -> Response:
    member = await _member(visit)
    role = rules.checked_role(visit.form.needed("role"))
    visit.audit(member.account.email, role=role, before=member.role)
    await visit.run(team.set_role, member.account.id, role, visit.now)
    return await visit.to(visit.path("team"), f"{member.account.email} is {role} now.")


@pages.post("/team/{account_id}/link", Needs.OWN, "member.link_made")
async def make_link(visit: Visit) -> Response:
    member = await _member(visit)
    visit.audit(member.account.email)
    return _link(visit, *await visit.run(team.new_link, member.account.id, visit.account.id, visit.now))


@pages.confirmed("/team/{account_id}/second-factor", Needs.OWN, "member.second_factor_reset")
async def reset_second_factor(visit: Visit) -> Response:
    member = await _member(visit)
    visit.audit(member.account.email)
    await visit.run(team.reset_second_factor, member.account.id, visit.account.id)
    return await visit.to(visit.path("team"), f"{member.account.email} is not asked for a code any more.")


@pages.confirmed("/team/{account_id}/remove", Needs.OWN, "member.removed")
async def remove_member(visit: Visit) -> Response:
    member = await _member(visit)
    visit.audit(member.account.email, role=member.role)
    await visit.run(team.remove_member, member.account.id)
    if member.account.id == visit.account.id:
        return RedirectResponse(ROOT, 303)
    return await visit.to(visit.path("team"), f"{member.account.email} does not belong to this project any more.")


async def _member(visit: Visit) -> rules.Member:
    members = await visit.run(team.members)
    member = next((member for member in members if member.account.id == visit.param("account_id")), None)
    return found(member, team.NO_MEMBER, "account_id")


def _link(visit: Visit, account: rules.Account, token: str) -> Response:
    start = visit.settings.public_url.rstrip("/") or f"https://{visit.request.headers.get('host', '')}"
    link = f"{start}{ROOT}/invitations/{token}"
    return visit.page("member_link.html", account=account, link=link, lasts=rules.INVITATION_LASTS)
