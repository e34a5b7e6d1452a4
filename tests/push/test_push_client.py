"""The provider's client against the sandbox, over real TLS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from latchkey.process.local_ca.authority import LocalCertificates
from latchkey.push.push_client import PushClient
from latchkey.push.push_notification import (
    BusyError,
    PushNotification,
    PushNotSentError,
    RefusedError,
    RetryPolicy,
)
from latchkey.subjects.webhooks.receiver import Receiver, listening, tls
from tests.patience import PATIENCE
from tests.push.push_provider import APP_ID, KEY, QUICK, Provider, answering

FAILED = PushNotification(
    contents={"en": "Your payment failed", "de": "Zahlung fehlgeschlagen"}, headings={"en": "Demo"}
)
UNKNOWN = "11111111-2222-3333-4444-555555555555"


async def test_the_call_is_the_specifications_word_for_word(certificates: LocalCertificates) -> None:
    async with (
        answering(certificates, (200, {"id": "n1"})) as (url, seen),
        PushClient(f"{url}/", APP_ID, KEY, extra_ca=certificates.authority.read_bytes()) as push,
    ):
        sent = await push.send(FAILED, ["a", "b", "a"])
    assert sent.notification_ids == ("n1",)
    (call,) = seen
    assert call.path == "/api/v1/notifications"
    assert call.headers["content-type"] == "application/json; charset=utf-8"
    assert call.headers["authorization"] == f"Basic {KEY}"
    assert call.body.pop("external_id")
    assert call.body == {
        "app_id": APP_ID,
        "include_player_ids": ["a", "b"],
        "headings": {"en": "Demo"},
        "contents": {"en": "Your payment failed", "de": "Zahlung fehlgeschlagen"},
    }


async def test_nobody_subscribed_is_an_answer_and_not_an_error(provider: Provider) -> None:
    silent = await provider.device(notification_types=-2)
    async with provider.client() as push:
        sent = await push.send(FAILED, [silent, UNKNOWN])
        assert not (await push.send(FAILED, [])).anybody
    assert not sent.anybody
    assert sent.unsubscribed_player_ids == (silent, UNKNOWN)
    assert await provider.sent() == []


async def test_more_than_two_thousand_devices_are_several_calls(provider: Provider) -> None:
    known = await provider.device()
    crowd = [known, *(f"nobody-{number}" for number in range(2_100)), await provider.device()]
    async with provider.client() as push:
        sent = await push.send(FAILED, crowd)
    assert len(sent.notification_ids) == 2
    assert len(sent.invalid_player_ids) == 2_100
    assert [sent["successful"] for sent in await provider.sent()] == [1, 1]


async def test_a_wrong_key_is_refused_at_once_and_never_shown(provider: Provider) -> None:
    with capture_logs() as logs:
        async with provider.client(key="os_v2_app_wrong") as push:
            with pytest.raises(RefusedError, match="REST API key") as refused:
                await push.send(FAILED, [UNKNOWN])
    assert refused.value.status == 403
    assert "os_v2_app_wrong" not in f"{refused.value!r} {refused.value} {logs}"


async def test_a_provider_that_repeats_the_key_does_not_bring_it_into_an_error(certificates: LocalCertificates) -> None:
    async with (
        answering(certificates, (400, {"errors": [f"no such key: {KEY}"]})) as (url, _),
        PushClient(url, APP_ID, KEY, extra_ca=certificates.authority.read_bytes()) as push,
    ):
        with pytest.raises(RefusedError, match="no such key") as refused:
            await push.send(FAILED, ["a"])
    assert KEY not in f"{refused.value!r} {refused.value.reasons}"


@pytest.mark.parametrize("kind", ["down", "busy", "nonsense", "lost"])
async def test_a_transient_fault_is_retried_and_the_notification_arrives_once(provider: Provider, kind: str) -> None:
    known = await provider.device()
    await provider.fault(kind, times=2, seconds=0)
    with capture_logs() as logs:
        async with provider.client() as push:
            sent = await push.send(FAILED, [known])
    assert len(await provider.sent()) == 1
    assert sent.notification_ids == (((await provider.sent())[0]["id"]),)
    assert [line["event"] for line in logs] == ["push not sent yet"] * 2
    assert KEY not in str(logs)


async def test_the_same_key_after_a_restart_is_the_same_notification(provider: Provider) -> None:
    known = await provider.device()
    for _ in range(2):
        async with provider.client() as push:
            await push.send(FAILED, [known], key="evt_1")
    async with provider.client() as push:
        await push.send(FAILED, [known], key="evt_2")
    assert len(await provider.sent()) == 2


async def test_retry_after_is_obeyed_or_in_the_error_if_it_is_too_long(provider: Provider) -> None:
    known = await provider.device()
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    await provider.fault("busy", seconds=7, times=1)
    push = PushClient(provider.url, APP_ID, KEY, extra_ca=provider.authority, sleep=wait)
    assert (await push.send(FAILED, [known])).anybody
    assert waits == [7.0]
    await provider.fault("busy", seconds=3600)
    with pytest.raises(BusyError) as busy:
        await push.send(FAILED, [known])
    assert busy.value.retry_after == 3600
    assert waits == [7.0]
    await push.close()


async def test_the_error_has_what_was_sent_before_it(certificates: LocalCertificates) -> None:
    async with answering(certificates, (200, {"id": "n1"}), (503, {})) as (url, seen):
        push = PushClient(url, APP_ID, KEY, extra_ca=certificates.authority.read_bytes(), policy=RetryPolicy(tries=1))
        with pytest.raises(PushNotSentError) as broken:
            await push.send(FAILED, [f"device-{number}" for number in range(2_001)])
        await push.close()
    assert broken.value.so_far is not None
    assert broken.value.so_far.notification_ids == ("n1",)
    assert [len(call.body["include_player_ids"]) for call in seen] == [2_000, 1]


@asynccontextmanager
async def misbehaving(certificates: LocalCertificates, behaviour: str) -> AsyncIterator[str]:
    """A provider that behaves as the first word of its path says."""
    async with listening(Receiver(lambda *_: None), tls(certificates.cert, certificates.key)) as port:
        yield f"https://127.0.0.1:{port}/{behaviour}"


@pytest.mark.parametrize("behaviour", ["hang", "down", "half", "cut", "endless", "trickle", "garbage"])
async def test_a_hostile_provider_is_an_error_within_its_time(certificates: LocalCertificates, behaviour: str) -> None:
    impatient = RetryPolicy(tries=2, timeout=0.3, first_wait=0.01, deadline=2.0)
    authority = certificates.authority.read_bytes()
    async with (
        misbehaving(certificates, behaviour) as url,
        PushClient(url, APP_ID, KEY, extra_ca=authority, policy=impatient) as push,
        asyncio.timeout(PATIENCE),
    ):
        with pytest.raises(PushNotSentError) as error:
            await push.send(FAILED, [UNKNOWN])
    assert KEY not in str(error.value)


async def test_redirects_are_not_followed_with_the_key(certificates: LocalCertificates) -> None:
    async with (
        misbehaving(certificates, "redirect") as url,
        PushClient(url, APP_ID, KEY, extra_ca=certificates.authority.read_bytes(), policy=QUICK) as push,
    ):
        with pytest.raises(RefusedError, match="is the push API URL right"):
            await push.send(FAILED, [UNKNOWN])


async def test_no_server_and_an_untrusted_certificate_are_unreachable(provider: Provider) -> None:
    for url, authority in (("https://127.0.0.1:1", provider.authority), (provider.url, None)):
        async with PushClient(url, APP_ID, KEY, extra_ca=authority, policy=QUICK) as push:
            with pytest.raises(PushNotSentError):
                await push.send(FAILED, [UNKNOWN])


async def test_plain_http_and_an_empty_text_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="https"):
        PushClient("http://push.example", APP_ID, KEY)
    with pytest.raises(ValueError, match="a text in at least one language"):
        PushNotification(contents={"en": " "}, headings={"en": "Title"})
