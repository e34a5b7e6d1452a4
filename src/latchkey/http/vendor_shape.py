"""The vendor's shape: V2 replies without our own fields, for clients that refuse fields they do not know.

A request with the header `Latchkey-Shape: vendor`, or with a key of that shape, gets every object of the vendor with
the vendor's fields alone. Objects that the vendor does not have stay as they are.
"""

from typing import Any

from msgspec import json
from starlette.types import Message, Send

from latchkey.http.errors import InvalidParameter
from latchkey.http.exchange import JSON_TYPE, Exchange, HeldReply

HEADER = b"latchkey-shape"
VENDOR = b"vendor"

# By object, beside `object` itself.
FIELDS: dict[str, frozenset[str]] = {
    name: frozenset(("object", *fields.split()))
    for name, fields in {
        "list": "items next_page url",
        "project": "id name created_at icon_url icon_url_large",
        "product": "id store_identifier type display_name created_at app_id subscription one_time app",
        "entitlement": "id project_id lookup_key display_name created_at products",
        "app": (
            "id name created_at project_id type amazon app_store mac_app_store play_store stripe rc_billing roku paddle"
        ),
        "public_api_key": "id key environment app_id created_at",
        "offering": "id project_id lookup_key display_name is_current created_at metadata packages",
        "package": "id lookup_key display_name position created_at products",
        "customer": (
            "id project_id first_seen_at last_seen_at last_seen_app_version last_seen_country last_seen_platform "
            "last_seen_platform_version active_entitlements experiment attributes"
        ),
        "customer.active_entitlement": "entitlement_id expires_at",
        "customer.alias": "id created_at",
        "customer.attribute": "name value updated_at",
        "experiment_enrollment": "id name variant",
        "authenticated_management_url": "management_url",
        "subscription": (
            "id customer_id original_customer_id product_id starts_at current_period_starts_at current_period_ends_at "
            "ends_at gives_access pending_payment auto_renewal_status status total_revenue_in_usd "
            "presented_offering_id entitlements environment store store_subscription_identifier ownership "
            "pending_changes country management_url"
        ),
        "subscription_transaction": (
            "id purchased_at product_store_identifier expiration_date effective_expiration_date"
        ),
        "purchase": (
            "id customer_id original_customer_id product_id purchased_at revenue_in_usd quantity status "
            "presented_offering_id entitlements environment store store_purchase_identifier ownership country"
        ),
        "invoice": "id total_amount line_items issued_at paid_at invoice_url",
        "invoice.line_item": "product_identifier product_display_name product_duration quantity unit_amount",
        "virtual_currency": "project_id code name created_at description product_grants",
        "virtual_currency.product_grant": "product_ids amount trial_amount expire_at_cycle_end",
        "virtual_currency_balance": "currency_code balance description name",
        "webhook": "id project_id name url environment event_types app_id created_at",
        "collaborator": "id name email role accepted_at has_mfa",
        "chart_data": (
            "category display_type display_name description documentation_link last_computed_at start_date end_date "
            "yaxis_currency filtering_allowed segmenting_allowed resolution values summary yaxis segments "
            "segments_limit measures user_selectors unsupported_params"
        ),
        "chart_options": "resolutions segments filters user_selectors",
        "overview_metrics": "metrics",
        "overview_metric": "id name description unit period value last_updated_at last_updated_at_iso8601",
        "audit_log": (
            "id project_id action_type target_type target_identifier actor_type actor_identifier occurred_at "
            "additional_data"
        ),
    }.items()
}
_DELETED = {"object", "id", "deleted_at"}
# What these hold belongs to the operator.
_FREE = frozenset({"metadata", "additional_data"})


def check_header(exchange: Exchange) -> None:
    """Refuses a V2 request that asks for a shape which does not exist, before anything happens."""
    if _is_v2(exchange) and exchange.headers[HEADER] != VENDOR:
        raise InvalidParameter("Latchkey-Shape is 'vendor', or is not sent.", param="Latchkey-Shape")


def is_vendors(exchange: Exchange) -> bool:
    """Whether the request, or its key once that is known, asks for the vendor's shape."""
    caller = exchange.caller
    return exchange.headers.get(HEADER) == VENDOR or (caller is not None and caller.wants_vendor_shape)


def shaped(exchange: Exchange, body: bytes) -> bytes:
    """A JSON reply in the shape that this request wants."""
    return cut(body) if _is_v2(exchange) and is_vendors(exchange) else body


def _is_v2(exchange: Exchange) -> bool:
    return exchange.raw_path[:4] == b"/v2/"


def cut(body: bytes) -> bytes:
    """A JSON reply in the vendor's shape."""
    return json.encode(_cut(json.decode(body))) if body else body


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(one) for one in value if not _is_revoked_key(one)]
    if not isinstance(value, dict):
        return value
    name = value.get("object")
    if name is None:
        return {field: _cut(one) for field, one in value.items()}
    fields = FIELDS.get(name)
    if fields is None:
        return value
    if value.keys() == _DELETED:
        return _named(value)
    value = _translated(value)
    return _named({field: one if field in _FREE else _cut(one) for field, one in value.items() if field in fields})


def _named(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "object": "webhook_integration"} if value["object"] == "webhook" else value


def _translated(value: dict[str, Any]) -> dict[str, Any]:
    """Values that the vendor writes in another way."""
    match value["object"]:
        case "webhook":
            # For us an empty list means all types, for the vendor null does.
            types = [type.lower() for type in value["event_types"]]
            return {**value, "event_types": types or None}
        case "public_api_key" if value["key"] is None:
            return {**value, "key": value["masked_key"]}
    return value


def _is_revoked_key(value: Any) -> bool:
    """The vendor lists only keys that work, and has no field that says otherwise."""
    return isinstance(value, dict) and value.get("object") == "public_api_key" and value["revoked_at"] is not None


def _is_cut(start: Message) -> bool:
    return (start["status"] < 300 or start["status"] == 409) and JSON_TYPE in start["headers"]


def shaped_send(exchange: Exchange) -> Send:
    """Cuts a complete JSON reply where the vendor's shape is wanted. What is still in use is 422 for the vendor, where
    we say 409."""

    async def finish(start: Message, body: bytes) -> tuple[Message, bytes]:
        if start["status"] == 409:
            in_use = b'"type":"unprocessable_entity_error"' in body
            start = {**start, "status": 422 if in_use else 409}
        else:
            body = cut(body)
            lines = [(name, value) for name, value in start["headers"] if name != b"content-length"]
            start = {**start, "headers": [*lines, (b"content-length", b"%d" % len(body))]}
        return start, body

    return HeldReply(exchange.send, finish, lambda start: is_vendors(exchange) and _is_cut(start))
