"""Unknown does not mean no access: if neither the service nor a record can tell, the answer is 500 with the reason."""

from typing import Any

import pytest

from latchkey.consumer.billing_service import check_connection
from latchkey.consumer.consumer_errors import AccessUnknownError
from latchkey.consumer.rules.timestamps import DAY, HOUR
from tests.consumer.hosts import HOSTS
from tests.consumer.world import NOW, World, event, token, world

PATHS = ("/api/subscription-status", "/api/entitlement/pro", "/api/my-entitlements")
# What is wrong, and words of the error that describes it.
TROUBLES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"down": True}, "LATCHKEY_CONSUMER_SERVICE_URL"),
    ({"untrusted": True}, "LATCHKEY_CONSUMER_SERVICE_CA"),
    ({"status": 401}, "LATCHKEY_CONSUMER_API_KEY"),
    ({"status": 403}, "LATCHKEY_CONSUMER_PROJECT_ID"),
    ({"status": 418}, "answered 418"),
    ({"status": 503}, "answered 503"),
    ({"status": 429}, "asked too often"),
    ({"nonsense": True}, "LATCHKEY_CONSUMER_SERVICE_URL"),
    ({"proxied": 404}, "LATCHKEY_CONSUMER_SERVICE_URL"),
    ({"proxied": 400}, "answered 400"),
)


def troubled(here: World, trouble: dict[str, Any]) -> None:
    for name, value in trouble.items():
        setattr(here.service, name, value)


@pytest.mark.parametrize(("trouble", "words"), TROUBLES)
async def test_without_a_record_and_without_the_service_access_is_unknown_and_not_denied(
    here: World, trouble: dict[str, Any], words: str
) -> None:
    troubled(here, trouble)
    checked = await check_connection(here.consumer.client, 0.01)
    assert words in (checked.problem or "")
    assert checked.certain is ("untrusted" in trouble or trouble.get("status") in (401, 403))
    # The second time the service is not asked, and the reason is the same.
    for _ in range(2):
        for path in PATHS:
            reply = await here.get(path)
            assert (reply.status, set(reply.json())) == (500, {"error"}), path
            assert words in reply.json()["error"]
            assert "sk_key" not in reply.body.decode()
        for host in HOSTS.values():
            reply = await host(here.consumer).get("/reports", key=token("ada"))
            assert (reply.status, set(reply.json())) == (500, {"error"})
            assert words in reply.json()["error"]
        with pytest.raises(AccessUnknownError, match=words):
            await here.consumer.has_entitlement("ada", "pro")
        reply = await here.get("/api/sync-billing", method="POST")
        assert (reply.status, words in reply.json()["error"]) == (500, True)


@pytest.mark.parametrize("trouble", [{"down": True}, {"status": 401}, {"nonsense": True}, {"proxied": 404}])
async def test_a_local_record_is_used_instead_of_the_service(here: World, trouble: dict[str, Any]) -> None:
    await here.deliver(event())
    await here.deliver(event("EXPIRATION", "bob", entitlements={}))
    here.clock.now += 2 * HOUR
    troubled(here, trouble)
    for user, lets in (("ada", True), ("bob", False)):
        reply = await here.get("/api/entitlement/pro", user)
        assert (reply.status, reply.json()["hasAccess"], reply.json()["ageSeconds"]) == (200, lets, 7200)
        for host in HOSTS.values():
            reply = await host(here.consumer).get("/reports", key=token(user))
            assert reply.status == (200 if lets else 403)


async def test_a_record_that_is_known_to_be_old_may_say_yes_but_not_no(here: World) -> None:
    """bob's re-read is still pending: something newer exists, and it may be a purchase."""
    await here.deliver(event("EXPIRATION", "bob", sequence=5, entitlements={}))
    await here.deliver(event("RENEWAL", "ada", sequence=5))
    for user in ("ada", "bob"):
        await here.deliver(event("RENEWAL", user, sequence=4))
    here.service.down = True
    assert (await here.get("/api/entitlement/pro", "bob")).status == 500
    assert (await here.get("/api/entitlement/pro", "ada")).json()["hasAccess"] is True


async def test_a_404_of_a_proxy_leaves_the_record_and_its_read_pending(here: World) -> None:
    await here.deliver(event("RENEWAL", sequence=5))
    await here.deliver(event("RENEWAL", sequence=4))
    here.service.proxied = 404
    await here.jobs_done()
    assert (await here.copy()).subscription.stale
    here.service.proxied = None
    here.service.holds["ada"] = {"team": NOW + DAY}
    here.clock.now += HOUR
    await here.jobs_done()
    assert set((await here.copy()).held(here.clock.now)) == {"team"}


@pytest.mark.parametrize("user", [".", "..", "unacceptable"])
async def test_an_id_that_the_service_never_accepts_is_a_no(here: World, user: str) -> None:
    if user == "unacceptable":
        here.service.status = 400
    reply = await here.get("/api/entitlement/pro", user)
    assert (reply.status, reply.json()["hasAccess"], reply.json()["error"]) == (200, False, "Customer not found")
    # It does not stop questions about other users.
    here.service.status = 200
    here.service.holds["ada"] = {"pro": NOW + DAY}
    assert (await here.get("/api/entitlement/pro")).json()["source"] == "billing"


async def test_every_start_checks_the_connection_to_the_service(sqlite_url: str) -> None:
    async with world(sqlite_url, checked=True) as here:
        assert (await here.consumer.check_connection()).problem is None
        assert here.service.asked == ["/v2/projects/p/customers/latchkey-connection-check"]
    async with world(sqlite_url, checked=True) as here:
        here.service.down = True
        assert (await here.consumer.check_connection()).problem is not None
        # Events are accepted all the same.
        assert (await here.deliver(event())).status == 200
