"""Two customers become one: which event is made, for whom, and how the sequence goes on."""

from __future__ import annotations

import pytest

from latchkey.domain.access.entitlements import active
from latchkey.domain.instants import DAY
from latchkey.usecases.customers.currency import adjust
from latchkey.usecases.customers.erasure import erase
from latchkey.usecases.customers.identities import log_in
from latchkey.usecases.engine.changes import Change, unchanged
from latchkey.usecases.sandbox.clocks import create_customer
from latchkey.wire.event import Event, MergedSequence
from tests.usecases.conftest import Shop

ANONYMOUS = "$RCAnonymousID:" + "a" * 32


def parts(event: Event) -> list[tuple[str, int]]:
    assert isinstance(event.merged_sequences, list)
    return [(one.app_user_id, one.sequence) for one in event.merged_sequences]


async def test_a_log_in_is_told_for_the_surviving_customer_with_its_access_and_all_its_ids(shop: Shop) -> None:
    await adjust_in(shop, "ada")
    await shop.act("purchase", user=ANONYMOUS, product="pro_monthly")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ada")
    told = (await shop.events("ada"))[-1]
    assert (told.type, told.app_user_id, told.aliases) == ("SUBSCRIBER_ALIAS", "ada", [ANONYMOUS])
    assert set(told.entitlements) == {"pro"}
    assert told.event_timestamp_ms == shop.time
    assert parts(told) == [(ANONYMOUS, 1), ("ada", 1)]
    assert told.sequence == 2


@pytest.mark.parametrize(("anonymous", "named"), [(7, 2), (2, 7), (3, 3), (0, 0), (4, 0), (0, 4)])
async def test_the_sequence_goes_on_from_the_higher_of_the_two(shop: Shop, anonymous: int, named: int) -> None:
    for who, events in ((ANONYMOUS, anonymous), ("ada", named)):
        await exists(shop, who)
        for _ in range(events):
            await adjust_in(shop, who)
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ada")
    await adjust_in(shop, ANONYMOUS)
    alias, after = (await shop.events("ada"))[-2:]
    assert parts(alias) == [(ANONYMOUS, anonymous), ("ada", named)]
    assert alias.sequence == max(anonymous, named) + 1
    assert after.sequence == max(anonymous, named) + 2


async def test_what_was_overdue_at_the_log_in_is_told_and_counted_before_it(shop: Shop) -> None:
    await exists(shop, "ada")
    await shop.act("purchase", user=ANONYMOUS, product="pro_monthly")
    shop.time += 40 * DAY
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ada")
    *_, renewal, alias = await shop.events("ada")
    assert (renewal.type, renewal.app_user_id, renewal.sequence) == ("RENEWAL", ANONYMOUS, 2)
    assert parts(alias) == [(ANONYMOUS, 2), ("ada", 0)]
    assert alias.sequence == 3


async def test_a_restore_from_an_anonymous_owner_is_told_whether_or_not_the_other_was_known(shop: Shop) -> None:
    for number, known in enumerate((True, False)):
        owner, who = f"$RCAnonymousID:{number:032x}", f"user{number}"
        if known:
            await exists(shop, who)
        await shop.show(owner, f"test_1_{number}", "pro_yearly")
        restored = await shop.show(who, f"test_1_{number}")
        (told,) = restored.events
        assert (told.type, told.app_user_id, told.aliases) == ("SUBSCRIBER_ALIAS", who, [owner])
        assert set(told.entitlements) == {"pro"}
        assert parts(told) == [(owner, 1), (who, 0)]


async def test_a_new_id_is_told_where_the_customer_has_access(shop: Shop) -> None:
    """A receiver may have a record of the new id without access, although the service has erased that id."""
    await shop.act("purchase", user=ANONYMOUS, product="pro_monthly")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ada")
    told = (await shop.events("ada"))[-1]
    assert (told.type, told.app_user_id, told.aliases) == ("SUBSCRIBER_ALIAS", "ada", [ANONYMOUS])
    assert set(told.entitlements) == {"pro"}
    assert (parts(told), told.sequence) == ([(ANONYMOUS, 1)], 2)


async def test_an_unknown_anonymous_id_that_becomes_one_of_a_customer_with_access_is_told(shop: Shop) -> None:
    await shop.act("purchase", user="ada", product="pro_monthly")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ada")
    told = (await shop.events("ada"))[-1]
    assert (told.type, told.app_user_id, told.aliases) == ("SUBSCRIBER_ALIAS", "ada", [ANONYMOUS])
    assert (parts(told), told.sequence) == ([("ada", 1)], 2)


async def test_a_new_id_without_access_and_a_switch_of_user_tell_nothing(shop: Shop) -> None:
    """No receiver can be wrong about an id that had no access before and has none now."""
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "ada")
    await shop.act("purchase", user="bob", product="pro_monthly")
    await log_in(shop.changes, shop.project_id, "ada", "bob")
    await log_in(shop.changes, shop.project_id, "bob", "bob")
    assert await shop.told(None) == ["INITIAL_PURCHASE"]


async def test_whatever_a_log_in_changes_in_the_access_of_an_id_is_told(shop: Shop) -> None:
    """For every id, known before or not: if its access changes, the last event says so."""
    lives = {"none": (), "paid": ("pro_monthly",), "coins": ("coins_100",)}
    number = 0
    for first in (None, *lives):
        for second in (None, *lives):
            number += 1
            ids = f"$RCAnonymousID:{number:032x}", f"user{number}"
            for who, life in zip(ids, (first, second), strict=True):
                if life is not None:
                    await exists(shop, who)
                    for product in lives[life]:
                        await shop.act("purchase", user=who, product=product)
            before = [life == "paid" for life in (first, second)]
            merged = await log_in(shop.changes, shop.project_id, *ids)
            after = "pro" in active(merged.customer, merged.project.catalog, shop.time)
            if before != [after, after]:
                last = (await shop.events(ids[1]))[-1]
                assert last.type == "SUBSCRIBER_ALIAS", (first, second)
                assert {last.app_user_id, *last.aliases} == set(ids)
                assert ("pro" in last.entitlements) is after


async def test_after_an_erasure_the_event_names_nobody(shop: Shop) -> None:
    await exists(shop, "margot")
    await shop.act("purchase", user=ANONYMOUS, product="pro_monthly")
    await log_in(shop.changes, shop.project_id, ANONYMOUS, "margot")
    await erase(shop.changes, shop.project_id, "margot")
    bodies = " ".join(row["body"] for row in await shop.database.pool.fetch("select body::text from events"))
    assert "SUBSCRIBER_ALIAS" in bodies
    assert "margot" not in bodies
    assert ANONYMOUS not in bodies
    told = (await shop.events(None))[-1]
    assert isinstance(told.merged_sequences, list)
    assert told.merged_sequences[0] == MergedSequence(app_user_id=told.app_user_id, sequence=1)


async def exists(shop: Shop, who: str) -> None:
    await create_customer(shop.changes, shop.project_id, who)


async def adjust_in(shop: Shop, who: str) -> None:
    """Make one event that gives no access."""
    await shop.changes.make(Change(project_id=shop.project_id, app_user_id=who, apply=unchanged, create=True))
    await adjust(shop.changes, shop.project_id, who, {"COIN": 1}, f"key {next(shop.numbers)}")
