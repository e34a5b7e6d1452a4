"""How notifications reach the service: tried again as the store does it, and misbehaving on demand."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from latchkey.domain.instants import DAY, HOUR
from latchkey.domain.refusal import Refusal
from latchkey.emulators.apple.apple_emulator import AppleEmulator
from latchkey.emulators.apple.apple_keys import AppleKeys
from latchkey.now import real_now
from latchkey.process.local_ca.authority import ensure_certificates
from tests.emulators.receiving import Service, receiving
from tests.emulators.shops import START, app_store


@contextlib.asynccontextmanager
async def connected(keys: AppleKeys, environment: str = "Sandbox") -> AsyncIterator[tuple[AppleEmulator, Service]]:
    async with app_store(keys, environment=environment) as store, receiving() as service:
        store.outbox.url = service.url
        yield store, service


def kinds(service: Service) -> list[str]:
    told = [jwt.decode(request.body["signedPayload"], options={"verify_signature": False}) for request in service.taken]
    return [event["notificationType"] for event in told]


async def test_in_production_apple_tries_six_times_over_a_week(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys, environment="Production") as (store, service):
        service.status = 503
        store.sell(product_id="coins_100")
        await store.move(START + 10 * DAY)
        (message,) = store.outbox.messages
        first = message.attempts[0].at
        assert [(attempt.at - first) // HOUR for attempt in message.attempts] == [0, 1, 13, 37, 85, 157]
        assert {attempt.status for attempt in message.attempts} == {503}
        assert message.state == "given up"


async def test_in_the_sandbox_apple_tries_once(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys) as (store, service):
        service.status = 500
        store.sell(product_id="coins_100")
        await store.move(START + 10 * DAY)
        assert len(service.taken) == 1
        assert store.outbox.messages[0].state == "given up"


async def test_a_retry_stops_when_the_service_takes_it_and_the_answer_is_kept(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys, environment="Production") as (store, service):
        service.status = 500
        store.sell(product_id="coins_100")
        await store.deliver()
        service.status = 204
        await store.move(START + 10 * DAY)
        (message,) = store.outbox.messages
        assert (message.state, len(message.attempts)) == ("delivered", 2)
        assert message.attempts[0].answer == "answer 1"
        assert service.taken[0].body == service.taken[1].body


async def test_a_service_that_cannot_be_reached_is_tried_again(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys, environment="Production") as (store, service):
        url, store.outbox.url = service.url, "http://127.0.0.1:9/nobody"
        store.sell(product_id="coins_100")
        await store.deliver()
        assert store.outbox.messages[0].attempts[0].status is None
        store.outbox.url = url
        await store.move(START + 2 * HOUR)
        assert kinds(service) == ["ONE_TIME_CHARGE"]


async def test_without_an_address_notifications_wait(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys) as (store, service):
        store.outbox.url = None
        store.sell(product_id="coins_100")
        await store.move(START + DAY)
        assert not service.taken
        store.outbox.url = service.url
        await store.deliver()
        assert kinds(service) == ["ONE_TIME_CHARGE"]


async def test_an_authority_that_comes_later_is_trusted_when_the_address_is_told(
    apple_keys: AppleKeys, tmp_path: Path
) -> None:
    certificates = ensure_certificates(tmp_path, [], real_now())
    async with app_store(apple_keys, environment="Production") as store, receiving(certificates) as service:
        store.outbox.url = service.url
        store.sell(product_id="coins_100")
        await store.deliver()
        assert not service.taken
        store.outbox.authority = certificates.authority.read_bytes
        await store.outbox.send_to(service.url)
        await store.move(START + 2 * HOUR)
        assert kinds(service) == ["ONE_TIME_CHARGE"]


async def test_dropped_ones_never_arrive(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys, environment="Production") as (store, service):
        store.misbehave(drop=1.0)
        store.sell(product_id="coins_100")
        await store.move(START + 10 * DAY)
        await store.calm()
        assert not service.taken
        assert store.outbox.messages[0].state == "lost"


async def test_duplicates_arrive_twice_with_the_same_id(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys) as (store, service):
        store.misbehave(duplicate=1.0)
        store.sell(product_id="coins_100")
        await store.deliver()
        assert len(service.taken) == 2
        assert service.taken[0].body == service.taken[1].body


async def test_late_ones_arrive_when_their_hours_have_passed(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys) as (store, service):
        store.misbehave(late=1.0, late_by_hours=5)
        store.sell(product_id="coins_100")
        await store.move(START + 4 * HOUR)
        assert not service.taken
        await store.move(START + 6 * HOUR)
        assert kinds(service) == ["ONE_TIME_CHARGE"]


async def test_reordered_ones_arrive_after_later_ones(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys) as (store, service):
        id = store.sell(product_id="pro_monthly", buyer="ada")
        store.outbox.messages.clear()
        store.misbehave(reorder=1.0, seed=1)
        store.act(id, "cancel")
        behind = store.outbox.messages[0].fate.overtaken_by
        await store.deliver()
        assert not service.taken
        store.behave()
        for _ in range(behind):
            store.act(id, "price_increase")
        await store.deliver()
        assert kinds(service) == ["PRICE_INCREASE"] * behind + ["DID_CHANGE_RENEWAL_STATUS"]


async def test_a_reordered_one_that_nothing_overtakes_arrives_within_the_hour(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys) as (store, service):
        store.misbehave(reorder=1.0)
        store.sell(product_id="coins_100")
        await store.move(START + 2 * HOUR)
        assert kinds(service) == ["ONE_TIME_CHARGE"]


async def test_a_lie_that_is_taken_does_not_count_as_delivered(apple_keys: AppleKeys) -> None:
    async with connected(apple_keys, environment="Production") as (store, service):
        store.misbehave(lie=1.0, lies=["signature"])
        store.sell(product_id="coins_100")
        await store.deliver()
        assert store.outbox.messages[0].state == "waiting"
        assert store.outbox.messages[0].attempts[0].did == "lied about signature"
        await store.calm()
        assert [message.id for message in store.outbox.waiting()] == []
        assert len(service.taken) == 2


async def test_the_same_seed_misbehaves_the_same(apple_keys: AppleKeys) -> None:
    async def fates(seed: int) -> list[Any]:
        async with app_store(apple_keys) as store:
            store.misbehave(drop=0.3, duplicate=0.3, reorder=0.3, late=0.3, seed=seed)
            for number in range(30):
                store.sell(product_id="coins_100", buyer=str(number))
            return [message.fate for message in store.outbox.messages]

    assert await fates(1) == await fates(1)
    assert await fates(1) != await fates(2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"drop": 2},
        {"lie": 1.0},
        {"lie": 1.0, "lies": ["weather"]},
        {"colour": 1},
        {"api": {"kind": "error", "status": 200}},
    ],
)
async def test_misbehaviour_that_makes_no_sense_is_refused(apple_keys: AppleKeys, wrong: dict[str, Any]) -> None:
    async with app_store(apple_keys) as store:
        with pytest.raises(Refusal):
            store.misbehave(**wrong)
