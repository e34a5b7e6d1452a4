"""What may import what: the parts of the package, and the files of a subject by their names."""

from __future__ import annotations

# Imports go one way. A part may import itself and these parts.
ARROWS: dict[str, set[str]] = {
    # `wire` holds the data formats that apps see; `domain` holds the rules, which know no format and no storage.
    "wire": set(),
    "domain": set(),
    "database": {"domain", "wire", "database_address"},
    # The one transaction and what surrounds it.
    "engine": {"domain", "wire", "database", "observability"},
    "stores": {"domain", "wire", "http_client", "now"},
    "observability": {"domain", "database", "settings"},
    # The shells of the API and of the dashboard. They use what subjects offer to all: rules, use cases and formats.
    "http": {"domain", "wire", "database", "engine", "stores", "settings", "logs", "observability"},
    "dashboard": {"domain", "wire", "database", "engine", "stores", "settings", "logs", "http"},
    # Store emulators share no code with the adapters that check what they send.
    "emulators": {"domain", "http_client", "now", "server", "settings"},
    # The consumer runs in other people's servers and knows the service only by its data formats.
    "client": {"wire", "http_client"},
    "push": {"http_client"},
    "runtime": {"http_client"},
    "consumer": {"wire", "client", "push", "database_address"},
    # What every process needs.
    "http_client": set(),
    "database_address": set(),
    "now": set(),
    "garbage": set(),
    "logs": set(),
    "settings": {"domain"},
    "server": {"garbage", "settings"},
}
# A subject has one folder, `subjects/<subject>/`. What a file in it may import follows from its name: these files of
# its own subject, these files of other subjects, and these parts.
OWN: dict[str, set[str]] = {
    "rules": set(),
    "wire": {"rules"},
    "storage": {"rules"},
    "delivery": {"rules", "storage", "wire"},
    "usecases": {"rules", "storage", "wire", "render", "delivery"},
    "render": {"rules", "wire", "usecases", "delivery"},
    "api": {"rules", "wire", "render", "usecases", "delivery"},
    "page": {"rules", "wire", "render", "usecases", "delivery"},
    "command": {"rules", "wire", "render", "usecases", "delivery", "receiver"},
    "receiver": {"rules", "wire", "delivery"},
}
SHELLS = ("http", "dashboard")
OTHERS: dict[str, set[str]] = {
    "rules": {"rules"},
    "wire": {"wire"},
    "storage": {"rules"},
    "delivery": {"rules", "usecases"},
    "usecases": {"rules", "wire", "usecases", "delivery"},
    "render": {"rules", "wire", "render"},
    "receiver": {"rules"},
    # These, and the shells of the API and of the dashboard.
    **{part: {"rules", "wire", "render", "usecases", "delivery"} for part in ("api", "page", "command", *SHELLS)},
}
PARTS: dict[str, set[str]] = {
    "rules": {"domain"},
    "wire": {"domain", "wire"},
    "storage": {"domain", "wire", "database", "engine"},
    "delivery": {"domain", "wire", "database", "engine", "observability", "http_client", "settings", "now", "garbage"},
    "usecases": {"domain", "wire", "database", "engine", "observability", "stores", "http_client", "settings", "now"},
    "render": {"domain", "wire", "engine", "stores"},
    "api": {"domain", "wire", "engine", "http", "observability", "stores", "settings"},
    "page": {"domain", "wire", "engine", "dashboard", "http", "stores", "settings", "http_client"},
    "command": {"domain", "wire", "engine", "cli", "database", "stores", "settings", "now"}
    | {"http_client", "database_address"},
    "receiver": {"domain", "wire", "http_client"},
}
# These put the parts together, so they import them all. Nobody imports them but themselves.
COMPOSE = {"process", "cli"}

