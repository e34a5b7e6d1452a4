"""Signing in through OpenID Connect: there and back with a real provider, and every way in which it can go wrong."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec.structs import replace
from playwright.async_api import expect
from pyreqwest.client import ClientBuilder
from structlog.testing import capture_logs

from latchkey.dashboard.cookie import OPENID, RETURN, SESSION, provider_of
from latchkey.subjects.accounts.rules import LASTS, Role
from latchkey.subjects.accounts.usecases import accounts
from latchkey.subjects.accounts.usecases.openid import DESCRIPTION_KEPT, KEYS_ASKED_EVERY
from tests.dashboard.asking import HOST, Person
from tests.dashboard.site import Site, Visitor
from tests.http.client import Reply
from tests.subjects.accounts.openid_provider import CLIENT_ID, CLIENT_SECRET, Book, Key, providing

START = "/dashboard/sign-in/openid"


@dataclass
class World:
    site: Site
    book: Book

    def meet_anew(self) -> None:
        """As after a restart: nothing is remembered of the provider."""
        settings = replace(
            self.site.settings,
            openid_issuer=self.book.url,
            openid_client_id=CLIENT_ID,
            openid_client_secret=CLIENT_SECRET,
            openid_name="Example Login",
            openid_extra_ca=self.site.settings.webhook_extra_ca,
        )
        self.site.dashboard[0]._app.state.openid = provider_of(settings)

    async def leave(self, next: str = "") -> tuple[dict[str, str], str]:
        """Start a sign-in; gives the parameters for the provider, and the browser's cookie."""
        reply = await Person(self.site).get(f"{START}?next={next}")
        assert reply.status == 303, reply
        assert reply.headers["location"].startswith(f"{self.book.url}/authorize?")
        name, _, value = reply.headers["set-cookie"].partition(";")[0].partition("=")
        assert name == OPENID
        assert all(word in reply.headers["set-cookie"].lower() for word in ("httponly", "secure", "samesite=lax"))
        return dict(parse_qsl(urlsplit(reply.headers["location"]).query)), value

    async def allow(self, asked: dict[str, str], answer: str = "yes") -> str:
        """The query with which the provider sends the browser back."""
        assert self.site.settings.webhook_extra_ca is not None
        builder = ClientBuilder().follow_redirects(False)
        builder = builder.add_root_certificate_pem(self.site.settings.webhook_extra_ca.read_bytes())
        async with builder.build() as client:
            sent = client.post(f"{self.book.url}/authorize").body_text(urlencode({**asked, "answer": answer}))
            response = await sent.build().send()
        there = urlsplit(response.get_header("location") or "")
        assert f"https://{there.netloc}{there.path}" == f"https://{HOST}{RETURN}"
        return there.query

    async def come_back(self, query: str, cookie: str | None) -> Reply:
        headers = {"cookie": f"{OPENID}={cookie}"} if cookie is not None else {}
        return await Person(self.site).ask("GET", f"{RETURN}?{query}", headers=headers)

    async def all_the_way(self) -> Reply:
        asked, cookie = await self.leave()
        return await self.come_back(await self.allow(asked), cookie)

    async def linked(self) -> str | None:
        account = await accounts.find_account(self.site.database, self.book.email)
        return account.openid if account else None

    async def last_audited(self) -> tuple[str, str, str]:
        row = await self.site.database.pool.fetchrow(
            "select subject, outcome, detail::text from audit_entries"
            " where action = 'account.signed_in' order by position desc limit 1"
        )
        return (row[0], row[1], row[2]) if row else ("", "", "")


@pytest.fixture
async def world(site: Site) -> AsyncIterator[World]:
    """A provider that is met for the first time and knows somebody who has an account here."""
    async with providing(site.clock, site.settings) as book:
        book.email = await site.person(Role.SUPPORT)
        book.subject = f"subject of {book.email}"
        world = World(site, book)
        world.meet_anew()
        yield world
        site.dashboard[0]._app.state.openid = None


def refused(reply: Reply, status: int, words: str) -> None:
    assert reply.status == status, reply
    assert words.encode() in reply.body.replace(b"&#39;", b"'")
    assert "Sign in</h1>" in reply.body.decode()
    assert f"{SESSION}=" not in reply.headers.get("set-cookie", "")


async def test_somebody_goes_there_and_comes_back_signed_in(world: World, stranger: Visitor) -> None:
    site = world.site
    page = await stranger.open("/settings")
    await page.get_by_role("link", name="Continue with Example Login").click()
    await page.get_by_role("button", name="Allow").click()
    await expect(page).to_have_url(site.path("/settings"))
    await expect(page.locator(".me")).to_contain_text(world.book.email)
    names = {cookie["name"] for cookie in await stranger.context.cookies()}
    assert SESSION in names
    assert OPENID not in names
    assert await world.linked() == f"{world.book.url} {world.book.subject}"
    assert await world.last_audited() == (world.book.email, "done", f'{{"through":"{world.book.url}"}}')
    # Sign out, start again, and refuse at the provider.
    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_role("link", name="Continue with Example Login").click()
    await page.get_by_role("button", name="Refuse").click()
    await expect(page.get_by_text("You were not signed in at Example Login.")).to_be_visible()
    # The browser complained only about the status 401.
    assert all("401" in complaint for complaint in stranger.complaints)
    stranger.complaints.clear()


