"""API keys as V2 shows them."""

from msgspec import UNSET, UnsetType

from latchkey.engine.storage.keys import ApiKey
from latchkey.subjects.api_keys import wire
from latchkey.subjects.api_keys.usecases import is_sandbox


def api_key(project_id: str, one: ApiKey, plaintext: str | UnsetType = UNSET) -> wire.ApiKey:
    return wire.ApiKey(
        id=one.id,
        project_id=project_id,
        name=one.name,
        scopes=list(one.scopes),
        rate_limit=one.rate_limit,
        masked_key=one.hint,
        key=plaintext,
        created_at=one.created_at,
        last_used_at=one.last_used_at,
        revoked_at=one.revoked_at,
        expires_at=one.expires_at,
        allowed_networks=list(one.allowed_networks),
        shape=one.shape,
    )


def public_api_key(project_id: str, one: ApiKey) -> wire.PublicApiKey:
    assert one.app_id is not None
    return wire.PublicApiKey(
        id=one.id,
        project_id=project_id,
        app_id=one.app_id,
        name=one.name,
        rate_limit=one.rate_limit,
        masked_key=one.hint,
        key=one.plaintext,
        environment="sandbox" if is_sandbox(one.hint) else "production",
        created_at=one.created_at,
        last_used_at=one.last_used_at,
        revoked_at=one.revoked_at,
    )
