from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class CredentialsCheck(Struct, frozen=True, kw_only=True):
    # `unknown`: the store could not be asked, and `message` says why.
    result: Literal["ok", "refused", "unknown"]
    message: str
    checked_at: int | None


class StoreCredentials(Struct, frozen=True, kw_only=True):
    object: Literal["store_credentials"] = "store_credentials"
    app_id: str
    project_id: str
    store: str
    # What may be shown of them: ids and fingerprints, never a key. Null while there are none.
    credentials: dict[str, Any] | None
    saved_at: int | None
    check: CredentialsCheck
    # Where the store sends its notifications.
    notification_url: str
    first_notification_at: int | None
    last_notification_at: int | None