async def test_after_the_first_time_the_provider_s_own_id_decides(world: World) -> None:
    assert (await world.all_the_way()).status == 303
    before, world.book.email = world.book.email, "renamed@example.com"
    world.book.verified = False
    assert (await world.all_the_way()).status == 303
    assert (await world.last_audited())[0] == before
    # Another person who now has the old address at the provider is refused.
    world.book.email, world.book.subject, world.book.verified = before, "somebody else", True
    refused(await world.all_the_way(), 403, "belongs to somebody else there")
    assert (await world.last_audited())[1] == "refused"


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"nonce": "another"}, "belongs to another sign-in"),
        ({"nonce": None}, "belongs to another sign-in"),
        ({"aud": "another"}, "issued for another application"),
        ({"aud": [CLIENT_ID, "another"]}, "issued for another application"),
        ({"azp": "another"}, "issued for another application"),
        ({"iss": "https://evil.example"}, "issued by somebody else"),
        ({"exp": 1_700_000_000}, "has expired"),
        ({"exp": None}, "from when to when"),
        ({"exp": "soon"}, "from when to when"),
        ({"iat": 1_900_000_000}, "from the future"),
        ({"nbf": 1_900_000_000}, "from the future"),
        ({"sub": None}, "names nobody"),
    ],
)
async def test_a_token_that_is_not_the_answer_is_not_believed(world: World, claims: dict[str, Any], words: str) -> None:
    world.book.claims = claims
    refused(await world.all_the_way(), 401, words)
    assert await world.linked() is None


async def test_a_token_for_several_applications_that_names_us_is_believed(world: World) -> None:
    world.book.claims = {"aud": [CLIENT_ID, "another"], "azp": CLIENT_ID}
    assert (await world.all_the_way()).status == 303


@pytest.mark.parametrize("verified", [False, None, "false", 1])
async def test_an_address_that_is_not_verified_links_nobody(world: World, verified: Any) -> None:
    world.book.verified = verified
    refused(await world.all_the_way(), 403, "not verified there")
    assert await world.linked() is None


async def test_an_address_that_is_no_text_links_nobody(world: World) -> None:
    world.book.claims = {"email": [world.book.email]}
    refused(await world.all_the_way(), 403, "not verified there")


async def test_a_provider_that_says_true_in_words_is_understood(world: World) -> None:
    world.book.verified = "true"
    assert (await world.all_the_way()).status == 303


async def test_who_has_no_account_here_does_not_get_one(world: World) -> None:
    for email in ("unknown@example.com", "<script>@example.com"):
        world.book.email = email
        refused(await world.all_the_way(), 403, "There is no account for")
    assert await accounts.find_account(world.site.database, "unknown@example.com") is None


async def test_an_answer_works_once_in_the_browser_that_asked(world: World) -> None:
    asked, cookie = await world.leave()
    _, other_cookie = await world.leave()
    query = await world.allow(asked)
    for wrong, words in ((None, "begun in another browser"), (other_cookie, "another sign-in"), ("junk", "begun in")):
        refused(await world.come_back(query, wrong), 401, words)
    refused(await world.come_back(query.replace("state=", "state=x"), cookie), 401, "another sign-in")
    refused(await world.come_back(f"state={asked['state']}", cookie), 401, "not an answer of Example Login")
    refused(await world.come_back(query.replace("iss=https", "iss=http"), cookie), 401, "not an answer of Example")
    good = await world.come_back(query, cookie)
    assert (good.status, good.headers["location"]) == (303, "/dashboard")
    # Replayed with the deleted cookie: the provider refuses a used code.
    refused(await world.come_back(query, cookie), 401, "did not accept this sign-in")


async def test_a_sign_in_that_took_too_long_is_begun_anew(world: World) -> None:
    asked, cookie = await world.leave()
    query = await world.allow(asked)
    world.site.clock.now += LASTS
    refused(await world.come_back(query, cookie), 401, "took too long")


async def test_a_code_stolen_on_its_way_is_worth_nothing_without_the_verifier(world: World) -> None:
    asked, _ = await world.leave()
    stolen = parse_qs(await world.allow(asked))["code"][0]
    mine, cookie = await world.leave()
    refused(await world.come_back(urlencode({"state": mine["state"], "code": stolen}), cookie), 401, "did not accept")


