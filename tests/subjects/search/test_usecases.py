"""Finding customers by id, alias, e-mail address or transaction, and the pages of their events."""

from msgspec.structs import replace

from latchkey.database.sql import query
from latchkey.domain.customers.customer import Attribute
from latchkey.domain.customers.intake import take_in
from latchkey.domain.instants import DAY
from latchkey.domain.purchases.subscription import Cause, Subscription
from latchkey.engine.changes import Change
from latchkey.subjects.customers.usecases.edits import erase, set_attributes
from latchkey.subjects.customers.usecases.identities import log_in, transfer
from latchkey.subjects.customers.usecases.profile import timeline
from latchkey.subjects.search.usecases import By, SearchResults, search
from tests.domain.shop import subscribed
from tests.engine.fixtures import NOON, Core, new_project

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


async def note(core: Core, user: str, email: str, later: int = 0) -> None:
    attribute = {"$email": Attribute(email, core.time + later)}
    await set_attributes(core.changes, core.project_id, user, attribute, create=True)


async def find(core: Core, text: str, *, everything: bool = False, limit: int = 50) -> SearchResults:
    return await search(
        core.database, core.changes.catalogs, core.project_id, text, core.time, everything=everything, limit=limit
    )


async def named(core: Core, text: str, *, everything: bool = False) -> list[str]:
    found = await find(core, text, everything=everything)
    return [one.view.customer.app_user_id for one in found.matches]


async def kept(core: Core) -> list[tuple[str, int]]:
    rows = await core.database.pool.fetch("select email, customer_id from customer_emails order by email")
    return [(row["email"], row["customer_id"]) for row in rows]


async def test_a_whole_id_is_the_answer_and_its_longer_namesakes_are_found_on_request(core: Core) -> None:
    for user in ("ann", "Anna", "bob", "annika"):
        await note(core, user, "")
    found = await find(core, " ann ")
    assert ([one.matched for one in found.matches], found.whole) == (["ann"], True)
    assert await named(core, "AN") == ["ann", "Anna", "annika"]
    assert await named(core, "ann", everything=True) == ["ann", "Anna", "annika"]
    assert await named(core, "nn") == []


async def test_an_id_is_found_as_it_was_typed_also_with_signs_that_sql_knows(core: Core) -> None:
    odd = (" led by a space", "100%_sure", 'it\'s "quoted"', "back\\slash", "\u202eevil", "münchen", "🦊 fox", "...")
    for user in odd:
        await note(core, user, "")
    for user in odd:
        assert await named(core, user) == [user]
        assert user in await named(core, user.strip()[:2], everything=True) or user.startswith(" ")
    assert await named(core, "%") == []
    assert await named(core, "1__") == []


async def test_an_email_is_found_in_any_case_whole_or_by_its_beginning(core: Core) -> None:
    await note(core, "user_1", "Ada.Lovelace@Example.com")
    await note(core, "user_2", "ada.lovelace@example.com")
    await note(core, "user_3", "ada@example.com")
    found = await find(core, "ADA.lovelace@example.COM")
    assert {one.view.customer.app_user_id for one in found.matches} == {"user_1", "user_2"}
    assert {one.by for one in found.matches} == {By.EMAIL}
    assert sorted(await named(core, "ada")) == ["user_1", "user_2", "user_3"]


async def test_an_email_follows_every_change_of_the_attribute(core: Core) -> None:
    await note(core, "ann", "old@example.com")
    await note(core, "ann", "new@example.com", later=1)
    assert await named(core, "old@example.com") == []
    assert await named(core, "new@example.com") == ["ann"]
    await note(core, "ann", "NEW@example.com", later=2)
    assert await named(core, "new@example.com") == ["ann"]
    await note(core, "ann", "", later=3)
    assert await kept(core) == []


async def test_an_email_goes_along_when_customers_become_one(core: Core) -> None:
    await note(core, ANONYMOUS, "late@example.com", later=5)
    await note(core, "ann", "early@example.com")
    await log_in(core.changes, core.project_id, ANONYMOUS, "ann")
    assert await named(core, "late@example.com") == ["ann"]
    assert [email for email, _ in await kept(core)] == ["late@example.com"]
    assert await named(core, ANONYMOUS) == ["ann"]


