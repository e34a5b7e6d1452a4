"""What the buyer of a purchase link sees: what is sold, the way to the payment, and what was bought."""

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from latchkey.domain.instants import DAY, HOUR, MINUTE
from latchkey.domain.user_id import is_anonymous
from latchkey.process.dashboard_application import POLICY
from latchkey.stores.errors import ActionRefused, CredentialsRefused, StoreDown
from latchkey.stores.selling import CheckoutState
from latchkey.subjects.checkout.usecases.checkouts import KEPT, prune
from latchkey.subjects.purchase_intake.usecases import store_connections
from tests.dashboard.site import Site
from tests.http.doings import subscriber, types_told
from tests.http.management import delete, get, post
from tests.http.till import services_of
from tests.subjects.purchase_links.buyer import ADA, Buyer, buying, path_of, token_in


@pytest.fixture
async def buyer(site: Site, tmp_path: Path) -> AsyncIterator[Buyer]:
    async with buying(site, tmp_path / "mail") as made:
        yield made


async def test_a_link_shows_what_it_sells_and_leads_to_the_payment(buyer: Buyer) -> None:
    link = await buyer.link()
    page = await buyer.open(path_of(link["url"]))
    text = page.body.decode()
    assert page.status == 200
    assert "$79.99" in text
    assert "every year" in text
    assert "Web shop" in text
    assert page.headers["content-security-policy"] == POLICY
    assert "/dashboard/sign-in" not in text
    # Looking creates nothing at the provider.
    assert buyer.till.provider.orders == []
    handle, done = await buyer.begin(link)
    [order] = buyer.till.provider.orders
    assert (order.product_id, order.price.micros, order.email) == ("pro_yearly", 79_990_000, None)
    assert is_anonymous(order.app_user_id)
    assert path_of(buyer.till.provider.returns[handle].given_up) == path_of(link["url"])
    # Before the payment nobody has anything.
    assert "Nothing was paid" in (await buyer.open(done)).body.decode()
    assert (await buyer.site.v2(quote(order.app_user_id, safe=""))).status == 404


async def test_each_buyer_without_a_name_is_somebody_new(buyer: Buyer) -> None:
    link = await buyer.link()
    await buyer.begin(link)
    await buyer.begin(link)
    first, second = buyer.till.provider.orders
    assert first.app_user_id != second.app_user_id


async def test_a_known_user_has_it_at_once_and_there_is_nothing_to_redeem(buyer: Buyer) -> None:
    page = await buyer.buy(user="known-ada")
    assert "You bought" in page
    assert 'href="notes://"' in page
    assert "redemption_token" not in page
    assert "pro" in (await subscriber(buyer.site, "known-ada"))["entitlements"]
    assert await buyer.mails() == []
    # Who has it is not sold it again.
    link = await buyer.link()
    reply = await buyer.open(f"{path_of(link['url'])}/checkout?product=pro_yearly&app_user_id=known-ada")
    assert (reply.status, "bought already" in reply.body.decode()) == (409, True)


async def test_the_page_after_the_payment_opens_the_app_and_the_mail_says_the_same(buyer: Buyer) -> None:
    page = await buyer.buy()
    assert "You bought" in page
    assert token_in(page)
    assert "a***@e***.com" in page
    assert ADA not in page
    [mail] = await buyer.mails()
    assert mail["To"] == ADA
    assert mail["Subject"] == "Your purchase: Pro, yearly"
    assert "from Web shop" in mail.get_body(("plain",)).get_content()
    [token] = await buyer.mailed_tokens()
    page = (await buyer.open(f"/buy/redeem/{token}")).body.decode()
    assert token_in(page) == token


async def test_coming_back_twice_and_late_is_one_purchase_and_one_mail(buyer: Buyer) -> None:
    handle, done = await buyer.begin(await buyer.link())
    buyer.till.provider.email = ADA
    buyer.till.provider.standing[handle] = CheckoutState.PENDING
    page = (await buyer.open(done)).body.decode()
    assert "on its way" in page
    assert 'http-equiv="refresh"' in page
    buyer.till.provider.pays(handle)
    for _ in range(3):
        assert "You bought" in (await buyer.open(done)).body.decode()
    who = buyer.till.provider.orders[0].app_user_id
    assert await types_told(buyer.site, who) == ["INITIAL_PURCHASE"]
    assert len(await buyer.mails()) == 1


async def test_who_closes_the_browser_after_paying_gets_the_mail_all_the_same(buyer: Buyer) -> None:
    handle, _ = await buyer.begin(await buyer.link())
    buyer.till.provider.email = ADA
    buyer.till.provider.pays(handle)
    assert await buyer.mails() == []
    buyer.site.clock.now += MINUTE
    await services_of(buyer.site).checkouts.ask_due()
    assert len(await buyer.mails()) == 1


async def test_a_debit_that_arrives_after_weeks_brings_the_mail(buyer: Buyer) -> None:
    handle, _ = await buyer.begin(await buyer.link())
    buyer.till.provider.email = ADA
    buyer.till.provider.standing[handle] = CheckoutState.PENDING
    for _ in range(60):
        buyer.site.clock.now += 6 * HOUR
        await services_of(buyer.site).checkouts.ask_due()
        await prune(buyer.site.database, buyer.site.clock.now - KEPT)
    buyer.till.provider.pays(handle)
    buyer.site.clock.now += 6 * HOUR
    await services_of(buyer.site).checkouts.ask_due()
    assert len(await buyer.mails()) == 1


