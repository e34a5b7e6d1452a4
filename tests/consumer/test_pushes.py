"""From an event to a phone: what is pushed, to whom, only once, and without delaying anything else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from latchkey.consumer.push_texts import OCCASIONS, read_texts
from latchkey.consumer.rules.timestamps import DAY, HOUR
from latchkey.consumer.storage.copy_tables import jobs as jobs_table
from latchkey.push.push_notification import PushNotification
from tests.consumer.test_devices import phones, register
from tests.consumer.world import NOW, World, both_databases, event, pro, settings, world
from tests.push.push_provider import APP_ID, KEY, Provider, answering

EVERYTHING = OCCASIONS


@asynccontextmanager
async def pushing(url: str, provider: Provider, **more: Any) -> AsyncIterator[World]:
    given = {
        "push_api_url": provider.url,
        "push_app_id": APP_ID,
        "push_rest_api_key": KEY,
        "push_ca": str(provider.certificates.authority),
        **more,
    }
    async with world(url, **given) as here:
        assert here.consumer._pushes is not None
        # A provider that is busy asks to wait for a second.
        here.consumer._pushes._client._sleep = lambda _: asyncio.sleep(0)
        yield here


@pytest.fixture
async def here(url: str, provider: Provider) -> AsyncIterator[World]:
    async with pushing(url, provider) as here:
        yield here


async def contents(provider: Provider) -> list[str]:
    return [notification["contents"]["en"] for notification in await provider.sent()][::-1]


def failed(user: str = "ada", **more: Any) -> dict[str, Any]:
    return event("BILLING_ISSUE", user, grace_period_expires_at_ms=NOW + 3 * DAY, **more)


async def test_a_billing_issue_reaches_every_phone_of_the_user_and_nobody_elses(
    here: World, provider: Provider
) -> None:
    mine = [await provider.device() for _ in range(2)]
    for phone in mine:
        await register(here, phone, "ada")
    await register(here, await provider.device(), "bob")
    assert (await here.deliver(failed())).status == 200
    assert await provider.sent() == []
    await here.jobs_done()
    (sent,) = await provider.sent()
    assert sorted(sent["include_player_ids"]) == sorted(mine)
    assert sent["headings"]["de"] == "Zahlungsproblem"
    assert (await here.counts())["billing_jobs"] == 0


async def test_other_events_push_only_with_their_setting(sqlite_url: str, provider: Provider) -> None:
    happened = [
        event("NON_RENEWING_PURCHASE", store="promotional"),
        event("RENEWAL"),
        event("CANCELLATION"),
        event("REFUND", entitlements={}),
        event("EXPIRATION", entitlements={}),
    ]
    async with pushing(sqlite_url, provider) as here:
        await register(here, await provider.device())
        for sent in happened:
            await here.deliver(sent)
        await here.jobs_done()
        assert await provider.sent() == []
    async with pushing(sqlite_url, provider, push_on=EVERYTHING) as here:
        for sent in happened:
            await here.deliver({**sent, "id": f"{sent['id']} again"})
        await here.jobs_done()
    texts = read_texts()
    assert set(await contents(provider)) == {
        texts[occasion]["en"].content for occasion in ("granted", "refunded", "expired")
    }


async def test_an_event_pushes_once_however_often_it_comes(here: World, provider: Provider) -> None:
    await register(here, await provider.device())
    told = failed()
    for _ in range(3):
        await here.deliver(told)
        await here.jobs_done()
    assert len(await provider.sent()) == 1


@pytest.mark.parametrize("kind", ["lost", "busy"])
async def test_faults_of_the_provider_lose_no_push_and_send_none_twice(
    here: World, provider: Provider, kind: str
) -> None:
    await register(here, await provider.device())
    await provider.fault(kind, seconds=1, times=4)
    assert (await here.deliver(failed())).status == 200
    for _ in range(6):
        await here.jobs_done()
        here.clock.now += 60_000
    assert len(await provider.sent()) == 1
    assert (await here.counts())["billing_jobs"] == 0


@both_databases
async def test_a_crash_after_the_provider_took_it_sends_no_second_push(here: World, provider: Provider) -> None:
    known = await provider.device()
    await register(here, known)
    await register(here, "a phone the provider does not know".replace(" ", "-"))
    await here.deliver(failed())
    (job,) = await here.consumer._store.jobs.claim(NOW, 10, 1_000)
    assert here.consumer._pushes is not None
    await here.consumer._pushes.handlers["push"](job)
    assert await phones(here) == [known]
    # The job was not marked as done. It runs again, now without the phone that was removed.
    here.clock.now += 1_000
    await here.jobs_done()
    assert len(await provider.sent()) == 1
    assert (await here.counts())["billing_jobs"] == 0


async def test_while_the_provider_is_away_one_job_tries_and_the_others_wait(here: World, provider: Provider) -> None:
    for user in ("ada", "bob"):
        await register(here, await provider.device(), user)
    await provider.fault("down")
    await here.deliver(failed("ada"))
    await here.jobs_done()
    await here.deliver(failed("bob"))
    with capture_logs() as logs:
        await here.jobs_done()
    assert "push not sent yet" not in [line["event"] for line in logs]
    assert sorted(row["run_at"] > NOW for row in await here.rows(jobs_table)) == [True, True]


async def test_a_provider_that_asks_to_wait_for_long_is_asked_again_within_minutes(
    here: World, provider: Provider
) -> None:
    for user in ("ada", "bob"):
        await register(here, await provider.device(), user)
    await provider.fault("busy", seconds=80_000, times=1)
    for user in ("ada", "bob"):
        await here.deliver(failed(user))
        await here.jobs_done()
    here.clock.now += 600_000
    await here.jobs_done()
    assert len(await provider.sent()) == 2


@pytest.mark.parametrize("status", [401, 404, 421])
async def test_while_something_else_is_at_the_push_address_no_push_is_lost(
    sqlite_url: str, provider: Provider, status: int
) -> None:
    async with (
        answering(provider.certificates, (status, {}), (200, {"id": "n"})) as (url, seen),
        pushing(sqlite_url, provider, push_api_url=url) as here,
    ):
        await register(here, "a-phone")
        await here.deliver(failed())
        await here.jobs_done()
        assert (len(seen), (await here.counts())["billing_jobs"]) == (1, 1)
        here.clock.now += 60_000
        await here.jobs_done()
        assert (len(seen), (await here.counts())["billing_jobs"]) == (2, 0)


async def test_a_push_that_no_longer_applies_or_whose_phone_has_another_user_is_not_sent(
    here: World, provider: Provider
) -> None:
    phone = await provider.device()
    await register(here, phone)
    await here.deliver(failed(sequence=1))
    await here.deliver(event("RENEWAL", sequence=2))
    await here.jobs_done()
    assert await provider.sent() == []
    await here.deliver(failed(sequence=3))
    await register(here, phone, "bob")
    await here.jobs_done()
    assert await provider.sent() == []


async def test_an_event_older_than_a_day_is_not_pushed(here: World, provider: Provider) -> None:
    await register(here, await provider.device())
    await here.deliver(failed(event_timestamp_ms=NOW - DAY))
    await here.jobs_done()
    await provider.fault("down")
    await here.deliver(failed())
    await here.jobs_done()
    here.clock.now += DAY
    await provider.call("DELETE", "/sandbox/fault")
    await here.jobs_done()
    assert await provider.sent() == []
    assert (await here.counts())["billing_jobs"] == 0


async def test_a_late_event_is_not_pushed(here: World, provider: Provider) -> None:
    await register(here, await provider.device())
    await here.deliver(event(sequence=5))
    await here.deliver(failed(sequence=4))
    here.service.holds["ada"] = {"pro": None}
    await here.jobs_done()
    assert await provider.sent() == []


@both_databases
async def test_a_trials_end_is_pushed_a_day_before_unless_it_was_cancelled(url: str, provider: Provider) -> None:
    async with pushing(url, provider, push_on=EVERYTHING) as here:
        ends = NOW + 7 * DAY
        for user in ("ada", "bob"):
            more = {"expiration_at_ms": ends, "entitlements": pro(ends), "period_type": "trial"}
            await here.deliver(event("TRIAL_STARTED", user, sequence=1, **more))
            # Registered after the trial began: the push goes to the phones that are registered when it is sent.
            await register(here, await provider.device(), user)
        await here.deliver(event("TRIAL_CANCELLED", "bob", sequence=2, entitlements=pro(ends), expiration_at_ms=ends))
        here.clock.now = ends - DAY - HOUR
        await here.jobs_done()
        assert await provider.sent() == []
        here.clock.now = ends - DAY
        await here.jobs_done()
        assert await contents(provider) == ["It ends on 2027-01-22 and then becomes a subscription."]


@both_databases
async def test_a_phone_registered_under_another_id_of_the_same_customer_is_reached(
    here: World, provider: Provider
) -> None:
    anonymous = "$RCAnonymousID:" + "a" * 32
    await register(here, await provider.device(), anonymous)
    await here.deliver(event(aliases=[anonymous], sequence=1))
    await here.deliver(failed(aliases=[anonymous], sequence=2))
    await here.jobs_done()
    assert len(await provider.sent()) == 1


async def test_an_operator_can_send_a_push_to_one_user(here: World, provider: Provider) -> None:
    await register(here, await provider.device())
    await register(here, "unknown-phone")
    assert here.consumer._pushes is not None
    sent = await here.consumer._pushes.send("ada", PushNotification({"en": "Hello"}, {"en": "Demo"}))
    assert sent.invalid_player_ids == ("unknown-phone",)
    assert not (await here.consumer._pushes.send("nobody", PushNotification({"en": "Hello"}, {}))).anybody
    assert len(await phones(here)) == 1


async def test_the_key_is_in_no_log_and_no_job(sqlite_url: str, provider: Provider) -> None:
    with capture_logs() as logs:
        async with pushing(sqlite_url, provider, push_rest_api_key="os_wrong_but_secret") as here:
            await register(here, await provider.device())
            await here.deliver(failed())
            await here.jobs_done()
            (job,) = await here.rows(jobs_table)
    assert "refused the REST API key" in job["last_error"]
    assert "os_wrong_but_secret" not in f"{job} {logs} {here.consumer.settings!r}"


def test_texts_can_be_replaced_one_by_one(tmp_path: Path) -> None:
    own = tmp_path / "texts.toml"
    own.write_text('[expired]\nen = { heading = "Bye", content = "See you" }\n')
    texts = read_texts(str(own))
    assert texts["expired"]["en"].heading == "Bye"
    assert texts["expired"]["de"].heading == "Dein Abo ist abgelaufen"
    assert set(texts) == set(OCCASIONS)
    assert all("en" in by_language for by_language in texts.values())
    own.write_text("[birthday]\n")
    with pytest.raises(ValueError, match="birthday"):
        read_texts(str(own))


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"push_api_url": "https://push.example"}, {"push_app_id", "push_rest_api_key"}),
        ({"push_api_url": "http://push.example", "push_app_id": "a", "push_rest_api_key": "k"}, {"push_api_url"}),
        ({"push_texts": "/nowhere.toml"}, {"push_texts"}),
        ({"push_ca": "/nowhere.pem"}, {"push_ca"}),
        ({}, set()),
    ],
)
def test_settings_that_cannot_work_are_named(more: dict[str, Any], wrong: set[str]) -> None:
    assert {name for name, _ in settings("sqlite:///x.db", **more).problems()} == wrong
