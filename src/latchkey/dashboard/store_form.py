"""The credentials of each store as a form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from latchkey.dashboard.form import Form
from latchkey.dashboard.texts import sentence
from latchkey.domain.refusal import Invalid
from latchkey.domain.stores.store import APP_STORE, PLAY_STORE, STRIPE, WEB_BILLING


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    hint: str = ""
    # The content of a file: a text area, into which a script reads a file.
    file: bool = False
    # Never sent back to the browser.
    secret: bool = False
    # May be left empty.
    optional: bool = False
    # Of a store emulator, in place of the store's own. Offered only where the settings allow one.
    address: bool = False


_STRIPE = (
    Field("api_key", "API key", "A restricted key, rk_live_… or rk_test_….", secret=True),
    Field("webhook_secret", "Signing secret of the webhook endpoint", "whsec_…", secret=True),
    Field(
        "previous_webhook_secret",
        "Previous signing secret",
        "Only while the endpoint's secret is rolled.",
        secret=True,
        optional=True,
    ),
    Field(
        "user_id_metadata_key",
        "Metadata key of the app user id",
        "In subscriptions, checkout sessions and customers. app_user_id if empty.",
        optional=True,
    ),
    Field("publishable_key", "Publishable key", "pk_…, for pages that take a payment.", optional=True),
    Field("api_base_url", "Address of Stripe's API", address=True),
)

FIELDS: dict[str, tuple[Field, ...]] = {
    APP_STORE: (
        Field("bundle_id", "Bundle ID", "Such as com.example.app."),
        Field("app_apple_id", "Apple ID of the app", "A number such as 1234567890, under App Information."),
        Field("issuer_id", "Issuer ID", "Above the list of in-app purchase keys."),
        Field("key_id", "Key ID", "Beside the key in that list, such as 2X9R4HXF34."),
        Field("private_key", "Private key", "The .p8 file or its content.", file=True, secret=True),
        Field("api_base_url", "Address of the App Store Server API", address=True),
        Field("root_certificates", "Root certificates", "PEM. In place of Apple's.", file=True, address=True),
    ),
    PLAY_STORE: (
        Field("package_name", "Package name", "Such as com.example.app."),
        Field("service_account", "Key of the service account", "The JSON file or its content.", file=True, secret=True),
        Field("push_audience", "Audience of the push subscription", "Exactly as in the push subscription."),
        Field(
            "push_service_account",
            "Service account of the push subscription",
            "Its e-mail address, such as pubsub-push@my-project.iam.gserviceaccount.com.",
        ),
        Field("api_base_url", "Address of the Android Publisher API", address=True),
        Field("certificates_url", "Address of Google's certificates", address=True),
        Field("token_url", "Address for access tokens", address=True),
    ),
    STRIPE: _STRIPE,
    WEB_BILLING: _STRIPE,
}
# How Apple's questions about a purchase whose buyer wants the money back are answered.
CONSUMPTION = {
    "": "Do not answer",
    "NONE": "Answer, without a preference",
    "DECLINE": "Answer, and prefer that Apple declines",
    "GRANT_FULL": "Answer, and prefer a full refund",
    "GRANT_PRORATED": "Answer, and prefer a refund of the unused time",
}


def label(name: str, store: str) -> str:
    """What a saved value is called. Of a file only a part is shown, such as the e-mail address of an account."""
    for field in FIELDS[store]:
        if field.name == name and not field.file:
            return field.label
    words = sentence(name)
    return f"{words[:-2]}ID" if words.endswith(" id") else words


def read(store: str, form: Form) -> dict[str, Any]:
    """As the API takes them. What is empty is left out."""
    given: dict[str, Any] = {field.name: form.raw(field.name).strip() for field in FIELDS[store]}
    given = {name: value for name, value in given.items() if value}
    if "root_certificates" in given:
        given["root_certificates"] = [one + _END for one in given["root_certificates"].split(_END) if one.strip()]
    if store == APP_STORE and (answer := form.text("consumption")):
        if answer not in CONSUMPTION:
            raise Invalid("There is no such answer to consumption requests.", param="consumption")
        preference = {} if answer == "NONE" else {"refund_preference": answer}
        given["consumption"] = {"customer_consented": True, **preference}
    return given


def filled(store: str, form: Form, shown: Mapping[str, Any] | None) -> dict[str, str]:
    """What the form shows: what was just sent, else what is saved. Never a secret."""
    values = {}
    for field in FIELDS[store]:
        saved = "" if field.file or shown is None else str(shown.get(field.name, ""))
        values[field.name] = "" if field.secret else form.text(field.name, saved)
    values["consumption"] = form.text("consumption")
    return values


_END = "-----END CERTIFICATE-----"
