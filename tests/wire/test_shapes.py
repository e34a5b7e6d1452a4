"""The shapes on the wire hold exactly what the specification's tables name."""

import msgspec

from latchkey.wire import event


def names(shape: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape)}


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


def test_a_receiver_reads_an_event_that_has_fields_it_has_never_heard_of() -> None:
    body = b"""{"api_version": "1.0", "colour": 1, "event": {"id": "e", "type": "NEW_TYPE", "app_user_id": "a",
        "original_app_user_id": "a", "aliases": [], "event_timestamp_ms": 1, "environment": "PRODUCTION", "new": {},
        "entitlements": {"pro": {"product_identifier": "p", "purchase_date": "2026-11-15T00:19:44Z"}}}}"""
    read = msgspec.json.decode(body, type=event.Envelope)
    assert read.event.type == "NEW_TYPE"
    assert read.event.entitlements["pro"].expires_date is None
