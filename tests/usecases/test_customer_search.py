"""Finding customers by id, alias, e-mail address or transaction, and the pages of their events."""

from msgspec.structs import replace

from latchkey.database.sql import query
from latchkey.domain.customers.customer import Attribute
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.subscription import Cause, Subscription
from latchkey.engine.changes import Change
from latchkey.subjects.customers.usecases.edits import set_attributes
from latchkey.subjects.customers.usecases.erasure import erase
from latchkey.subjects.customers.usecases.identities import log_in, transfer
from latchkey.subjects.customers.usecases.profile import timeline
from latchkey.subjects.demo.usecases.project import add_catalog
from latchkey.subjects.projects.usecases import create_project
from latchkey.subjects.search.usecases import By, SearchResults, search
from tests.domain.shop import subscribed
from tests.usecases.conftest import NOON, Shop

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


async def note(shop: Shop, user: str, email: str, later: int = 0) -> None:
    attribute = {"$email": Attribute(email, shop.time + later)}
    await set_attributes(shop.changes, shop.project_id, user, attribute, create=True)


async def find(shop: Shop, text: str, *, everything: bool = False, limit: int = 50) -> SearchResults:
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
        assert await find(shop, text) == SearchResults([])
    assert await find(shop, "test_1_a") == SearchResults([], erased=True)


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
        assert await find(shop, text) == SearchResults([])
        assert await named(other, text) == ["ann"]


async def test_nonsense_finds_nobody(shop: Shop) -> None:
    await note(shop, "ann", "ann@example.com")
    for text in ("", "   ", "x" * 10_000, "a\x1f", "a\x00", "\U0010ffff"):
        assert await find(shop, text) == SearchResults([])


async def test_a_search_that_finds_too_many_says_so(shop: Shop) -> None:
    for number in range(5):
        await note(shop, f"user_{number}", "")
    found = await find(shop, "user", limit=3)
    assert (len(found.matches), found.more) == (3, True)


INDEX = "select transaction_id, store_id from purchase_transactions where project_id = $1 order by transaction_id"


def apple(renewals: int = 0) -> Subscription:
    """Apple numbers every transaction anew, so the id of a renewal does not say which purchase it renews."""
    first = replace(subscribed(now=NOON).current, id="2000000100")
    later = [
        replace(first, id=f"20000001{number}5", number=number, cause=Cause.RENEWAL, purchased_at=NOON + number * DAY)
        for number in range(1, renewals + 1)
    ]
    return replace(subscribed(now=NOON), store="app_store", id="2000000100", periods=(first, *later))


async def take(shop: Shop, seen: Subscription, user: str = "alice") -> None:
    change = Change(
        project_id=shop.project_id,
        app_user_id=user,
        apply=lambda situation: take_in(situation.customer, seen, situation.now),
        create=True,
        claims=frozenset({(seen.store, seen.id)}),
    )
    await shop.changes.make(change)


async def indexed(shop: Shop) -> list[tuple[str, str]]:
    return [tuple(row) for row in await shop.database.pool.fetch(INDEX, shop.project_id)]


RENEWALS = [("2000000115", "2000000100"), ("2000000125", "2000000100")]


async def test_a_period_with_an_id_of_its_own_is_indexed_once(shop: Shop) -> None:
    await take(shop, apple())
    assert await indexed(shop) == []
    await take(shop, apple(1))
    await take(shop, apple(2))
    await take(shop, apple(2))
    assert await indexed(shop) == RENEWALS
    found = await search(shop.database, shop.changes.catalogs, shop.project_id, "2000000125", shop.time)
    assert [match.view.customer.app_user_id for match in found.matches] == ["alice"]


async def key_of(shop: Shop, user: str) -> int:
    key: int = await shop.database.pool.fetchval(query("customers_by_whole_id"), shop.project_id, [user])
    return key


async def pages(shop: Shop, user: str, limit: int) -> list[list[str]]:
    """The ids of every page, until there are no more."""
    found, before, key = [], None, await key_of(shop, user)
    while True:
        page = await timeline(shop.database, shop.project_id, key, before=before, limit=limit)
        found.append([one.id for one in page.happenings])
        before = page.before
        if before is None:
            return found


async def test_it_goes_back_page_after_page_also_into_the_time_before_a_merge(shop: Shop) -> None:
    await shop.show(ANONYMOUS, "test_1_a", "pro_monthly")
    await shop.show("alice", "test_1_b", "coins_100")
    await shop.wait(40 * DAY)
    await shop.show("alice", "test_1_c", "coins_100")
    await shop.show(ANONYMOUS, "test_1_d", "coins_100")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "alice")
    await shop.wait(40 * DAY)
    everything = [event.id for event in await shop.events("alice")]
    assert len(everything) > 6
    for limit in (1, 2, 3, 100):
        found = await pages(shop, "alice", limit)
        assert [id for page in found for id in page] == everything[::-1]
        assert all(len(page) == limit for page in found[:-1])
