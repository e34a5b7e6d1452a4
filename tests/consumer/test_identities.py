"""Merges, transfers and erasure: after the events, every id gets the answer that V2 gives."""

from typing import Any

import pytest
from msgspec import json

from latchkey.consumer.rules.received_event import ReceivedEvent, read_event
from latchkey.consumer.rules.timestamps import DAY, HOUR
from tests.consumer.world import NOW, World, both_databases, event, pro

ENDS = NOW + 30 * DAY
ANON = "$RCAnonymousID:0123"


async def holds(here: World, user: str) -> bool:
    reply = await here.get("/api/entitlement/pro", user)
    assert reply.status == 200, reply
    found: bool = reply.json()["hasAccess"]
    return found


def merged(*ids: str, sequence: int = 8, **more: Any) -> dict[str, Any]:
    """SUBSCRIBER_ALIAS as the service sends it, for the first of the ids."""
    return event(
        "SUBSCRIBER_ALIAS", ids[0], original_app_user_id=ids[-1], aliases=list(ids[1:]), sequence=sequence,
        product_id=None, purchased_at_ms=None, expiration_at_ms=None, period_type=None, store=None,
        merged_sequences=[{"app_user_id": id, "sequence": sequence - 1} for id in ids], **more,
    )  # fmt: skip


@both_databases
async def test_a_log_in_is_known_as_soon_as_it_is_delivered(here: World) -> None:
    """U has a record without access; an anonymous id buys, and then logs in as U."""
    await here.deliver(event("EXPIRATION", "U", sequence=7, entitlements={}))
    await here.deliver(event(user=ANON, sequence=1))
    here.service.holds["U"] = {"pro": ENDS}
    here.service.aliases[ANON] = "U"
    assert (await here.deliver(merged("U", ANON))).json() == {"message": "Event processed"}
    here.service.down = True
    for id in ("U", ANON):
        assert await holds(here, id)
    one = (await here.copy("U")).subscription
    assert (one.subscription_status, one.last_sequence, one.product_id) == ("active", 8, "pro_monthly")
    assert (one.purchased_at, one.expires_at) == (NOW, ENDS)


@both_databases
async def test_after_a_merge_and_a_transfer_no_id_of_the_source_keeps_access(here: World) -> None:
    """The consumer got no event of the merge: the two records stay separate until the TRANSFER."""
    await here.deliver(event(user="U"))
    await here.deliver(event(user=ANON))
    here.service.holds |= {"U": {}, "bob": {"pro": ENDS}}
    here.service.aliases[ANON] = "U"
    await here.deliver(event("TRANSFER", "bob", transferred_from=["U", ANON], transferred_to=["bob"]))
    # The records are not trusted any more, even before any job has run.
    for id in ("U", ANON):
        assert not await holds(here, id)
    await here.jobs_done()
    for id in ("U", ANON):
        assert not (await here.copy(id)).subscription.is_active
        assert not (await here.copy(id)).subscription.stale
    assert await holds(here, "bob")


@both_databases
async def test_an_answer_from_before_a_transfer_is_not_used_even_if_the_giver_was_stale_already(here: World) -> None:
    """A late event made ada's record stale. V2 is asked, and before its answer is used the purchase goes to bob."""
    here.service.holds |= {"ada": {"pro": ENDS}, "bob": {}}
    await here.deliver(event("RENEWAL", "ada", sequence=2))
    await here.deliver(event(user="ada", sequence=1))

    async def meanwhile() -> None:
        here.service.holds |= {"ada": {}, "bob": {"pro": ENDS}}
        await here.deliver(event("TRANSFER", "bob", transferred_from=["ada"], transferred_to=["bob"]))

    here.service.meanwhile = meanwhile
    assert not await holds(here, "ada")


async def test_the_targets_other_ids_are_read_too(here: World) -> None:
    await here.deliver(event("EXPIRATION", "bob2", entitlements={}))
    here.service.holds["bob"] = {"pro": ENDS}
    here.service.aliases["bob2"] = "bob"
    await here.deliver(event("TRANSFER", "bob", transferred_from="$deleted", transferred_to=["bob", "bob2"]))
    await here.jobs_done()
    assert (await here.copy("bob2")).subscription.is_active
    assert (await here.counts())["billing_jobs"] == 0


