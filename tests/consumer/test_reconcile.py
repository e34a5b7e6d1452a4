"""Missed events are found and applied, and the report says what differed and why."""

import pytest

from latchkey.consumer import reconcile
from latchkey.consumer.reconcile import ReconcileReport
from latchkey.consumer.rules.timestamps import DAY, HOUR
from tests.consumer.world import NOW, World, both_databases, event, pro

ENDS = NOW + 30 * DAY


async def test_where_nothing_was_missed_nothing_differs(here: World) -> None:
    one = event(sequence=1)
    await here.deliver(one)
    here.service.feed = [one]
    here.service.holds["ada"] = {"pro": ENDS - 999}  # V2 has milliseconds, webhooks have whole seconds, rounded up
    report = await here.consumer._reconciler.everything()
    assert report == ReconcileReport(events_examined=1, users_compared=1)
    assert report.clean


@both_databases
async def test_events_that_never_arrived_are_taken_from_the_feed(here: World) -> None:
    here.service.feed = [
        event(sequence=1),
        event("VIRTUAL_CURRENCY_TRANSACTION", sequence=2, amount=5, currency="COIN"),
        event("CANCELLATION", sequence=3),
        event("INITIAL_PURCHASE", "bob", sequence=1),
        event("EXPIRATION", "bob", sequence=2, entitlements={}),
    ]
    await here.deliver(here.service.feed[2])
    here.service.holds = {"ada": {"pro": ENDS}, "bob": {}}
    report = await here.consumer._reconciler.everything()
    assert [event.event_type for event in report.events_missed] == [
        "INITIAL_PURCHASE", "VIRTUAL_CURRENCY_TRANSACTION", "INITIAL_PURCHASE", "EXPIRATION",
    ]  # fmt: skip
    assert report.events_examined == 5
    assert (await here.copy("ada")).subscription.is_active
    assert not (await here.copy("bob")).subscription.is_active
    assert await here.consumer.balances("ada") == {"COIN": 5}
    again = await here.consumer._reconciler.everything()
    assert (again.events_examined, again.clean) == (0, True)


@both_databases
async def test_a_copy_that_differs_from_v2_is_overwritten_and_explained(here: World) -> None:
    await here.deliver(event())
    here.service.holds["ada"] = {"premium": None}
    report = await here.consumer._reconciler.everything()
    (one,) = report.differences
    assert (one.app_user_id, one.mended) == ("ada", True)
    assert (list(one.local), one.service) == (["pro"], {"premium": None})
    assert one.why == "it changed without an event that reached us"
    assert set((await here.copy()).held(NOW)) == {"premium"}
    assert (await here.consumer._reconciler.everything()).clean


async def test_a_dry_run_changes_nothing(here: World) -> None:
    await here.deliver(event())
    before = await here.counts()
    here.service.feed = [event("EXPIRATION", entitlements={})]
    here.service.holds["ada"] = {}
    report = await here.consumer._reconciler.everything(mend=False)
    assert [event.outcome for event in report.events_missed] == ["not mended"]
    assert [difference.mended for difference in report.differences] == [False]
    assert "EXPIRATION" in report.differences[0].why
    assert await here.counts() == before
    assert (await here.copy()).subscription.is_active


@both_databases
async def test_an_id_that_became_an_alias_leads_to_its_customer(here: World) -> None:
    await here.deliver(event(user="$RCAnonymousID:1"))
    here.service.aliases["$RCAnonymousID:1"] = "ada"
    here.service.holds["ada"] = {"pro": ENDS}
    report = await here.consumer._reconciler.everything()
    assert report.differences[0].why == "the id has become an alias of another customer"
    assert (await here.copy("$RCAnonymousID:1")).subscription.app_user_id == "ada"
    assert (await here.counts())["billing_subscriptions"] == 1


