"""Secret API keys: shown once, then only masked. An app's public keys are in `apps.py`."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from latchkey.domain.access.api_key import LONGEST_OVERLAP_DAYS, MOST_NETWORKS, OVERLAP_DAYS, beyond, checked_networks
from latchkey.domain.refusal import NotFound
from latchkey.engine.admission import Caller
from latchkey.engine.storage import keys
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import Forbidden
from latchkey.http.models import Body, Instant, Name, Paging, RateLimit
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.subjects.api_keys import render, usecases, wire
from latchkey.wire.v2 import Page

router = Router(prefix="/v2/projects/{project_id}/api_keys", tags=["V2 API keys"])

_LENGTH = "(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
# As far as a JSON schema can express it: an address, or the start of a network and its length.
_network_schema: dict[str, Any] = {
    "anyOf": [
        {"format": "ipv4"},
        {"format": "ipv6"},
        {"pattern": rf"^{_BYTE}(?:\.{_BYTE}){{3}}/(?:3[0-2]|[12]?[0-9])$"},
        {"pattern": rf"^(?:[0-9A-Fa-f]{{1,4}}:){{1,6}}:/{_LENGTH}$"},
    ]
}
AllowedNetworks = Annotated[
    list[Annotated[str, Field(max_length=60, json_schema_extra=_network_schema)]],
    Field(
        max_length=MOST_NETWORKS,
        description="Addresses and networks, such as 203.0.113.7 or 10.0.0.0/8. Empty: the key works from everywhere.",
    ),
]


class NewKey(Body):
    name: Name
    scopes: Annotated[list[Literal["read", "write", "charts"]], Field(min_length=1, max_length=3)]
    rate_limit: RateLimit = usecases.RATE_LIMIT
    expires_at: Instant | None = None
    allowed_networks: AllowedNetworks = Field(default_factory=list)
    shape: Annotated[
        Literal["latchkey", "vendor"],
        Field(description="vendor: V2 replies to this key are in the vendor's shape, without a header."),
    ] = "latchkey"


class KeyChanges(Body):
    """Fields that are not sent stay as they are."""

    name: Name | None = None
    rate_limit: RateLimit | None = None
    # Null: it does not expire.
    expires_at: Instant | None = None
    allowed_networks: AllowedNetworks | None = None


class KeyRotation(Body):
    overlap_days: Annotated[
        int, Field(ge=0, le=LONGEST_OVERLAP_DAYS, description="How many more days the old key works.")
    ] = OVERLAP_DAYS


@router.creates("", wire.ApiKey, "key.created")
async def create_api_key(call: WriteKey, new: NewKey) -> Response:
    """Create a secret key. Only this response shows it."""
    rate_limit = new.rate_limit if "rate_limit" in new.model_fields_set else min(new.rate_limit, call.caller.rate_limit)
    require_own(call.caller, new.scopes, rate_limit, new.expires_at, checked_networks(new.allowed_networks))
    wanted = new.model_dump() | {"rate_limit": rate_limit}
    made = await call.run(usecases.create_secret_key, now=call.now(), **wanted)
    return reply(render.api_key(call.project_id, made.key, made.plaintext), 201)


@router.get("", responses=shows(Page[wire.ApiKey]))
async def list_api_keys(call: ReadKey, paging: Paging) -> Response:
    """The project's secret keys, oldest first, including revoked ones."""
    found = await call.run(usecases.list_keys, *paging.window, kind="secret")
    return reply(paging.of([render.api_key(call.project_id, key) for key in found]))


@router.updates("/{key_id}", wire.ApiKey, "key.changed")
async def change_api_key(call: WriteKey, key_id: str, changes: KeyChanges) -> Response:
    """Change a key's name, rate limit, expiry or networks. It holds from the next request on."""

    def change(key: keys.ApiKey) -> keys.ApiKey:
        networks = changes.allowed_networks
        wanted = replace(
            key,
            name=changes.name or key.name,
            rate_limit=changes.rate_limit or key.rate_limit,
            expires_at=changes.expires_at if "expires_at" in changes.model_fields_set else key.expires_at,
            allowed_networks=tuple(checked_networks(networks)) if networks is not None else key.allowed_networks,
        )
        raised = wanted.rate_limit if wanted.rate_limit > key.rate_limit else 0
        require_own(call.caller, key.scopes, raised, wanted.expires_at, wanted.allowed_networks)
        return wanted

    return reply(render.api_key(call.project_id, await call.run(usecases.change_key, key_id, change, call.now())))


@router.creates("/{key_id}/actions/rotate", wire.ApiKey, "key.rotated")
async def rotate_api_key(call: WriteKey, key_id: str, rotation: KeyRotation) -> Response:
    """Create a key that replaces this one. The response shows it; the old one works for `overlap_days` more."""

    def check(old: keys.ApiKey, expires_at: int | None) -> None:
        require_own(call.caller, old.scopes, old.rate_limit, expires_at, old.allowed_networks)

    made, _ = await call.run(usecases.rotate_key, key_id, call.now(), overlap_days=rotation.overlap_days, check=check)
    return reply(render.api_key(call.project_id, made.key, made.plaintext), 201)


@router.deletes("/{key_id}", wire.ApiKey, "key.revoked")
async def revoke_api_key(call: WriteKey, key_id: str) -> Response:
    """Revoke a key. The next request with it is refused."""
    if (await call.run(usecases.load_key, key_id)).kind != "secret":
        raise NotFound(f"{key_id} is the public key of an app; revoke it there.", param="key_id")
    return reply(render.api_key(call.project_id, await call.run(usecases.revoke_key, key_id, call.now())))


def require_own(
    caller: Caller, scopes: Collection[str], rate_limit: int, expires_at: int | None, networks: Sequence[str]
) -> None:
    """A key cannot make a key that may do more than itself, more often, for longer or from elsewhere."""
    implied = {"charts"} if "read" in caller.scopes else set()
    missing = sorted(set(scopes) - caller.scopes - implied)
    if missing:
        raise Forbidden(f"This key lacks the scope '{missing[0]}', so it cannot give it to another.", param="scopes")
    if rate_limit > caller.rate_limit:
        raise Forbidden(
            f"This key may make {caller.rate_limit:,} requests a minute, so it cannot allow a key more. An owner can.",
            param="rate_limit",
        )
    refusal = beyond(caller.rules, expires_at, networks)
    if refusal is not None:
        raise Forbidden(refusal.message, param=refusal.param)