@both_databases
@pytest.mark.parametrize("known", [True, False])
async def test_an_answer_from_before_a_merge_does_not_undo_it(here: World, known: bool) -> None:
    """V2 was asked about an anonymous id. Before its answer is used, a log-in and a refund arrive."""
    if known:
        await here.deliver(event(user=ANON, sequence=1))
    here.service.holds |= {ANON: {"pro": ENDS}, "U": {}}

    async def meanwhile() -> None:
        here.service.aliases[ANON] = "U"
        await here.deliver(merged("U", ANON, sequence=2))
        await here.deliver(event("REFUND", "U", sequence=3, aliases=[ANON], entitlements={}))

    here.service.meanwhile = meanwhile
    assert (await here.get("/api/sync-billing", ANON, method="POST")).status == 200
    await here.jobs_done()
    here.service.down = True
    for id in ("U", ANON):
        assert not (await here.copy(id)).subscription.is_active
        assert not await holds(here, id)
    assert (await here.copy(ANON)).subscription.app_user_id == "U"


@both_databases
async def test_an_id_that_an_answer_leads_to_another_record_is_not_denied_by_that(here: World) -> None:
    """ANON bought and signed in as U, whose record is from before. V2 says so, and then cannot be asked again."""
    await here.deliver(event("EXPIRATION", "U", sequence=1, entitlements={}))
    await here.deliver(event(user=ANON, sequence=1))
    here.service.holds["U"] = {"pro": ENDS}
    here.service.aliases[ANON] = "U"

    async def meanwhile() -> None:
        here.service.down = True

    here.clock.now += 2 * HOUR
    here.service.meanwhile = meanwhile
    assert await holds(here, ANON)
    for id in ("U", ANON):
        assert (await here.get("/api/entitlement/pro", id)).status == 500, "unknown is not no"
    here.service.down = False
    here.clock.now += 60_000
    await here.jobs_done()
    here.service.down = True
    for id in ("U", ANON):
        assert await holds(here, id)


@pytest.mark.parametrize("entitlements", [{}, pro()])
@pytest.mark.parametrize("type", ["REFUND", "RENEWAL", "TRANSFER"])
async def test_every_event_speaks_for_every_id_it_names(here: World, type: str, entitlements: Any) -> None:
    ids = ("ada", ANON, "first")
    for id in ids:
        await here.deliver(event(user=id, entitlements={} if entitlements else pro()))
    here.service.holds["ada"] = {"pro": ENDS} if entitlements and type != "REFUND" else {}
    here.service.aliases |= {ANON: "ada", "first": "ada"}
    await here.deliver(event(type, "ada", aliases=[ANON], original_app_user_id="first", entitlements=entitlements))
    for id in ids:
        assert await holds(here, id) is bool(here.service.holds["ada"]), id


@both_databases
async def test_late_events_of_either_customer_do_not_undo_the_merge(here: World) -> None:
    await here.deliver(event("RENEWAL", "U", sequence=6))
    await here.deliver(merged("U", ANON))
    here.service.holds["U"] = {"pro": ENDS}
    here.service.aliases[ANON] = "U"
    for late in (event("EXPIRATION", "U", sequence=7, entitlements={}), event("REFUND", ANON, sequence=2)):
        assert (await here.deliver({**late, "entitlements": {}})).json() == {"message": "Event recorded"}
        for id in ("U", ANON):
            assert await holds(here, id)
    await here.jobs_done()
    assert (await here.copy(ANON)).subscription.last_sequence == 8
    assert (await here.deliver(event("EXPIRATION", "U", sequence=9, entitlements={}))).json()["message"] == (
        "Event processed"
    )


async def test_a_merge_that_arrives_late_is_already_known(here: World) -> None:
    await here.deliver(event(user=ANON, sequence=1))
    await here.deliver(event("EXPIRATION", "U", aliases=[ANON], sequence=9, entitlements={}))
    here.service.holds["U"] = {}
    here.service.aliases[ANON] = "U"
    assert (await here.deliver(merged("U", ANON))).json() == {"message": "Event recorded"}
    await here.jobs_done()
    for id in ("U", ANON):
        assert not (await here.copy(id)).subscription.is_active


async def test_an_event_that_is_old_for_one_of_its_ids_has_all_of_them_read(here: World) -> None:
    """The event is the next one for U, but the other id's record is newer: V2 decides."""
    await here.deliver(event("EXPIRATION", ANON, sequence=12, entitlements={}))
    here.service.holds["U"] = {}
    here.service.aliases[ANON] = "U"
    await here.deliver(event("RENEWAL", "U", aliases=[ANON], sequence=3))
    for id in ("U", ANON):
        assert not await holds(here, id)