# Imports that are still to be mended.
TO_MEND: set[tuple[str, str]] = {
    ("dashboard/page.py", "latchkey.subjects.accounts.storage.account_rows.Membership"),
    ("http/faults.py", "latchkey.subjects.purchase_intake.api.receipts.spared"),
    ("http/front.py", "latchkey.subjects.purchase_intake.api.receipts"),
    ("http/front.py", "latchkey.subjects.purchase_intake.api.receipts.Writes"),
    ("http/services.py", "latchkey.subjects.charts.storage.fact_cache.FactCache"),
    ("http/services.py", "latchkey.subjects.charts.storage.fact_cache.default_folder"),
    ("observability/storage.py", "latchkey.engine.storage.scans"),
    ("subjects/audit/page.py", "latchkey.process.dashboard_application.ALL"),
    ("subjects/audit/usecases.py", "latchkey.subjects.accounts.storage.account_rows"),
    ("subjects/catalog/api/products_v2.py", "latchkey.subjects.projects.api.apps.rendered_apps"),
    ("subjects/charts/page/overview.py", "latchkey.subjects.onboarding.page.welcome"),
    ("subjects/charts/usecases.py", "latchkey.subjects.test_clocks.storage"),
    ("subjects/customers/render/customer_v2.py", "latchkey.subjects.customers.storage.ListedCustomer"),
    ("subjects/customers/usecases/erasure.py", "latchkey.subjects.audit.storage"),
    ("subjects/customers/usecases/erasure.py", "latchkey.subjects.bulk_grants.storage"),
    ("subjects/customers/usecases/erasure.py", "latchkey.subjects.checkout.storage"),
    ("subjects/customers/usecases/profile.py", "latchkey.http.services.Services"),
    ("subjects/demo/usecases/history.py", "latchkey.subjects.imports.storage"),
    ("subjects/demo/usecases/history.py", "latchkey.subjects.imports.storage.Newcomer"),
    ("subjects/demo/usecases/project.py", "latchkey.subjects.imports.storage"),
    ("subjects/events/page.py", "latchkey.database.pool.Database"),
    ("subjects/events/rules.py", "latchkey.subjects.customers.storage.Sent"),
    ("subjects/events/storage.py", "latchkey.subjects.customers.storage"),
    ("subjects/exports/usecases/runner.py", "latchkey.subjects.webhooks.storage.lanes.OperationalEvent"),
    ("subjects/exports/usecases/runner.py", "latchkey.subjects.webhooks.storage.lanes.announce"),
    ("subjects/mail/usecases.py", "latchkey.subjects.accounts.storage.session_rows"),
    ("subjects/onboarding/storage.py", "latchkey.subjects.webhooks.storage.webhook_rows.delivery_counts"),
    ("subjects/projects/page.py", "latchkey.subjects.purchase_intake.page.store_setup_page.shown_connection"),
    ("subjects/projects/page.py", "latchkey.subjects.test_store.page.has_store_emulator"),
    ("subjects/purchase_intake/api/receipts.py", "latchkey.subjects.customers.api.customers_v1.sorted_out"),
    ("subjects/purchases/usecases/external_snapshots.py", "latchkey.http.services.Services"),
    ("subjects/purchases/usecases/lookup.py", "latchkey.http.services.Services"),
    ("subjects/purchases/usecases/store_actions.py", "latchkey.http.services.Services"),
    ("subjects/webhooks/page/delivery_pages.py", "latchkey.subjects.webhooks.storage.log_rows.Chosen"),
}


def place_of(module: str) -> tuple[str | None, str]:
    """The subject of a module, if it is in one, and its part or the name of its file in the subject."""
    part, *below = module.split(".")[1:] or [""]
    if part == "subjects" and below:
        return below[0], below[1] if len(below) > 1 else ""
    return None, part


def may_import(module: str, other: str) -> bool:
    (subject, part), (other_subject, other_part) = place_of(module), place_of(other)
    if part in COMPOSE and subject is None:
        return True
    if other_subject is None:
        return (part == other_part and subject is None) or other_part in (ARROWS if subject is None else PARTS)[part]
    if subject == other_subject:
        return part == other_part or other_part in OWN[part]
    return other_part in OTHERS.get(part, set())
