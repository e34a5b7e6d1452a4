"""Where each table is in a distributed database: the one list that `latchkey migrate --distributed` follows.

A test compares it with the migrations, so that a new table cannot be forgotten.
"""

from typing import Final, Literal, get_args

Placement = Literal["reference", "by project", "local"]
PLACES: Final[tuple[Placement, ...]] = get_args(Placement)

TABLES: Final[dict[str, Placement]] = {
    # A copy on every node. Read with everything, changed seldom: each change is a commit on all nodes.
    "projects": "reference",
    "apps": "reference",
    "api_keys": "reference",
    "entitlements": "reference",
    "products": "reference",
    "product_prices": "reference",
    "offerings": "reference",
    "packages": "reference",
    "package_products": "reference",
    "placements": "reference",
    "product_entitlements": "reference",
    "former_product_entitlements": "reference",
    "virtual_currencies": "reference",
    "experiments": "reference",
    "test_clocks": "reference",
    # Its health changes when a webhook begins to fail, at each failure after that, and when it recovers.
    "webhooks": "reference",
    "store_connections": "reference",
    "former_notification_tokens": "reference",
    "former_public_keys": "reference",
    "exchange_rate_readings": "reference",
    # A row is added when a part is opened. Partitions follow their tables.
    "partitions": "reference",
    # Spread by project_id, all in the same way: the rows of one project are on one node.
    "feeds": "by project",
    "customers": "by project",
    "aliases": "by project",
    "customer_emails": "by project",
    "absorbed_customers": "by project",
    "purchase_owners": "by project",
    "purchase_endings": "by project",
    "offering_overrides": "by project",
    "purchase_transactions": "by project",
    "currency_transactions": "by project",
    "events": "by project",
    "deliveries": "by project",
    "lanes": "by project",
    "attempts": "by project",
    "chart_periods": "by project",
    "chart_customers": "by project",
    "store_handles": "by project",
    "gone_customers": "by project",
    "rewritten_events": "by project",
    "imports": "by project",
    "import_skips": "by project",
    # The last key of a customer in each project; only a distributed database has rows here.
    "customer_keys": "by project",
    "facet_rolls": "by project",
    "facet_marks": "by project",
    "customer_facets": "by project",
    "customer_notes": "by project",
    # On the coordinator alone: of the whole deployment, of accounts, or of few rows that one process works through.
    "rate_windows": "local",
    "request_log": "local",
    "key_uses": "local",
    "idempotent_requests": "local",
    "event_traces": "local",
    "accounts": "local",
    "memberships": "local",
    "sessions": "local",
    "account_tokens": "local",
    "second_factors": "local",
    "outgoing_mails": "local",
    "failed_sign_ins": "local",
    "audit_entries": "local",
    "exchange_rates": "local",
    "missing_rates": "local",
    "operational_events": "local",
    "replays": "local",
    "store_notifications": "local",
    "store_healings": "local",
    "temporary_grants": "local",
    "checkouts": "local",
    "import_rows": "local",
    "import_ids": "local",
    "customer_segments": "local",
    "bulk_grants": "local",
    "bulk_grant_customers": "local",
    "exports": "local",
    "export_runs": "local",
    "schema_migrations": "local",
    "server_identity": "local",
    "restores": "local",
}


def placed(place: Placement) -> list[str]:
    """The tables of one place, in the order in which they are to be distributed."""
    return [table for table, where in TABLES.items() if where == place]
