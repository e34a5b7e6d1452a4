"""How an app is connected to its store: credentials, and the URL for the store's notifications."""

from typing import Annotated, Any

from fastapi import Request
from pydantic import Field
from starlette.responses import Response

from latchkey.http.audited import audited
from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import Missing
from latchkey.http.models import AppleId, Body, base_of
from latchkey.http.routing import Router, reply, shows
from latchkey.http.services import Provided
from latchkey.subjects.purchase_intake import render, wire
from latchkey.subjects.purchase_intake.usecases import store_connections

router = Router(prefix="/v2/projects/{project_id}/apps/{app_id}/credentials", tags=["V2 apps"])


class NewCredentials(Body):
    """The fields of the app's store. The store's adapter checks what they hold, so that its messages fit the store."""

    bundle_id: Annotated[str | None, Field(description="App Store: the app's bundle id.")] = None
    app_apple_id: Annotated[AppleId | str | None, Field(description="App Store: the app's Apple id, a number.")] = None
    issuer_id: Annotated[str | None, Field(description="App Store: the issuer id of the in-app purchase keys.")] = None
    key_id: Annotated[str | None, Field(description="App Store: the id of the in-app purchase key.")] = None
    private_key: Annotated[str | None, Field(repr=False, description="App Store: the key, PEM.")] = None
    root_certificates: Annotated[
        list[str] | str | None,
        Field(description="App Store: a list of PEM, for an emulator. Default: Apple's root certificates."),
    ] = None
    consumption: Annotated[
        dict[str, Any] | None, Field(description="App Store: how to answer consumption requests.")
    ] = None
    package_name: Annotated[str | None, Field(description="Google Play: the app's package name.")] = None
    service_account: Annotated[
        dict[str, Any] | str | None, Field(repr=False, description="Google Play: the service account's JSON.")
    ] = None
    push_audience: Annotated[str | None, Field(description="Google Play: the audience of the push subscription.")] = (
        None
    )
    push_service_account: Annotated[
        str | None, Field(description="Google Play: the account that signs the pushes.")
    ] = None
    api_key: Annotated[str | None, Field(repr=False, description="Stripe: a secret or restricted key.")] = None
    webhook_secret: Annotated[
        list[str] | str | None,
        Field(
            repr=False,
            description="Stripe: the signing secret of the webhook endpoint. While it is rolled, both in a list.",
        ),
    ] = None
    previous_webhook_secret: Annotated[
        str | None, Field(repr=False, description="Stripe: the old signing secret, while it is rolled.")
    ] = None
    publishable_key: Annotated[str | None, Field(description="Stripe: for pages that take a payment.")] = None
    user_id_metadata_key: Annotated[
        str | None, Field(description="Stripe: the metadata key that holds the app user id; `app_user_id` by default.")
    ] = None
    api_base_url: Annotated[
        str | None, Field(repr=False, description="Another host in place of the store's, if it is allowed.")
    ] = None
    certificates_url: Annotated[
        str | None, Field(repr=False, description="Google Play: likewise, for certificates.")
    ] = None
    token_url: Annotated[str | None, Field(repr=False, description="Google Play: likewise, for access tokens.")] = None


@router.get("", responses=shows(wire.StoreCredentials))
async def read_credentials(request: Request, services: Provided, caller: ReadKey, app_id: str) -> Response:
    """What may be shown of the credentials, whether they work, and the notification URL."""
    found = await store_connections.load(services.stores, caller.project_id, app_id)
    if found is None:
        raise Missing("Apps of this store need no credentials.", param="app_id", code=7226)
    return reply(render.credentials(found, base_of(request)))


@router.put("", responses=shows(wire.StoreCredentials))
@audited("app.credentials_saved")
async def save_credentials(
    request: Request, services: Provided, caller: WriteKey, app_id: str, new: NewCredentials
) -> Response:
    """Save credentials. They are tried with a real call to the store; `check` has its result. They are encrypted and
    never shown again."""
    saved = await store_connections.save(services.stores, caller.project_id, app_id, new.model_dump(exclude_none=True))
    return reply(render.credentials(saved, base_of(request)))


@router.post("/check", responses=shows(wire.StoreCredentials))
@audited("app.credentials_checked")
async def check_credentials(request: Request, services: Provided, caller: WriteKey, app_id: str) -> Response:
    """Try the saved credentials with a real call to the store; `check` has its result. Apple also sends a test
    notification to the notification URL that it knows."""
    checked = await store_connections.check(services.stores, caller.project_id, app_id)
    return reply(render.credentials(checked, base_of(request)))


@router.delete("", responses=shows(wire.StoreCredentials))
@audited("app.credentials_deleted")
async def delete_credentials(request: Request, services: Provided, caller: WriteKey, app_id: str) -> Response:
    """Disconnect the app from its store. What it sends is refused until there are credentials again."""
    left = await store_connections.delete(services.stores, caller.project_id, app_id)
    return reply(render.credentials(left, base_of(request)))


@router.post("/rotate_notification_url", responses=shows(wire.StoreCredentials))
@audited("app.notification_url_rotated")
async def rotate_notification_url(request: Request, services: Provided, caller: WriteKey, app_id: str) -> Response:
    """Make a new notification URL. Each old one works for 7 days after it was replaced."""
    rotated = await store_connections.rotate_url(services.stores, caller.project_id, app_id)
    return reply(render.credentials(rotated, base_of(request)))
