"""Services without a client in Python, or with a very large one: each body is checked against a schema of what their
documentation says about names, types and limits."""

from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

import pytest
from jsonschema import Draft202012Validator
from msgspec import json

from latchkey.subjects.webhooks.delivery.destination import compiled, presets
from latchkey.subjects.webhooks.usecases.samples import TYPES, event_for_test
from tests.subjects.webhooks.test_destinations import NOW, SECRET, sent, stored

TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
MONEY = {"type": "number"}
NOT_NEGATIVE = {"type": "number", "minimum": 0}
USD = {"const": "USD"}
DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def exactly(required: dict[str, Any], /, **optional: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": required | optional,
        "additionalProperties": False,
    }


def list_of(items: Any, longest: int) -> dict[str, Any]:
    return {"type": "array", "minItems": 1, "maxItems": longest, "items": items}


def with_user(**fields: Any) -> dict[str, Any]:
    """Of Braze: an id, or an alias."""
    alias = exactly({"alias_name": TEXT, "alias_label": TEXT})
    one = [{"required": ["external_id"]}, {"required": ["user_alias"]}]
    return exactly(fields, external_id=TEXT, user_alias=alias, properties={"type": "object"}) | {"oneOf": one}


TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}
# Of Google Analytics: a name has at most 40 letters, digits and underscores, a value 100 characters.
VALUE = {"anyOf": [{"type": "string", "maxLength": 100}, {"type": "number"}, {"type": "array", "maxItems": 200}]}
RESERVED = (
    *("ad_click", "ad_impression", "ad_query", "ad_reward", "adunit_exposure", "app_clear_data", "app_exception"),
    *("app_remove", "app_store_refund", "app_store_subscription_cancel", "app_store_subscription_convert"),
    *("app_store_subscription_renew", "app_update", "app_upgrade", "error", "first_open", "in_app_purchase"),
    *("os_update", "session_start", "user_engagement"),
)

SCHEMAS: dict[str, Any] = {
    "adjust": exactly(
        {
            "s2s": {"const": "1"},
            "app_token": TEXT,
            "event_token": TEXT,
            "adid": TEXT,
            "created_at_unix": {"type": "string", "pattern": "^[0-9]{10}$"},
            "environment": {"enum": ["sandbox", "production"]},
        },
        idfa=TEXT,
        idfv=TEXT,
        gps_adid=TEXT,
        ip_address=TEXT,
        external_device_id=TEXT,
        callback_params=TEXT,
        # Without a sign.
        revenue={"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
        currency=USD,
    )
    | {"dependentRequired": {"revenue": ["currency"], "currency": ["revenue"]}},
    "appsflyer": exactly(
        {
            "appsflyer_id": TEXT,
            "eventName": {"type": "string", "pattern": "^[a-z_]{1,45}$"},
            "eventValue": {"type": "string"},
            "eventTime": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$"},
        },
        customer_user_id=TEXT,
        eventCurrency=USD,
        idfa=TEXT,
        idfv=TEXT,
        advertising_id=TEXT,
        ip=TEXT,
    ),
    "braze": exactly(
        {"events": list_of(with_user(name=TEXT, time=TIME), 75)},
        purchases=list_of(with_user(product_id=TEXT, currency=USD, price=MONEY, time=TIME), 75),
    ),
    "discord": exactly(
        {"content": {"type": "string", "minLength": 1, "maxLength": 2000}, "allowed_mentions": {"const": {"parse": []}}}
    ),
    "ga4": exactly(
        {
            "app_instance_id": TEXT,
            "timestamp_micros": {"type": "integer", "minimum": 10**15},
            "events": list_of(
                exactly(
                    {
                        "name": {
                            "type": "string",
                            "pattern": "^[a-zA-Z][a-zA-Z0-9_]{0,39}$",
                            "not": {"enum": list(RESERVED)},
                        },
                        "params": {
                            "type": "object",
                            "maxProperties": 25,
                            "propertyNames": {"pattern": "^(?!firebase_|ga_|google_)[a-zA-Z][a-zA-Z0-9_]{0,39}$"},
                            "additionalProperties": VALUE,
                            "dependentRequired": {"value": ["currency"], "items": ["transaction_id"]},
                        },
                    }
                ),
                25,
            ),
        },
        user_id={"type": "string", "minLength": 1, "maxLength": 256},
    ),
    "meta": exactly(
        {
            "data": list_of(
                exactly(
                    {
                        "event_name": TEXT,
                        "event_time": {"type": "integer", "minimum": 10**9, "maximum": 10**10},
                        "event_id": TEXT,
                        "action_source": {"const": "system_generated"},
                        "user_data": exactly(
                            {"external_id": list_of(DIGEST, 1)},
                            em=list_of(DIGEST, 1),
                            ph=list_of(DIGEST, 1),
                            madid=TEXT,
                            anon_id=TEXT,
                        ),
                    },
                    custom_data=exactly(
                        {"currency": USD, "value": NOT_NEGATIVE},
                        refunded=NOT_NEGATIVE,
                        content_ids=list_of(TEXT, 1),
                        order_id=TEXT,
                    ),
                ),
                1000,
            )
        }
    ),
}
ATTRIBUTES = {
    "$idfa": "4b2d5f0e-6c43-4f0e-a1e0-2f4e4b7f4b11",
    "$idfv": "5b2d5f0e-6c43-4f0e-a1e0-2f4e4b7f4b11",
    "$gpsAdId": "6b2d5f0e-6c43-4f0e-a1e0-2f4e4b7f4b11",
    "$ip": "203.0.113.7",
    "$email": " Ada@Example.com",
    "$phoneNumber": "+44 20 7946-0018",
    "$fbAnonId": "XZ1",
    "$brazeAliasName": "ada",
    "$brazeAliasLabel": "app",
}
# Who is served: the address, and the header with the secret.
WHERE = {
    "adjust": ("https://s2s.adjust.com/event", {"Authorization": f"Bearer {SECRET}"}),
    "appsflyer": ("https://api3.appsflyer.com/inappevent/id123", {"authentication": SECRET}),
    "braze": ("https://rest.iad-01.braze.com/users/track", {"Authorization": f"Bearer {SECRET}"}),
    "discord": (f"https://discord.com/api/webhooks/1/{SECRET}", {}),
    "ga4": (
        f"https://www.google-analytics.com/mp/collect?firebase_app_id=1%3A123%3Aios%3Aabc&api_secret={SECRET}",
        {},
    ),
    "meta": ("https://graph.facebook.com/v26.0/12345/events", {"Authorization": f"Bearer {SECRET}"}),
}


def wrong_with(preset: str, encoded: bytes) -> list[str]:
    body = dict(parse_qsl(encoded.decode())) if presets()[preset].form else json.decode(encoded)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(SCHEMAS[preset]).iter_errors(body)]