async def test_an_erased_person_is_found_by_nothing_and_their_transaction_says_so(core: Core) -> None:
    await note(core, "ann", "ann@example.com")
    await core.show("ann", "test_1_a", "pro_monthly")
    await erase(core.changes, core.project_id, "ann")
    assert await kept(core) == []
    for text in ("ann", "ann@example.com"):
        assert await find(core, text) == SearchResults([])
    assert await find(core, "test_1_a") == SearchResults([], erased=True)


async def test_a_transaction_is_found_by_its_purchase_and_by_every_period(core: Core) -> None:
    await core.show("ann", "test_1_a", "pro_monthly")
    await core.show("bob", "test_1_b", "coins_100")
    await core.wait(40 * DAY)
    for text in ("test_1_a", "test_1_a.1"):
        found = await find(core, text)
        assert [(one.view.customer.app_user_id, one.by) for one in found.matches] == [("ann", By.TRANSACTION)]
    assert await named(core, "test_1_b") == ["bob"]
    assert await named(core, "test_1_a.77") == []
    await transfer(core.changes, core.project_id, "ann", "bob")
    assert await named(core, "test_1_a.1") == ["bob"]


async def test_another_project_is_never_looked_into(core: Core) -> None:
    await new_project(core.database, "proj_shop2", NOON)
    other = Core(core.database, "proj_shop2")
    await note(other, "ann", "ann@example.com")
    await other.show("ann", "test_1_a", "pro_monthly")
    for text in ("ann", "an", "ann@example.com", "test_1_a"):
        assert await find(core, text) == SearchResults([])
        assert await named(other, text) == ["ann"]


async def test_nonsense_finds_nobody(core: Core) -> None:
    await note(core, "ann", "ann@example.com")
    for text in ("", "   ", "x" * 10_000, "a\x1f", "a\x00", "\U0010ffff"):
        assert await find(core, text) == SearchResults([])


async def test_a_search_that_finds_too_many_says_so(core: Core) -> None:
    for number in range(5):
        await note(core, f"user_{number}", "")
    found = await find(core, "user", limit=3)
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


async def take(core: Core, seen: Subscription, user: str = "alice") -> None:
    change = Change(
        project_id=core.project_id,
        app_user_id=user,
        apply=lambda situation: take_in(situation.customer, seen, situation.now),
        create=True,
        claims=frozenset({(seen.store, seen.id)}),
    )
    await core.changes.make(change)


async def indexed(core: Core) -> list[tuple[str, str]]:
    return [tuple(row) for row in await core.database.pool.fetch(INDEX, core.project_id)]


RENEWALS = [("2000000115", "2000000100"), ("2000000125", "2000000100")]


async def test_a_period_with_an_id_of_its_own_is_indexed_once(core: Core) -> None:
    await take(core, apple())
    assert await indexed(core) == []
    await take(core, apple(1))
    await take(core, apple(2))
    await take(core, apple(2))
    assert await indexed(core) == RENEWALS
    found = await search(core.database, core.changes.catalogs, core.project_id, "2000000125", core.time)
    assert [match.view.customer.app_user_id for match in found.matches] == ["alice"]


async def key_of(core: Core, user: str) -> int:
    key: int = await core.database.pool.fetchval(query("customers_by_whole_id"), core.project_id, [user])
    return key


async def pages(core: Core, user: str, limit: int) -> list[list[str]]:
    """The ids of every page, until there are no more."""
    found, before, key = [], None, await key_of(core, user)
    while True:
        page = await timeline(core.database, core.project_id, key, before=before, limit=limit)
        found.append([one.id for one in page.events])
        before = page.before
        if before is None:
            return found


async def test_it_goes_back_page_after_page_also_into_the_time_before_a_merge(core: Core) -> None:
    await core.show(ANONYMOUS, "test_1_a", "pro_monthly")
    await core.show("alice", "test_1_b", "coins_100")
    await core.wait(40 * DAY)
    await core.show("alice", "test_1_c", "coins_100")
    await core.show(ANONYMOUS, "test_1_d", "coins_100")
    await log_in(core.changes, core.project_id, ANONYMOUS, "alice")
    await core.wait(40 * DAY)
    everything = [event.id for event in await core.events("alice")]
    assert len(everything) > 6
    for limit in (1, 2, 3, 100):
        found = await pages(core, "alice", limit)
        assert [id for page in found for id in page] == everything[::-1]
        assert all(len(page) == limit for page in found[:-1])
