"""Keys that are missing, malformed, unknown, revoked, of the wrong kind or of another project."""

from __future__ import annotations

import pytest

from latchkey.usecases.access import keys, projects
from tests.api.client import NOW, Shop

V1 = "/v1/subscribers/ada"
V2 = "/v2/projects/proj_demo/customers/ada"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, 7224),
        ("", 7224),
        ("Bearer", 7224),
        ("Bearer ", 7224),
        ("Basic abc", 7224),
        ("sk_abc", 7224),
        ("Bearer two words", 7224),
        ("Bearer " + "x" * 300, 7224),
        ("Bearer sk_unknown", 7225),
        ("bearer \xff\xfe", 7225),
    ],
)
@pytest.mark.parametrize("path", [V1, V2, f"{V2}/attributes"])
async def test_no_key_or_none_that_is_known_is_401(shop: Shop, path: str, header: str | None, code: int) -> None:
    reply = await shop.client.get(path, key=None, headers={"authorization": header} if header is not None else {})
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    if path == V1:
        assert set(reply.json()) == {"code", "message"}
        assert reply.json()["code"] == code
    else:
        assert reply.json()["type"] == "authentication_error"
        assert reply.json()["object"] == "error"


async def test_a_bare_key_is_401_on_v1_as_on_v2(shop: Shop) -> None:
    await shop.note("ada", plan="x")
    for path in (V1, f"{V1}/offerings", V2, f"{V2}/attributes"):
        assert (await shop.client.get(path, key=None, headers={"authorization": shop.secret})).status == 401


async def test_the_scheme_may_be_written_in_any_case(shop: Shop) -> None:
    reply = await shop.client.get(V1, key=None, headers={"authorization": f"bEARER {shop.secret}"})
    assert reply.status == 201


@pytest.mark.parametrize("path", [V1, V2, f"{V2}/attributes"])
async def test_a_revoked_key_is_401_from_the_next_request_on(shop: Shop, path: str) -> None:
    issued = await keys.create_secret_key(shop.database, shop.project_id, "mine", NOW)
    await shop.note("ada", plan="x")
    assert (await shop.client.get(path, key=issued.plaintext)).status == 200
    await keys.revoke_key(shop.database, shop.project_id, issued.key.id, NOW)
    assert (await shop.client.get(path, key=issued.plaintext)).status == 401


@pytest.mark.parametrize("path", [V2, f"{V2}/attributes"])
async def test_a_key_of_another_project_on_v2_is_403_whether_the_customer_exists_or_not(shop: Shop, path: str) -> None:
    other = await projects.create_project(shop.database, "Other", NOW)
    issued = await keys.create_secret_key(shop.database, other.id, "theirs", NOW)
    assert (await shop.client.get(path, key=issued.plaintext)).status == 403
    await shop.note("ada", plan="x")
    assert (await shop.client.get(path, key=issued.plaintext)).status == 403
    # On V1 the key alone selects the project, and that project has no such subscriber.
    assert (await shop.client.get(V1, key=issued.plaintext)).status == 201


async def test_a_project_that_does_not_exist_is_told_apart_from_nothing(shop: Shop) -> None:
    assert (await shop.client.get("/v2/projects/proj_none/customers/ada")).status == 403