async def test_the_last_event_under_an_older_id_still_counts(here: World) -> None:
    """ANON cancels and signs in as ada; ada's record was read from V2 before the cancellation arrived."""
    here.service.holds["ada"] = {"pro": ENDS}
    here.service.aliases[ANON] = "ada"
    here.service.sequences |= {"ada": 2, ANON: 2}
    assert await holds(here, ANON)
    assert (await here.copy("ada")).subscription.subscription_status == "active"
    await here.deliver(event("CANCELLATION", ANON, sequence=2))
    await here.jobs_done()
    one = (await here.copy("ada")).subscription
    assert (one.subscription_status, one.auto_renew, one.external_user_id) == ("cancelled", False, "ada")


async def test_an_event_from_before_a_merge_is_not_trusted_because_its_number_is_high(here: World) -> None:
    """ada has access. ANON lost its own and then signed in as ada. A read tells of the merge before its event comes,
    and ANON's last event comes after that: its number is higher than ada's, who was counted separately."""
    await here.deliver(event(user="ada", sequence=1))
    here.service.holds["ada"] = {"pro": ENDS}
    here.service.aliases[ANON] = "ada"
    assert await holds(here, ANON)
    await here.deliver(event("EXPIRATION", ANON, sequence=5, entitlements={}))
    for id in ("ada", ANON):
        assert await holds(here, id)
    await here.jobs_done()
    here.service.down = True
    for id in ("ada", ANON):
        assert await holds(here, id)


async def test_a_customer_erased_and_created_again_is_read_again(here: World) -> None:
    await here.deliver(event("CANCELLATION", sequence=7))
    here.service.holds["ada"] = {"pro": ENDS}
    here.service.sequences["ada"] = 1
    # Its sequence starts again, so its first event looks late; the re-read gives the true state.
    await here.deliver(event(sequence=1, event_timestamp_ms=NOW + 5))
    await here.jobs_done()
    one = (await here.copy()).subscription
    assert (one.is_active, one.subscription_status, one.last_sequence) == (True, "active", 1)
    here.service.sequences["ada"] = 2
    reply = await here.deliver(event("EXPIRATION", sequence=2, entitlements={}, event_timestamp_ms=NOW + 6))
    assert reply.json() == {"message": "Event processed"}
    # A late event of the erased customer is applied, marked as doubtful and re-read.
    here.service.holds["ada"] = {}
    await here.deliver(event("RENEWAL", sequence=6, event_timestamp_ms=NOW - 5))
    assert not await holds(here, "ada")
    await here.jobs_done()
    assert not (await here.copy()).subscription.is_active


@both_databases
async def test_an_older_event_of_an_erased_customer_gives_nothing_back(here: World) -> None:
    await here.deliver(event("REFUND", sequence=2, entitlements={}))
    # Erased: a late event makes the consumer ask, and the service does not know the user.
    await here.deliver(event("BILLING_ISSUE", sequence=1, event_timestamp_ms=NOW - 20))
    await here.jobs_done()
    await here.deliver(event(sequence=1, event_timestamp_ms=NOW - 10))
    await here.jobs_done()
    assert not (await here.copy()).subscription.is_active
    # Whoever comes back under this id counts from one again.
    reply = await here.deliver(event(sequence=1, event_timestamp_ms=NOW + 10))
    assert reply.json() == {"message": "Event processed"}
    assert (await here.copy()).subscription.is_active


@both_databases
async def test_an_id_of_an_erased_customer_may_become_another_customer(here: World) -> None:
    await here.deliver(event(aliases=[ANON], sequence=3))
    here.service.holds |= {"ada": {"pro": ENDS}, ANON: {}}
    here.service.sequences[ANON] = 1
    await here.deliver(event("EXPIRATION", ANON, sequence=1, entitlements={}))
    await here.jobs_done()
    assert not (await here.copy(ANON)).subscription.is_active
    assert (await here.copy("ada")).subscription.is_active


@both_databases
async def test_merges_of_one_batch_are_taken_in_their_order(here: World) -> None:
    chain = [
        event(user="U", aliases=["x"], sequence=1),
        event(user=ANON, aliases=["y"], sequence=1),
        event("SUBSCRIBER_ALIAS", "U", aliases=["x", "y", ANON], sequence=2),
        event("VIRTUAL_CURRENCY_TRANSACTION", ANON, sequence=1, amount=5, currency="COIN", event_timestamp_ms=NOW - 1),
    ]
    await here.consumer._intake._commit([_read(event) for event in chain])
    for id in ("U", "x", "y", ANON):
        assert (await here.copy(id)).subscription.app_user_id == "U"
        assert await here.consumer.balances(id) == {"COIN": 5}
    assert (await here.counts())["billing_subscriptions"] == 1


def _read(one: dict[str, Any]) -> ReceivedEvent:
    return read_event(json.encode(one))
