"""The bodies that create and change an app: its type, and one object of that type with what the store calls it.

Keys of the App Store given here are saved like those of `PUT .../credentials`: checked, encrypted and never shown."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from latchkey.domain.stores.store import APP_STORE, AppStore
from latchkey.http.errors import InvalidParameter, Unprocessable
from latchkey.http.models import AppleId, Body, CurrencyCode, Name, not_null

Identifier = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9._-]+$")]
Word = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
Secret = Annotated[str, Field(min_length=1, max_length=4500)]
_UNUSED = "Latchkey does not use it: only null is accepted."
Unused = Annotated[str | None, Field(max_length=4500, description=_UNUSED)]


class AppStoreApp(Body):
    """The three `subscription_` fields are the in-app purchase key. It works with the app's Apple id, which is saved
    with it. `root_certificates` are for an emulator; without them Apple's own count."""

    bundle_id: Identifier = not_null()
    subscription_private_key: Secret | None = None
    subscription_key_id: Word | None = None
    subscription_key_issuer: Word | None = None
    app_apple_id: AppleId | None = None
    root_certificates: Annotated[list[Secret], Field(max_length=10)] | None = None
    shared_secret: Unused = None
    app_store_connect_api_key: Unused = None
    app_store_connect_api_key_id: Unused = None
    app_store_connect_api_key_issuer: Unused = None
    app_store_connect_vendor_number: Unused = None


class MacAppStoreApp(Body):
    bundle_id: Identifier = not_null()
    shared_secret: Unused = None


class PlayStoreApp(Body):
    package_name: Identifier = not_null()


class AmazonApp(Body):
    package_name: Identifier = not_null()
    shared_secret: Unused = None


class StripeApp(Body):
    stripe_account_id: Word | None = None


class WebBillingApp(Body):
    app_name: Name = not_null()
    stripe_account_id: Word | None = None
    support_email: Word | None = None
    default_currency: CurrencyCode = not_null()


class PaddleApp(Body):
    paddle_is_sandbox: bool | None = None
    paddle_api_key: Unused = None


def _with_secrets() -> Any:
    """An object that may hold secrets: the audit log does not show it."""
    return Field(default_factory=lambda: None, repr=False)


class AppParts(Body):
    amazon: AmazonApp = _with_secrets()
    app_store: AppStoreApp = _with_secrets()
    mac_app_store: MacAppStoreApp = _with_secrets()
    play_store: PlayStoreApp = not_null()
    stripe: StripeApp = not_null()
    rc_billing: WebBillingApp = not_null()
    paddle: PaddleApp = _with_secrets()


class NewApp(AppParts):
    """`type` and `store` are two names for the same. At most the object of that type is present."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["type"]}, {"required": ["store"]}]})

    name: Name
    type: AppStore = not_null()
    store: AppStore = not_null()


class AppChanges(AppParts):
    """At most the object of the app's type is present. Its type cannot change."""

    name: Name = not_null()


PARTS = tuple(AppParts.model_fields)
# What the vendor calls the fields of the App Store's credentials.
_KEY_FIELDS = {
    "subscription_private_key": "private_key",
    "subscription_key_id": "key_id",
    "subscription_key_issuer": "issuer_id",
    "app_apple_id": "app_apple_id",
    "root_certificates": "root_certificates",
}
_UNUSED_FIELDS = (
    "shared_secret", "app_store_connect_api_key", "app_store_connect_api_key_id", "app_store_connect_api_key_issuer",
    "app_store_connect_vendor_number", "paddle_api_key",
)  # fmt: skip


def store_of(new: NewApp) -> AppStore:
    given = new.model_fields_set
    if ("type" in given) == ("store" in given):
        raise InvalidParameter("Send `type`, or `store`, which means the same, and not both.", param="store")
    return new.type if "type" in given else new.store


def details_of(body: NewApp | AppChanges, store: str) -> dict[str, Any]:
    """What was sent of the app's own object, without keys."""
    for part in PARTS:
        if part in body.model_fields_set and part != store:
            raise InvalidParameter(f"The app's type is {store}: only `{store}` may be sent with it.", param=part)
    if store not in body.model_fields_set:
        return {}
    sent: dict[str, Any] = getattr(body, store).model_dump(exclude_unset=True)
    for field in _UNUSED_FIELDS:
        if sent.pop(field, None) is not None:
            raise Unprocessable(f"{field}: {_UNUSED}", param=f"{store}.{field}")
    return {name: value for name, value in sent.items() if name not in _KEY_FIELDS}


def credentials_of(body: NewApp | AppChanges, store: str) -> dict[str, Any]:
    """The credentials that were sent, under the names that `PUT .../credentials` has for them."""
    if store != APP_STORE or store not in body.model_fields_set:
        return {}
    sent = body.app_store.model_dump(exclude_none=True)
    given = {name: sent[field] for field, name in _KEY_FIELDS.items() if field in sent}
    return {**given, "bundle_id": sent["bundle_id"]} if given and "bundle_id" in sent else given