async def test_a_payment_that_a_refused_key_hides_for_days_brings_the_mail(buyer: Buyer) -> None:
    handle, _ = await buyer.begin(await buyer.link())
    provider, clock = buyer.till.provider, buyer.site.clock
    provider.email = ADA
    provider.pays(handle)
    provider.trouble = CredentialsRefused("The key was rolled.")
    for _ in range(40):
        clock.now += 6 * HOUR
        await services_of(buyer.site).checkouts.ask_due()
        await prune(buyer.site.database, clock.now - KEPT)
    provider.trouble = None
    clock.now += 6 * HOUR
    await services_of(buyer.site).checkouts.ask_due()
    assert len(await buyer.mails()) == 1


async def test_an_offering_lets_the_buyer_choose_among_what_this_app_sells(buyer: Buyer) -> None:
    offerings = (await get(buyer.site, "offerings")).json()["items"]
    link = await buyer.link(offering_id=offerings[0]["id"])
    page = (await buyer.open(path_of(link["url"]))).body.decode()
    assert "Choose" in page
    assert page.count("Continue to payment") >= 2
    await buyer.begin(link, "pro_monthly")
    assert buyer.till.provider.orders[0].offering == offerings[0]["lookup_key"]


@pytest.mark.parametrize("product", ["coins_100", "pro_yearly:cheaper", "", "nothing"])
async def test_a_link_sells_nothing_else(buyer: Buyer, product: str) -> None:
    link = await buyer.link()
    reply = await buyer.open(f"{path_of(link['url'])}/checkout?product={product}&price=0.01")
    assert (reply.status, "not sold here any more" in reply.body.decode()) == (410, True)
    assert buyer.till.provider.orders == []


async def test_an_archived_product_and_an_archived_link_say_so(buyer: Buyer) -> None:
    new = {"id": "for_a_while", "kind": "one_time", "price": 5, "currency": "USD"}
    assert (await post(buyer.site, "products", new)).status == 201
    link = await buyer.link(product_id="for_a_while")
    await delete(buyer.site, "products/for_a_while")
    for path in (path_of(link["url"]), f"{path_of(link['url'])}/checkout?product=for_a_while"):
        reply = await buyer.open(path)
        assert (reply.status, "not sold here any more" in reply.body.decode()) == (410, True)
    link = await buyer.link()
    handle, done = await buyer.begin(link)
    archived = await post(buyer.site, f"purchase_links/{link['id']}/actions/archive", {})
    assert archived.json()["archived_at"] == buyer.site.clock.now
    assert (await buyer.open(path_of(link["url"]))).status == 410
    # Who was paying has bought.
    buyer.till.provider.pays(handle)
    assert "You bought" in (await buyer.open(done)).body.decode()


@pytest.mark.parametrize(
    ("trouble", "says"),
    [(StoreDown("secret words"), "cannot be reached"), (ActionRefused("sk_test_secret"), "has to set it up")],
)
async def test_what_the_provider_says_against_it_is_not_shown(buyer: Buyer, trouble: Exception, says: str) -> None:
    link = await buyer.link()
    buyer.till.provider.trouble = trouble  # type: ignore[assignment]
    reply = await buyer.open(f"{path_of(link['url'])}/checkout?product=pro_yearly")
    assert (reply.status, says in reply.body.decode()) == (503, True)
    assert "secret" not in reply.body.decode()


async def test_an_app_without_credentials_sells_nothing_and_tells_buyers_no_details(buyer: Buyer) -> None:
    link = await buyer.link()
    await store_connections.delete(services_of(buyer.site).stores, buyer.site.project_id, buyer.till.app_id)
    buyer.site.clock.now += MINUTE
    reply = await buyer.open(f"{path_of(link['url'])}/checkout?product=pro_yearly")
    assert (reply.status, "has to set it up" in reply.body.decode()) == (503, True)
    assert "test_" not in reply.body.decode()


async def test_wrong_addresses_are_pages_without_a_way_to_the_dashboard(buyer: Buyer) -> None:
    link = path_of((await buyer.link())["url"])
    _, done = await buyer.begin(await buyer.link())
    for path, status in {
        "/buy/nothing": 404,
        "/buy/redeem/nothing": 404,
        f"/buy/redeem/{'A' * 5000}": 404,
        f"{link}/done/lkc_nothing": 404,
        f"{link}?app_user_id=null": 400,
        f"{link}/checkout?product=pro_yearly&app_user_id={'x' * 101}": 400,
    }.items():
        reply = await buyer.open(path)
        assert reply.status == status, path
        assert "/dashboard/sign-in" not in reply.body.decode()
        assert 'href="/dashboard"' not in reply.body.decode()
    # A checkout of the same app is found by any of its links; only who has its id knows it.
    assert (await buyer.open(done)).status == 200


async def test_one_address_cannot_begin_checkouts_without_end(buyer: Buyer) -> None:
    link = path_of((await buyer.link())["url"])
    statuses = [(await buyer.open(f"{link}/checkout?product=pro_yearly")).status for _ in range(22)]
    assert set(statuses) == {303, 429}
    assert statuses[-1] == 429
    buyer.site.clock.now += DAY


async def test_without_a_deep_link_the_page_says_what_to_do(site: Site, tmp_path: Path) -> None:
    async with buying(site, tmp_path / "mail", {"stripe_account_id": "acct_1"}) as buyer:
        page = await buyer.buy(email=None)
        assert "Open the app to use it" in page
        assert "redemption_token" not in page
        assert "sent this link" not in page
