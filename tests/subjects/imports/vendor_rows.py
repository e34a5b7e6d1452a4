"""Rows of the vendor's transaction export, version 5, as tests write them."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

COLUMNS = (
    "rc_original_app_user_id", "rc_last_seen_app_user_id_alias", "country", "country_source", "product_identifier",
    "product_display_name", "product_duration", "start_time", "end_time", "grace_period_end_time",
    "effective_end_time", "store", "is_auto_renewable", "is_trial_period", "is_in_intro_offer_period", "is_sandbox",
    "price_in_usd", "purchase_price_in_usd", "takehome_percentage", "tax_percentage", "commission_percentage",
    "store_transaction_id", "original_store_transaction_id", "refunded_at", "unsubscribe_detected_at",
    "billing_issues_detected_at", "purchased_currency", "price_in_purchased_currency",
    "purchase_price_in_purchased_currency", "entitlement_identifiers", "renewal_number", "is_trial_conversion",
    "presented_offering", "ownership_type", "reserved_subscriber_attributes", "custom_subscriber_attributes",
    "platform", "experiment_id", "experiment_variant", "updated_at", "offer", "offer_type", "first_seen_time",
    "auto_resume_time",
)  # fmt: skip
# What version 5 added.
SINCE_5 = ("offer", "offer_type", "first_seen_time", "auto_resume_time")


def row(**cells: str) -> dict[str, str]:
    """A paid month of ada in the App Store, which lasts to its end; name the cells that differ."""
    return dict.fromkeys(COLUMNS, "") | {
        "rc_original_app_user_id": "ada",
        "rc_last_seen_app_user_id_alias": "ada",
        "country": "DE",
        "product_identifier": "pro_monthly",
        "product_duration": "P1M",
        "start_time": "2026-01-01 08:00:00",
        "end_time": "2026-02-01 08:00:00",
        "effective_end_time": cells.get("end_time", "2026-02-01 08:00:00"),
        "store": "app_store",
        "is_auto_renewable": "true",
        "is_trial_period": "false",
        "is_in_intro_offer_period": "false",
        "is_sandbox": "false",
        "price_in_usd": "9.99",
        "purchase_price_in_usd": "9.99",
        "takehome_percentage": "0.7",
        "tax_percentage": "0.16",
        "commission_percentage": "0.15",
        "store_transaction_id": "2000001",
        "original_store_transaction_id": "2000001",
        "purchased_currency": "EUR",
        "price_in_purchased_currency": "8.99",
        "purchase_price_in_purchased_currency": "8.99",
        "entitlement_identifiers": '["pro"]',
        "renewal_number": "1",
        "is_trial_conversion": "false",
        "ownership_type": "PURCHASED",
        "platform": "iOS",
        "updated_at": "2026-01-01 08:00:05",
        "first_seen_time": "2025-12-31 10:00:00",
    } | cells  # fmt: skip


def month(user: str, number: int = 1, /, **cells: Any) -> dict[str, str]:
    """A month of somebody that runs at noon of 9 January 2026."""
    id = f"{user}-{number}"
    return row(
        **{
            "rc_original_app_user_id": user,
            "rc_last_seen_app_user_id_alias": user,
            "store_transaction_id": id,
            "original_store_transaction_id": id,
            **cells,
        }
    )


def file_of(rows: Iterable[Mapping[str, Any]], columns: Iterable[str] = COLUMNS) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