@pytest.mark.parametrize("preset", SCHEMAS)
def test_a_body_has_the_fields_that_the_documentation_names(preset: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[preset])
    for type in TYPES:
        for attributes in ({}, ATTRIBUTES):
            outgoing = sent(preset, type, attributes)
            assert wrong_with(preset, outgoing.body) == [], type
            headers = dict(outgoing.headers or ())
            headers.pop("Content-Type", None)
            assert (outgoing.url, headers) == WHERE[preset]


@pytest.mark.parametrize("preset", SCHEMAS)
def test_long_names_stay_within_the_limits(preset: str) -> None:
    event = json.decode(json.encode(event_for_test("RENEWAL", NOW, "1")))
    # The longest id of a customer that there is, of the longest characters.
    event["app_user_id"] = "\N{GRINNING FACE}" * 100
    event["product_id"] = event["transaction_id"] = "p" * 200
    required = presets()[preset].requires
    event["subscriber_attributes"] = {required: {"value": "x", "updated_at_ms": 0}} if required else {}
    outgoing = compiled(stored(preset)).outgoing(json.encode(event), "https://shop.example.com/dashboard/projects/p")
    assert outgoing is not None
    assert wrong_with(preset, outgoing.body) == []


def test_form_fields_of_adjust_are_texts_and_values_of_appsflyer_are_json_in_a_text() -> None:
    callback = dict(parse_qsl(sent("adjust").body.decode()))["callback_params"]
    assert json.decode(callback)["event_type"] == "INITIAL_PURCHASE"
    values = json.decode(json.decode(sent("appsflyer").body)["eventValue"])
    assert (values["af_revenue"], values["af_currency"], values["af_content_id"]) == (9.99, "USD", "pro_monthly")


def test_meta_gets_hashes_of_what_it_asks_for() -> None:
    user = json.decode(sent("meta", attributes=ATTRIBUTES).body)["data"][0]["user_data"]
    assert user["em"] == [sha256(b"ada@example.com").hexdigest()]
    # Digits only, with the country code.
    assert user["ph"] == [sha256(b"442079460018").hexdigest()]
