"""Access control: every page, requested by everybody who must not see it. New pages are covered automatically."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import product
from urllib.parse import urljoin, urlsplit

import pytest
from starlette.routing import Route, compile_path
from structlog.testing import capture_logs

from latchkey.dashboard.page import Needs, Page
from latchkey.process import dashboard_application as application
from latchkey.process.dashboard_application import EVERY_PAGE, HEADERS
from latchkey.subjects.accounts.rules import Permission, Role, may
from latchkey.subjects.accounts.usecases import accounts, sessions, team
from latchkey.subjects.audit import usecases as audit
from latchkey.subjects.projects import usecases as projects
from tests.dashboard.asking import HOST, Person, known, somebody
from tests.dashboard.full_project import paths_of_a_full_project
from tests.dashboard.site import Site
from tests.dashboard.tab import BUTTONS, Tab
from tests.http.client import Reply
from tests.http.doings import count_rows

POSTS = [page for page in EVERY_PAGE if page.method == "POST"]
IN_PROJECT = [page for page in EVERY_PAGE if page.in_project]
GUARDED = [page for page in EVERY_PAGE if page.needs is not Needs.NOTHING]
# Pages that need no session: signing in, and static files. Add a page only with a reason.
OPEN = {
    "GET /dashboard/static/{name}",
    "GET /dashboard/sign-in",
    "POST /dashboard/sign-in",
    # A forgotten password.
    "GET /dashboard/forgotten",
    "POST /dashboard/forgotten",
    # The half of a sign-in, which has a cookie of its own.
    "GET /dashboard/sign-in/code",
    "POST /dashboard/sign-in/code",
    "GET /dashboard/invitations/{token}",
    "POST /dashboard/invitations/{token}",
    "GET /dashboard/sign-in/openid",
    "GET /dashboard/sign-in/openid/return",
    # The link of a mail, for whoever has it.
    "GET /dashboard/alerts/stop/{token}",
    "POST /dashboard/alerts/stop/{token}",
    # For the buyers of purchase links, who have no account here.
    "GET /buy/{link_id}",
    "GET /buy/{link_id}/checkout",
    "GET /buy/{link_id}/done/{checkout_id}",
    "GET /buy/redeem/{token}",
}
# Only owners change the team.
OWNERS_ONLY = re.compile(r"/team/")


def called(page: Page) -> str:
    return f"{page.method} {page.path}"


@dataclass
class Cast:
    site: Site
    owner: Person
    nobody: Person
    by_role: dict[Role, Person]
    # Owns a project, but another one.
    neighbour: Person

    def path(self, page: Page, project_id: str | None = None, filling: str = "some-thing") -> str:
        return re.sub(
            r"\{([^}]+)\}",
            lambda name: (project_id or self.site.project_id) if name[1] == "project_id" else filling,
            page.path,
        )

    async def ask(self, person: Person, page: Page, **headers: str) -> Reply:
        path = self.path(page)
        return await (person.get(path, **headers) if page.method == "GET" else person.post(path, None, **headers))


@pytest.fixture(scope="module")
async def cast(site: Site) -> Cast:
    now = site.clock.now
    by_role = {role: await somebody(site, role) for role in Role}
    other = await projects.create_project(site.database, "Next door", now)
    account = await accounts.create_account(site.database, "neighbour@example.com", now)
    await team.add_member(site.database, other.id, account.email, Role.OWNER, now)
    token = await sessions.open_session(site.database, account.id, "127.0.0.1", "a test", now)
    return Cast(site, by_role[Role.OWNER], Person(site), by_role, await known(site, token))


async def state(site: Site) -> tuple[dict[str, int], int]:
    """How many rows there are, and how many changes the audit log says were made."""
    return await count_rows(site), await site.database.pool.fetchval(
        "select count(*) from audit_entries where outcome = 'done'"
    )


def is_a_page(reply: Reply) -> None:
    """Every reply is one of our pages or a redirect, and has the security headers."""
    for name, value in HEADERS:
        assert reply.headers.get(name.decode()) == value.decode(), name
    assert "cache-control" in reply.headers
    assert reply.status < 500, reply
    if reply.status >= 400:
        assert reply.headers["content-type"].startswith("text/html")
        assert b"<h1>" in reply.body
        assert b"Traceback" not in reply.body


def test_what_anybody_may_see_is_a_short_list() -> None:
    assert {called(page) for page in EVERY_PAGE if page.needs is Needs.NOTHING} <= OPEN


def test_no_page_hides_another_and_every_change_has_a_name() -> None:
    names = [called(page) for page in EVERY_PAGE]
    assert len(names) == len(set(names))
    assert len(names) >= 20
    for page in POSTS:
        assert page.action is not None
        assert re.fullmatch(r"[a-z_]+\.[a-z_]+", page.action), page
    for page in EVERY_PAGE:
        assert page.in_project == ("{project_id}" in page.path), page
        if page.in_project:
            assert page.path.startswith("/dashboard/projects/{project_id}"), page


def test_the_team_is_the_owners_business_and_no_change_needs_less_than_a_grant() -> None:
    for page in POSTS:
        if OWNERS_ONLY.search(page.path):
            assert page.needs is Needs.OWN, page
        # What a member is told of concerns nobody else.
        assert page.needs is not Needs.READ or page.action in {"alerts.changed", "alerts.tested"}, page


@pytest.fixture
async def unchanged(cast: Cast) -> AsyncIterator[None]:
    before = await state(cast.site)
    yield
    assert await state(cast.site) == before


@pytest.mark.usefixtures("unchanged")
async def test_who_is_signed_out_is_sent_to_the_sign_in(cast: Cast) -> None:
    for page, person in product(GUARDED, (cast.nobody, Person(cast.site, "made-up-token", "x"))):
        reply = await cast.ask(person, page)
        is_a_page(reply)
        if page.method == "GET":
            assert reply.status == 303, page
            assert reply.headers["location"].startswith("/dashboard/sign-in"), page
        else:
            assert reply.status == 401, page


@pytest.mark.usefixtures("unchanged")
async def test_a_role_that_may_not_is_refused_and_nothing_changes(cast: Cast) -> None:
    for page, (role, person) in product(IN_PROJECT, cast.by_role.items()):
        if not may(role, Permission(page.needs)):
            reply = await cast.ask(person, page)
            is_a_page(reply)
            assert reply.status == 403, (role, page)
            assert role.encode() in reply.body


@pytest.mark.usefixtures("unchanged")
async def test_a_project_of_others_is_not_there(cast: Cast) -> None:
    for page in IN_PROJECT:
        reply = await cast.ask(cast.neighbour, page)
        is_a_page(reply)
        assert reply.status == 404, page
        # The reply is the same as for a project that does not exist.
        path = cast.path(page, "proj_that_is_not_there")
        absent = await (cast.neighbour.get(path) if page.method == "GET" else cast.neighbour.post(path))
        assert (absent.status, absent.body) == (reply.status, reply.body), page


@pytest.mark.usefixtures("unchanged")
async def test_a_form_that_is_not_ours_changes_nothing(cast: Cast) -> None:
    owner = cast.owner
    for page in POSTS:
        path = cast.path(page)
        if page.one_click:
            # Mail programs may send anything; without the secret of its path it is nothing.
            assert (await owner.post(path, None, origin="https://evil.example")).status == 404
            continue
        for foreign in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://["},
            {"origin": f"https://{HOST}.evil.example"},
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site"},
        ):
            reply = await owner.post(path, None, **foreign)
            is_a_page(reply)
            assert reply.status == 403, (page, foreign)
        for form in ({"csrf": ""}, {"csrf": cast.neighbour.csrf}, {"csrf": owner.csrf[:-1]}):
            reply = await owner.post(path, form)
            is_a_page(reply)
            assert reply.status == 403, (page, form)
        for kind in ("application/json", "multipart/form-data; boundary=x", "text/plain", None):
            reply = await owner.ask("POST", path, body=f"csrf={owner.csrf}".encode(), content_type=kind)
            is_a_page(reply)
            assert reply.status == 415, (page, kind)
        for body in (b"\xff\xfe", b"csrf=%ff%fe", b"a&" * 20_000):
            reply = await owner.ask("POST", path, body=body)
            is_a_page(reply)
            assert reply.status in {400, 403}, (page, body[:20])


async def test_names_of_nothing_and_empty_forms_are_answered_with_a_page(cast: Cast) -> None:
    """Requested by an owner, who may do everything: no reply is a 5xx."""
    for page in EVERY_PAGE:
        if "/sessions/end" in page.path or page.path.endswith("/sign-out"):
            continue  # they end the session that is used here; test_sign_in.py tests them
        for filling in ("some-thing", "%3Cscript%3E", "x" * 300, "..", "%E2%80%AE%F0%9F%91%BB", "%01%7F"):
            path = cast.path(page, filling=filling)
            reply = await (cast.owner.get(path) if page.method == "GET" else cast.owner.post(path))
            if "static" not in page.path or reply.status >= 400:
                is_a_page(reply)
            assert b"<script>" not in reply.body, page
            if "{" not in page.path.replace("{project_id}", ""):
                break


async def test_every_place_opens_for_everybody_in_the_project(cast: Cast) -> None:
    places = [page for page in IN_PROJECT if page.method == "GET" and page.path.count("{") == 1]
    for page, (role, person) in product(places, cast.by_role.items()):
        if may(role, Permission(page.needs)):
            reply = await cast.ask(person, page)
            # Some need a query parameter, and answer 400.
            assert reply.status not in {401, 403, 404}, (role, reply)
            is_a_page(reply)


async def test_no_role_is_shown_a_form_or_a_link_that_it_may_not_use(cast: Cast) -> None:
    targets = [(page.method, compile_path(page.path)[0], page.needs) for page in EVERY_PAGE]
    paths = await paths_of_a_full_project(cast.site)
    assert len(paths) > 40
    # An owner may use everything.
    for path, role in product(paths, [role for role in Role if role is not Role.OWNER]):
        page = await Tab(cast.by_role[role]).open(path)
        if page.status == 403:
            continue
        assert page.status == 200, (role, path)
        offered = [("GET", str(link["href"])) for link in page.soup.select("main a[href]")]
        offered += [page.sent_by(button) for button in page.soup.select(f"main {BUTTONS}")]
        for method, target in offered:
            url = urlsplit(urljoin(page.path, target))
            if not url.netloc and url.path.startswith("/dashboard/projects"):
                needs = next(needs for by, place, needs in targets if by == method and place.match(url.path))
                assert may(role, Permission(needs)), (role, path, method, target)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/dashboard/nowhere", 404),
        ("GET", "/dashboard/", 404),
        ("PUT", "/dashboard/sign-in", 405),
        ("DELETE", "/dashboard/account", 405),
        ("GET", f"/dashboard/static/{'.' * 2}/settings.py", 404),
        ("GET", "/dashboard/static/nothing.js", 404),
        # A path that cannot be read.
        ("GET", "/dashboard/static/%2e%2e%2fform.py", 404),
        ("GET", "/dashboard/invitations/a%00b", 404),
        ("GET", "/dashboard/projects/proj_demo/customers/%00", 404),
        ("GET", "/dashboard/%zz", 404),
    ],
)
async def test_what_is_not_there_says_so_and_is_guarded_too(cast: Cast, method: str, path: str, status: int) -> None:
    reply = await cast.nobody.ask(method, path)
    assert reply.status == status
    is_a_page(reply)


async def test_a_form_that_is_too_large_is_refused_before_it_is_read_whole(cast: Cast) -> None:
    announced = await cast.owner.ask("POST", "/dashboard/sign-in", headers={"content-length": "99999999"})
    assert announced.status == 413
    sent = await cast.owner.ask("POST", "/dashboard/sign-in", body=b"x" * 1_100_000)
    assert sent.status == 413
    is_a_page(sent)


async def test_a_page_that_breaks_tells_nothing_but_an_id_and_keeps_the_headers(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(sessions, "stays", broken)
    with capture_logs() as said:
        reply = await cast.owner.get("/dashboard/account")
    assert reply.status == 500
    assert [line["event"] for line in said if line["log_level"] == "error"] == ["page failed"]
    assert b"secret inside" not in reply.body
    assert reply.headers["x-request-id"].encode() in reply.body
    for name, value in HEADERS:
        assert reply.headers.get(name.decode()) == value.decode()


async def test_a_change_that_breaks_midway_leaves_its_beginning_in_the_audit_log(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = "select outcome, actor from audit_entries where action = 'account.sessions_ended' order by position"

    async def broken(*_: object) -> None:
        outcome, actor = (await cast.site.database.pool.fetch(entries))[-1]
        # The entry is written before the action, so that no action can be missing in the log.
        assert (outcome, actor) == ("begun", cast.owner.email)
        raise RuntimeError("the lights went out")

    monkeypatch.setattr(sessions, "end_other_stays", broken)
    # Writing the outcome fails too.
    monkeypatch.setattr(audit, "finish", broken)
    with capture_logs():
        assert (await cast.owner.post("/dashboard/account/sessions/end")).status == 500
    outcome, actor = (await cast.site.database.pool.fetch(entries))[-1]
    assert (outcome, actor) == ("begun", cast.owner.email)


async def test_strict_transport_security_is_for_public_names_only(cast: Cast) -> None:
    public = await cast.nobody.ask("GET", "/dashboard/sign-in", headers={"host": "keys.example.com"})
    assert public.headers["strict-transport-security"] == "max-age=31536000"
    for host in ("localhost:8443", "127.0.0.1:8443", "[::1]:8443", "keys.test"):
        reply = await cast.nobody.ask("GET", "/dashboard/sign-in", headers={"host": host})
        assert "strict-transport-security" not in reply.headers


def test_the_application_serves_these_pages_and_no_others(cast: Cast) -> None:
    served = {
        f"{method} {route.path}"
        for route in cast.site.dashboard[0]._app.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == {called(page) for page in application.EVERY_PAGE}


async def test_the_bare_address_leads_a_browser_to_the_pages(site: Site) -> None:
    for method in ("GET", "HEAD"):
        led = await Person(site).ask(method, "/")
        assert (led.status, led.headers["location"], led.body) == (307, "/dashboard", b"")
    assert (await Person(site).post("/")).status == 404


async def test_a_page_that_does_not_exist_has_the_menu_and_the_search_of_a_project_of_ones_own(cast: Cast) -> None:
    below = f"/dashboard/projects/{cast.site.project_id}"
    for path in ("/nothing-here", "/webhooks/wh_none"):
        mine = await cast.by_role[Role.DEVELOPER].get(below + path)
        assert (mine.status, b'role="search"' in mine.body, b'aria-label="Project"' in mine.body) == (404, True, True)
        for other in (cast.neighbour, Person(cast.site)):
            theirs = await other.get(below + path)
            assert b'role="search"' not in theirs.body