@both_databases
async def test_an_alias_that_is_another_customer_now_has_that_ones_access(here: World) -> None:
    """Both were erased, and the app created them anew: no event tells of it."""
    await here.deliver(event(user="ada", aliases=["$RCAnonymousID:1"]))
    here.service.holds = {"ada": {"pro": ENDS}, "$RCAnonymousID:1": {}}
    report = await here.consumer._reconciler.everything()
    (one,) = report.differences
    assert (one.app_user_id, one.why, one.mended) == ("$RCAnonymousID:1", "it is no longer an alias of ada", True)
    assert not (await here.copy("$RCAnonymousID:1")).held(NOW)
    assert (await here.copy("ada")).held(NOW).keys() == {"pro"}
    assert (await here.consumer._reconciler.everything()).clean


async def test_a_customer_the_service_lost_is_reported(here: World) -> None:
    await here.deliver(event())
    report = await here.consumer._reconciler.everything()
    (one,) = report.differences
    assert (one.service, one.mended) == (None, False)
    assert "does not know" in one.why


async def test_a_service_that_was_set_up_anew_is_read_from_its_beginning(here: World) -> None:
    here.service.feed = [event(user="ada")]
    here.service.holds = {"ada": {"pro": ENDS}, "bob": {"pro": ENDS}}
    await here.consumer._reconciler.everything()
    here.service.feed = [event(user="bob")]
    report = await here.consumer._reconciler.everything()
    assert [event.app_user_id for event in report.events_missed] == ["bob"]


async def test_a_service_that_is_down_is_reported_and_nothing_is_lost(here: World) -> None:
    await here.deliver(event())
    here.service.status = 418
    report = await here.consumer._reconciler.everything()
    assert set(report.failures) == {"feed", "ada"}
    assert (await here.copy()).subscription.is_active


async def test_an_event_of_the_feed_that_fails_is_set_aside_and_one_that_is_none_reported(here: World) -> None:
    here.service.feed = [{**event(), "app_user_id": 7}, event(), event(user="bob")]
    here.service.holds = {"ada": {"pro": ENDS}, "bob": {"pro": ENDS}}
    report = await here.consumer._reconciler.everything()
    assert len(report.events_unreadable) == 1
    assert (await here.copy("bob")).subscription.is_active


@both_databases
async def test_the_sweep_asks_about_those_it_has_not_asked_about_for_longest(here: World) -> None:
    for user in ("ada", "bob", "cyd"):
        await here.deliver(event(user=user))
        here.service.holds[user] = {"pro": ENDS}
    report = await here.consumer._reconciler.sweep()
    assert report.users_compared == 3
    assert (await here.consumer._reconciler.sweep()).users_compared == 0
    here.clock.now += HOUR + 1
    here.service.holds["bob"] = {}
    report = await here.consumer._reconciler.sweep()
    assert (report.users_compared, [difference.app_user_id for difference in report.differences]) == (3, ["bob"])
    assert not (await here.copy("bob")).subscription.is_active


async def test_the_sweep_goes_on_after_users_who_are_gone_or_cannot_be_read(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "SWEEP_USERS", 2)
    for user in ("gone", "refused", "broken", "changed"):
        await here.deliver(event(user=user))
    here.service.statuses = {"refused": 418, "broken": 500}
    here.service.holds["changed"] = {}
    here.clock.now += 1000
    for _ in range(4):
        await here.consumer._reconciler.sweep()
        here.clock.now += 1000
    assert not (await here.copy("changed")).subscription.is_active
    for user in ("gone", "refused", "broken"):
        assert (await here.copy(user)).subscription.last_updated == NOW
    here.clock.now += HOUR
    here.service.status, here.service.statuses = 503, {}
    report = await here.consumer._reconciler.sweep()
    assert (set(report.failures), report.users_compared) == ({"feed"}, 0)


async def test_an_expired_user_equals_a_service_that_lists_nothing(here: World) -> None:
    await here.deliver(event(expiration_at_ms=NOW + 1000, entitlements=pro(NOW + 1000)))
    here.clock.now += 5000
    here.service.holds["ada"] = {}
    assert (await here.consumer._reconciler.everything()).differences == []
