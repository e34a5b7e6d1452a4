"""How an app is connected to its store: credentials, and the URL for the store's notifications."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from latchkey.http.authentication import ReadKey, WriteKey
from latchkey.http.errors import Missing
from latchkey.http.models import Body, base_of
from latchkey.http.routing import Response, Router, reply, shows
from latchkey.stores.adapters import CREDENTIAL_FORMS
from latchkey.stores.credential_form import CredentialForm
from latchkey.subjects.purchase_intake import render, wire
from latchkey.subjects.purchase_intake.usecases import store_connections

router = Router(prefix="/v2/projects/{project_id}/apps/{app_id}/credentials", tags=["V2 apps"])


def credentials_body(forms: Iterable[CredentialForm]) -> type[Body]:
    """All stores have one body. A field that several stores have stands there once; addresses stand last."""
    shared = Counter(field.name for form in forms for field in form.fields)
    declared = [(form.title, field) for form in forms for field in form.fields]
    fields: dict[str, Any] = {}
    for title, field in sorted(declared, key=lambda each: each[1].address is not None):
        about = field.description if shared[field.name] > 1 else f"{title}: {field.description}"
        described = Field(description=about, repr=not field.secret and field.address is None)
        fields.setdefault(field.name, (Annotated[field.json | None, described], None))
    return create_model(
        "NewCredentials",
        __base__=Body,
        __doc__="The fields of the app's store. The store's adapter checks what they hold, so that its messages fit the"
        " store.",
        **fields,
    )


if TYPE_CHECKING:
    NewCredentials = Body
else:
    # Two stores may share one form.
    NewCredentials = credentials_body(dict.fromkeys(CREDENTIAL_FORMS.values()))


@router.get("", responses=shows(wire.StoreCredentials))
async def read_credentials(call: ReadKey, app_id: str) -> Response:
    """What may be shown of the credentials, whether they work, and the notification URL."""
    found = await store_connections.load(call.services.stores, call.project_id, app_id)
    if found is None:
        raise Missing("Apps of this store need no credentials.", param="app_id", code=7226)
    return reply(render.credentials(found, base_of(call.request)))


@router.acts("", wire.StoreCredentials, "app.credentials_saved", methods=("PUT",))
async def save_credentials(call: WriteKey, app_id: str, new: NewCredentials) -> Response:
    """Save credentials. They are tried with a real call to the store; `check` has its result. They are encrypted and
    never shown again."""
    saved = await store_connections.save(
        call.services.stores, call.project_id, app_id, new.model_dump(exclude_none=True)
    )
    return reply(render.credentials(saved, base_of(call.request)))


@router.acts("/check", wire.StoreCredentials, "app.credentials_checked")
async def check_credentials(call: WriteKey, app_id: str) -> Response:
    """Try the saved credentials with a real call to the store; `check` has its result. Apple also sends a test
    notification to the notification URL that it knows."""
    checked = await store_connections.check(call.services.stores, call.project_id, app_id)
    return reply(render.credentials(checked, base_of(call.request)))


@router.deletes("", wire.StoreCredentials, "app.credentials_deleted")
async def delete_credentials(call: WriteKey, app_id: str) -> Response:
    """Disconnect the app from its store. What it sends is refused until there are credentials again."""
    left = await store_connections.delete(call.services.stores, call.project_id, app_id)
    return reply(render.credentials(left, base_of(call.request)))


@router.acts("/rotate_notification_url", wire.StoreCredentials, "app.notification_url_rotated")
async def rotate_notification_url(call: WriteKey, app_id: str) -> Response:
    """Make a new notification URL. Each old one works for 7 days after it was replaced."""
    rotated = await store_connections.rotate_url(call.services.stores, call.project_id, app_id)
    return reply(render.credentials(rotated, base_of(call.request)))
