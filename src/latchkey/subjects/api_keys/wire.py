"""API keys of V2."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType


class ApiKey(Struct, frozen=True, kw_only=True):
    object: Literal["api_key"] = "api_key"
    id: str
    project_id: str
    name: str
    scopes: list[Literal["read", "write", "charts"]]
    rate_limit: int
    masked_key: str
    # The key itself, only in the response that creates it.
    key: str | UnsetType = UNSET
    created_at: int
    # To the minute; null if it never was.
    last_used_at: int | None
    revoked_at: int | None
    # From this instant on the key is refused. Null: it does not expire.
    expires_at: int | None
    # Empty: it works from everywhere.
    allowed_networks: list[str]
    # Of V2 replies to this key.
    shape: Literal["latchkey", "vendor"]


class PublicApiKey(Struct, frozen=True, kw_only=True):
    object: Literal["public_api_key"] = "public_api_key"
    id: str
    project_id: str
    app_id: str
    name: str
    rate_limit: int
    masked_key: str
    # Null for keys that were made when only their hash was stored.
    key: str | None
    environment: Literal["production", "sandbox"]
    created_at: int
    last_used_at: int | None
    revoked_at: int | None