async def test_only_the_provider_s_own_signature_counts(world: World) -> None:
    book = world.book
    named = {"kid": book.signing.kid}
    claims = jwt.decode(book.say("nonce"), options={"verify_signature": False})
    head, body, signature = book.say("nonce").split(".")
    for token in (
        jwt.encode(claims, Key("forged", "ES256").private, "ES256", named),
        jwt.encode(claims, rsa.generate_private_key(65537, 2048), "RS256", named),
        jwt.encode(claims, "", "none", named),
        jwt.encode(claims, "with a secret that both sides would know", "HS256", named),
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        f"{head}.{body}.",
        "no token at all",
        "",
    ):
        book.token = token
        asked, cookie = await world.leave()
        reply = await world.come_back(await world.allow(asked), cookie)
        assert reply.status == 401, token
    assert await world.linked() is None


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_new_key_is_taken_as_soon_as_the_provider_publishes_it(world: World, algorithm: str) -> None:
    book, clock = world.book, world.site.clock
    assert (await world.all_the_way()).status == 303
    assert (await world.all_the_way()).status == 303
    assert book.keys_asked == 1
    book.signing = Key("second", algorithm)
    clock.now += KEYS_ASKED_EVERY
    refused(await world.all_the_way(), 401, "a key that the provider does not publish")
    book.published.append(book.signing)
    # Unknown keys do not make us ask the provider each time.
    refused(await world.all_the_way(), 401, "a key that the provider does not publish")
    assert book.keys_asked == 2
    clock.now += KEYS_ASKED_EVERY
    assert (await world.all_the_way()).status == 303
    assert book.keys_asked == 3


async def test_a_provider_that_takes_the_secret_in_the_form_gets_it_there(world: World) -> None:
    world.book.description = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert (await world.all_the_way()).status == 303


@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"issuer": "https://evil.example"}, "LATCHKEY_OPENID_ISSUER"),
        ({"token_endpoint": "http://127.0.0.1/token"}, "over https"),
        ({"token_endpoint": "https://["}, "over https"),
        ({"authorization_endpoint": None}, "over https"),
        ({"jwks_uri": 7}, "over https"),
    ],
)
async def test_a_provider_that_describes_itself_wrongly_is_not_asked(
    world: World, description: dict[str, Any], words: str
) -> None:
    world.book.description = description
    refused(await Person(world.site).get(START), 502, words)


async def test_a_provider_that_is_away_is_a_clear_page_and_passwords_go_on_working(world: World) -> None:
    world.book.broken = 503
    refused(await Person(world.site).get(START), 502, "Example Login answered 503")
    world.book.broken = 200
    for world.book.says in (b"away", b'{"issuer":"\xff"}', b'{"issuer":' + b"[" * 100_000):
        refused(await Person(world.site).get(START), 502, "Example Login answered something that is not JSON")
    world.book.broken = 0
    asked, cookie = await world.leave()
    query = await world.allow(asked)
    world.book.url = "https://127.0.0.1:1"
    world.meet_anew()
    refused(await Person(world.site).get(START), 502, "Example Login does not answer")
    with capture_logs() as said:
        reply = await world.come_back(query.replace("iss=", "was="), cookie)
    refused(reply, 502, "Example Login does not answer")
    assert [line for line in said if line["log_level"] == "error"] == []
    assert (await world.last_audited())[1] == "refused"
    assert b'name="password"' in reply.body


async def test_what_the_provider_says_of_itself_is_kept_for_an_hour(world: World) -> None:
    await world.leave()
    world.book.broken = 503
    await world.leave()
    world.site.clock.now += DESCRIPTION_KEPT
    refused(await Person(world.site).get(START), 502, "answered 503")


async def test_where_nothing_is_configured_there_is_no_such_way(site: Site) -> None:
    for path in (START, RETURN):
        assert (await Person(site).get(path)).status == 404
    assert b"Continue with" not in (await Person(site).get("/dashboard/sign-in")).body


async def test_no_way_leads_out_and_no_secret_is_told(world: World) -> None:
    for bad in ("//evil.example", "https://evil.example", "/v2"):
        asked, cookie = await world.leave(bad)
        assert (await world.come_back(await world.allow(asked), cookie)).headers["location"] == "/dashboard"
    with capture_logs() as said:
        asked, cookie = await world.leave("/dashboard/account")
        query = await world.allow(asked)
        reply = await world.come_back(query, cookie)
    assert reply.headers["location"] == "/dashboard/account"
    audits = str(await world.site.database.pool.fetch("select e::text from audit_entries e"))
    code = parse_qs(query)["code"][0]
    for text in (str(said), audits):
        for secret in (CLIENT_SECRET, code, cookie, asked["state"], asked["nonce"]):
            assert secret not in text
    assert CLIENT_SECRET not in repr(world.site.dashboard[0]._app.state.openid)
