"""The shapes on the wire hold exactly what the specification's tables name."""

import msgspec
import pytest

from latchkey.wire import errors, event, v1, v2


def names(shape: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape)}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (event.Envelope, "api_version event"),
        (
            event.Entitlement,
            "expires_date grace_period_expires_date product_identifier purchase_date product_plan_identifier",
        ),
        (event.Attribute, "value updated_at_ms"),
        (v1.SubscriberResponse, "request_date request_date_ms subscriber"),
        (v1.ReceiptResponse, "request_date request_date_ms subscriber purchased_products attributes_error_response"),
        (v1.AttributesErrorResponse, "attribute_errors"),
        (
            v1.Subscriber,
            "original_app_user_id original_application_version first_seen last_seen management_url"
            " original_purchase_date non_subscriptions subscriptions entitlements"
            " subscriber_attributes other_purchases",
        ),
        (
            v1.Subscription,
            "auto_resume_date billing_issues_detected_at expires_date grace_period_expires_date original_purchase_date"
            " purchase_date refunded_at unsubscribe_detected_at is_sandbox ownership_type period_type store"
            " store_transaction_id display_name price management_url product_plan_identifier",
        ),
        (
            v1.NonSubscription,
            "id is_sandbox purchase_date original_purchase_date store store_transaction_id display_name price",
        ),
        (
            v2.Customer,
            "object id project_id first_seen_at last_seen_at last_seen_app_version last_seen_country"
            " last_seen_platform last_seen_platform_version active_entitlements experiment attributes",
        ),
        (v2.Page, "object items next_page url"),
        (v2.ActiveEntitlement, "object entitlement_id expires_at"),
        (v2.Attribute, "object name value updated_at"),
        (v2.ExperimentEnrollment, "object id name variant"),
        (errors.V1Error, "code message attribute_errors"),
        (errors.V2Error, "object type message retryable param doc_url backoff_ms"),
    ],
)
def test_a_shape_has_exactly_the_fields_it_should(shape: type[msgspec.Struct], expected: str) -> None:
    assert names(shape) == set(expected.split())


def test_an_event_has_the_specified_fields_and_the_agreed_extra_ones() -> None:
    specified = """
        id type app_user_id original_app_user_id aliases product_id new_product_id period_type purchased_at_ms
        expiration_at_ms original_purchase_date_ms event_timestamp_ms environment store entitlements
        subscriber_attributes price price_in_purchased_currency currency takehome_percentage is_trial_conversion
        cancellation_reason expiration_reason grace_period_expires_at_ms auto_resume_at_ms transferred_from
        transferred_to amount transaction_type experiment_id variant_id
    """
    extra = """
        app_id transaction_id original_transaction_id entitlement_ids country_code renewal_number offer_code
        is_family_share tax_percentage commission_percentage presented_offering_id exchange_rate merged_sequences
        sequence
    """
    assert names(event.Event) == set(specified.split()) | set(extra.split())


def test_what_an_event_does_not_know_is_null_and_what_is_not_its_types_is_left_out() -> None:
    bare = event.Event(
        id="e1",
        type="TRANSFER",
        app_user_id="ada",
        original_app_user_id="ada",
        aliases=["ada"],
        event_timestamp_ms=1,
        environment="SANDBOX",
        entitlements={},
    )
    assert msgspec.to_builtins(event.Envelope(event=bare)) == {
        "api_version": "1.0",
        "event": {
            "id": "e1",
            "type": "TRANSFER",
            "app_user_id": "ada",
            "original_app_user_id": "ada",
            "aliases": ["ada"],
            "product_id": None,
            "period_type": None,
            "purchased_at_ms": None,
            "expiration_at_ms": None,
            "original_purchase_date_ms": None,
            "event_timestamp_ms": 1,
            "environment": "SANDBOX",
            "store": None,
            "entitlements": {},
            "price": 0,
            "price_in_purchased_currency": 0,
            "currency": None,
            "takehome_percentage": 1,
        },
    }


def test_a_receiver_reads_an_event_that_has_fields_it_has_never_heard_of() -> None:
    body = b"""{"api_version": "1.0", "colour": 1, "event": {"id": "e", "type": "NEW_TYPE", "app_user_id": "a",
        "original_app_user_id": "a", "aliases": [], "event_timestamp_ms": 1, "environment": "PRODUCTION", "new": {},
        "entitlements": {"pro": {"product_identifier": "p", "purchase_date": "2026-11-15T00:19:44Z"}}}}"""
    read = msgspec.json.decode(body, type=event.Envelope)
    assert read.event.type == "NEW_TYPE"
    assert read.event.entitlements["pro"].expires_date is None


def test_nulls_are_written_and_absent_fields_are_not() -> None:
    entitlement = event.Entitlement(product_identifier="p", purchase_date="2026-11-15T00:19:44Z")
    assert msgspec.to_builtins(entitlement)["expires_date"] is None
    error = errors.V2Error(type="server_error", message="m", retryable=True)
    assert msgspec.to_builtins(error) == {
        "object": "error",
        "type": "server_error",
        "message": "m",
        "retryable": True,
    }
