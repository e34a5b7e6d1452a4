"""Where each table is in a distributed database: the one list that `latchkey migrate --distributed` follows.

A test compares it with the migrations, so that a new table cannot be forgotten.
"""

from typing import Final, Literal

Placement = Literal["reference", "by project", "local"]

# In the order in which they are to be distributed.
_PLACED: Final[dict[Placement, str]] = {
    # A copy on every node. Read with everything, changed seldom: each change is a commit on all nodes. The health of a
    # webhook changes when it begins to fail, at each failure after that, and when it recovers. `partitions` gets a row
    # when one is opened; partitions follow their tables.
    "reference": """
        projects apps api_keys entitlements products product_prices offerings packages package_products placements
        product_entitlements former_product_entitlements virtual_currencies experiments test_clocks webhooks
        store_connections former_notification_tokens former_public_keys exchange_rate_readings partitions
    """,
    # Spread by project_id, all in the same way: the rows of one project are on one node. `customer_keys` has the last
    # key of a customer in each project; only a distributed database has rows there.
    "by project": """
        feeds customers aliases customer_emails absorbed_customers purchase_owners purchase_endings offering_overrides
        purchase_transactions currency_transactions events deliveries lanes attempts chart_periods chart_customers
        store_handles gone_customers rewritten_events imports import_skips customer_keys facet_rolls facet_marks
        customer_facets customer_notes
    """,
    # On the coordinator alone: of the whole deployment, of accounts, or of few rows that one process works through.
    "local": """
        rate_windows request_log key_uses idempotent_requests event_traces accounts memberships sessions account_tokens
        second_factors outgoing_mails failed_sign_ins audit_entries exchange_rates missing_rates operational_events
        replays store_notifications store_healings temporary_grants checkouts import_rows import_ids customer_segments
        bulk_grants bulk_grant_customers exports export_runs schema_migrations server_identity restores
    """,
}

TABLES: Final = {table: place for place, tables in _PLACED.items() for table in tables.split()}
