"""Finding customers by id, alias, e-mail address or transaction."""

from __future__ import annotations

from latchkey.domain.customers.customer import Attribute
from latchkey.domain.instants import DAY
from latchkey.usecases.access.projects import create_project
from latchkey.usecases.customers.attributes import set_attributes
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import log_in, transfer
from latchkey.usecases.customers.search import By, Found, newest, search
from latchkey.usecases.sandbox.demo import add_catalog
from tests.usecases.conftest import NOON, Shop

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


async def note(shop: Shop, user: str, email: str, later: int = 0) -> None:
    attribute = {"$email": Attribute(email, shop.time + later)}
    await set_attributes(shop.changes, shop.project_id, user, attribute, create=True)


async def find(shop: Shop, text: str, *, everything: bool = False, limit: int = 50) -> Found:
    return await search(
        shop.database, shop.changes.catalogs, shop.project_id, text, shop.time, everything=everything, limit=limit
    )


async def named(shop: Shop, text: str, *, everything: bool = False) -> list[str]:
    found = await find(shop, text, everything=everything)
    return [one.view.customer.app_user_id for one in found.matches]


async def kept(shop: Shop) -> list[tuple[str, int]]:
    rows = await shop.database.pool.fetch("select email, customer_id from customer_emails order by email")
    return [(row["email"], row["customer_id"]) for row in rows]


async def test_a_whole_id_is_the_answer_and_its_longer_namesakes_are_found_on_request(shop: Shop) -> None:
    for user in ("ann", "Anna", "bob", "annika"):
        await note(shop, user, "")
    found = await find(shop, " ann ")
    assert ([one.matched for one in found.matches], found.whole) == (["ann"], True)
    assert await named(shop, "AN") == ["ann", "Anna", "annika"]
    assert await named(shop, "ann", everything=True) == ["ann", "Anna", "annika"]
    assert await named(shop, "nn") == []


async def test_an_id_is_found_as_it_was_typed_also_with_signs_that_sql_knows(shop: Shop) -> None:
    odd = (" led by a space", "100%_sure", 'it\'s "quoted"', "back\\slash", "\u202eevil", "münchen", "🦊 fox", "...")
    for user in odd:
        await note(shop, user, "")
    for user in odd:
        assert await named(shop, user) == [user]
        assert user in await named(shop, user.strip()[:2], everything=True) or user.startswith(" ")
    assert await named(shop, "%") == []
    assert await named(shop, "1__") == []


async def test_an_email_is_found_in_any_case_whole_or_by_its_beginning(shop: Shop) -> None:
    await note(shop, "user_1", "Ada.Lovelace@Example.com")
    await note(shop, "user_2", "ada.lovelace@example.com")
    await note(shop, "user_3", "ada@example.com")
    found = await find(shop, "ADA.lovelace@example.COM")
    assert {one.view.customer.app_user_id for one in found.matches} == {"user_1", "user_2"}
    assert {one.by for one in found.matches} == {By.EMAIL}
    assert sorted(await named(shop, "ada")) == ["user_1", "user_2", "user_3"]


async def test_an_email_follows_every_change_of_the_attribute(shop: Shop) -> None:
    await note(shop, "ann", "old@example.com")
    await note(shop, "ann", "new@example.com", later=1)
    assert await named(shop, "old@example.com") == []
    assert await named(shop, "new@example.com") == ["ann"]
    await note(shop, "ann", "NEW@example.com", later=2)
    assert await named(shop, "new@example.com") == ["ann"]
    await note(shop, "ann", "", later=3)
    assert await kept(shop) == []


async def test_an_email_goes_along_when_customers_become_one(shop: Shop) -> None:
    await note(shop, ANONYMOUS, "late@example.com", later=5)
    await note(shop, "ann", "early@example.com")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ann")
    assert await named(shop, "late@example.com") == ["ann"]
    assert [email for email, _ in await kept(shop)] == ["late@example.com"]
    assert await named(shop, ANONYMOUS) == ["ann"]


async def test_an_erased_person_is_found_by_nothing_and_their_transaction_says_so(shop: Shop) -> None:
    await note(shop, "ann", "ann@example.com")
    await shop.show("ann", "test_1_a", "pro_monthly")
    await erase(shop.changes, shop.project_id, "ann")
    assert await kept(shop) == []
    for text in ("ann", "ann@example.com"):
        assert await find(shop, text) == Found([])
    assert await find(shop, "test_1_a") == Found([], erased=True)


async def test_a_transaction_is_found_by_its_purchase_and_by_every_period(shop: Shop) -> None:
    await shop.show("ann", "test_1_a", "pro_monthly")
    await shop.show("bob", "test_1_b", "coins_100")
    await shop.wait(40 * DAY)
    for text in ("test_1_a", "test_1_a.1"):
        found = await find(shop, text)
        assert [(one.view.customer.app_user_id, one.by) for one in found.matches] == [("ann", By.TRANSACTION)]
    assert await named(shop, "test_1_b") == ["bob"]
    assert await named(shop, "test_1_a.77") == []
    await transfer(shop.changes, shop.project_id, "ann", "bob")
    assert await named(shop, "test_1_a.1") == ["bob"]


async def test_another_project_is_never_looked_into(shop: Shop) -> None:
    await create_project(shop.database, "Other", NOON, project_id="proj_shop2")
    await add_catalog(shop.database, "proj_shop2", NOON)
    other = Shop(shop.database, "proj_shop2")
    await note(other, "ann", "ann@example.com")
    await other.show("ann", "test_1_a", "pro_monthly")
    for text in ("ann", "an", "ann@example.com", "test_1_a"):
        assert await find(shop, text) == Found([])
        assert await named(other, text) == ["ann"]


async def test_nonsense_finds_nobody(shop: Shop) -> None:
    await note(shop, "ann", "ann@example.com")
    for text in ("", "   ", "x" * 10_000, "a\x1f", "a\x00", "\U0010ffff"):
        assert await find(shop, text) == Found([])


async def test_the_list_begins_with_the_newest_and_goes_on_where_it_ended(shop: Shop) -> None:
    for number in range(7):
        await note(shop, f"user_{number}", "")
    first = await newest(shop.database, shop.changes.catalogs, shop.project_id, shop.time, limit=4)
    assert [view.customer.app_user_id for view in first.views] == ["user_6", "user_5", "user_4", "user_3"]
    rest = await newest(shop.database, shop.changes.catalogs, shop.project_id, shop.time, before=first.before, limit=4)
    assert [view.customer.app_user_id for view in rest.views] == ["user_2", "user_1", "user_0"]
    assert rest.before is None


async def test_a_search_that_finds_too_many_says_so(shop: Shop) -> None:
    for number in range(5):
        await note(shop, f"user_{number}", "")
    found = await find(shop, "user", limit=3)
    assert (len(found.matches), found.more) == (3, True)
