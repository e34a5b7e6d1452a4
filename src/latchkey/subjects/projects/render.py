"""Projects, apps and members as V2 shows them."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType, ValidationError, convert

from latchkey.domain.stores.store import store_of
from latchkey.engine.storage.catalog.app_rows import App, Project
from latchkey.subjects.accounts.rules import Member
from latchkey.subjects.api_keys import wire as api_keys_wire
from latchkey.subjects.projects import wire
from latchkey.wire.attributes import from_attributes

_UNKNOWN = {
    "stripe_account_id": None,
    "support_email": None,
    "default_currency": "USD",
    "deep_link": None,
    "paddle_is_sandbox": False,
}


def app_details(store: str, details: Mapping[str, Any]) -> dict[str, Struct]:
    """The object of this store, if enough is known."""
    shape = wire.DETAILS.get(store_of(store).app_details)
    known = _UNKNOWN | {name: value for name, value in details.items() if value is not None}
    known["seller_company_name"] = known.get("app_name")
    try:
        return {store: convert(known, shape)} if shape is not None else {}
    except ValidationError:
        return {}


def project(one: Project, first_key: api_keys_wire.ApiKey | UnsetType = UNSET) -> wire.Project:
    return from_attributes(wire.Project, one, api_key=first_key)


def app(
    project_id: str,
    one: App,
    notification_url: str | None,
    first_key: api_keys_wire.PublicApiKey | UnsetType = UNSET,
    connected: Mapping[str, Any] | None = None,
) -> wire.App:
    """`connected` is what may be shown of its credentials: they too say what the store calls the app."""
    return from_attributes(
        wire.App,
        one,
        **app_details(one.store, {**one.details, **(connected or {})}),
        project_id=project_id,
        type=one.store,
        notification_url=notification_url,
        public_api_key=first_key,
    )


def collaborator(one: Member) -> wire.Collaborator:
    account = one.account
    return wire.Collaborator(
        id=account.id,
        name=account.name or None,
        email=account.email,
        role=one.role.value,
        accepted_at=one.since if account.has_password or account.openid is not None else None,
        has_mfa=account.has_second_factor,
    )
