"""Where each named statement runs in a distributed database. A test compares the lists with `queries/*.sql`, so that a
new statement cannot be forgotten; another asks a real cluster.

A statement that uses a table spread by project runs on the node of its project, as a function (`functions.py`). The
classes below say how its project is found. Everything else is at home: it uses only tables that the coordinator has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class AtProject:
    """On one shard: a parameter is the project."""

    parameter: int = 1


@dataclass(frozen=True, slots=True)
class Columns:
    """Parallel arrays, by the number of their parameters; the first is the project of each entry."""

    first: int
    last: int
    also: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        return (*range(self.first, self.last + 1), *self.also)


@dataclass(frozen=True, slots=True)
class ByProject:
    """On one shard for each project that the arrays name; almost always that is one."""

    columns: tuple[Columns, ...]
    # Whether there is one row for each entry, in the order of the entries.
    in_order: bool = False
    # The column of the rows that numbers the entries, from 1.
    place: str | None = None


@dataclass(frozen=True, slots=True)
class AtWebhook:
    """On the shard of a webhook's project; the parameter is the webhook's key."""

    parameter: int = 1


@dataclass(frozen=True, slots=True)
class ByWebhook:
    """As `ByProject`, for arrays that begin with the keys of webhooks."""

    first: int
    last: int
    # A parameter that must differ from call to call: each call adds this many.
    apart: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class EachShard:
    """On all shards on purpose, one after the other: work that is due in any project. `limit` is the parameter with the
    number of rows that are wanted; later shards are asked for the rest."""

    why: str
    limit: int | None = None
    merge: Literal["rows", "sums"] = "rows"
    # Of sums: the columns of which the least counts.
    least: tuple[str, ...] = ()
    # By the first column, and not more than the limit.
    sorted: bool = False


@dataclass(frozen=True, slots=True)
class Home:
    """On the coordinator: reference and local tables only. `quick`: as a function too, with its plan kept, because it
    is part of a hot path."""

    quick: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """Sent as it is, over all shards on purpose; Citus makes the plan."""

    why: str


@dataclass(frozen=True, slots=True)
class Apart:
    """Not sent to a distributed database: storage uses other statements there."""

    why: str


Route = AtProject | ByProject | AtWebhook | ByWebhook | EachShard | Home | Planned | Apart


def _by_project(last: int, *, in_order: bool = False, place: str | None = None) -> ByProject:
    return ByProject((Columns(1, last),), in_order, place)


_DUE = "what is due in any project"
_OF_ALL = "the state of the whole deployment"

_SPECIAL: Final[dict[str, Route]] = {
    # Hot.
    "read_leased": AtProject(3),
    "read_customers": _by_project(2, in_order=True),
    "touch_customers": _by_project(7),
    "admit_requests": Home(quick=True),
    "admit_with_leases": Home(quick=True),
    "key_as_known": Home(quick=True),
    "hand_back": Home(quick=True),
    "project_settings": Home(quick=True),
    "webhooks_by_key": Home(quick=True),
    # Local tables with reference tables, for which Citus has no plan.
    "note_key_uses": Home(quick=True),
    "prune_key_uses": Home(quick=True),
    "start_replay": Home(quick=True),
    "take_replay": Home(quick=True),
    "admit_reads": Apart("counting requests is for the coordinator, reading for the project's node"),
    "admit_reads_with_leases": Apart("as admit_reads"),
    # Batches of customers.
    "share_clocks": _by_project(2),
    "lock_customers": _by_project(2),
    "current_owners_of_purchases": _by_project(3),
    "app_user_ids_by_digest": _by_project(2),
    "known_app_user_ids": _by_project(2),
    "create_customers": _by_project(5),
    "owners_of_purchases": _by_project(3),
    "add_aliases": _by_project(3),
    "keep_emails": _by_project(3),
    "move_purchases": _by_project(4),
    "lock_credited_customers": _by_project(2),
    "known_events": _by_project(2),
    "save_handles": _by_project(12),
    # Delivery.
    "claim_lanes": ByWebhook(1, 2, apart=(5, 500)),
    "release_lanes": _by_project(5),
    "record_attempts": ByProject((Columns(1, 17, (19,)),), place="place"),
    "record_last_deliveries": AtWebhook(9),
    "vitals_of_webhooks": ByWebhook(1, 1),
    "page_of_deliveries": AtWebhook(),
    "last_failed_attempt": AtWebhook(),
    "prune_deliveries": AtWebhook(),
    "clear_lanes_of_deleted": AtWebhook(),
    "clear_deleted": AtWebhook(),
    "webhook_has_rows": AtWebhook(),
    "due_webhooks": EachShard(_DUE),
    "part_is_pending": EachShard("a part has rows of all projects", merge="sums"),
    "keep_deliveries": EachShard("a part has rows of all projects", merge="sums"),
    "size_of_part": Apart("the size of a table on all nodes is another question there"),
    "watch_queue": EachShard(_OF_ALL),
    "watch_queue_estimate": EachShard(_OF_ALL, merge="sums"),
    "watch_figures": EachShard(_OF_ALL, merge="sums", least=("committed_at",)),
    "look_at_feeds": Planned(_OF_ALL),
    # After a restore, when nothing else works on the database.
    "hold_lanes": EachShard("what waits in any project", merge="sums"),
    "free_lanes": EachShard("what waits in any project", merge="sums"),
    # The clock, the stores and the figures.
    "customers_due": EachShard(_DUE, limit=2),
    "next_customer_due": Planned(_DUE),
    "claim_checks": EachShard(_DUE, limit=3),
    "claim_acknowledgements": EachShard(_DUE, limit=3),
    "look_at_figures": EachShard(_DUE, merge="sums"),
    "start_figures": EachShard("new projects, wherever they are"),
    "take_figures_behind": EachShard(_DUE, limit=2, sorted=True),
    "figures_batch": _by_project(2),
    "figure_lines_of": _by_project(2),
    "write_figures": ByProject((Columns(1, 4), Columns(5, 27), Columns(28, 49), Columns(50, 56))),
    "count_newcomers": _by_project(3),
    # Their project is their first parameter.
    "write_changes": AtProject(),
    "offering_choice": AtProject(),
    "import_customers": AtProject(),
    "import_aliases": AtProject(),
    "import_handles": AtProject(),
    "requeue_deliveries": AtProject(),
    "new_customer_keys": AtProject(),
    "begin_import": AtProject(),
    "add_import_skips": AtProject(),
    "insert_feed": AtProject(),
    "outcomes_of_replay": AtProject(),
    "next_handles_due": Planned(_DUE),
    "count_reads": Home(quick=True),
    "read_admitted": AtProject(),
    # Several statements of queries/distribution.sql, put together in `handlers.py`.
    "create_project": Apart("a reference table and a table by project"),
    "forget_webhook": Apart("a reference table, a local one and two by project"),
    "load_replay": Apart("a local table and one by project"),
    "next_due_of_stores": Apart("a local table and one by project"),
    "forget_store_data": Apart("a local table and one by project"),
}

# The project is the first parameter.
_AT_PROJECT: Final = """
count_events_since count_newcomers_of_project
next_stretch_of_customers customers_mentioning look_at_customers next_due_on_clock customers_due_on_clock
clock_is_used currency_was_moved list_customers list_customers_by_email newest_customers customers_by_key
customers_by_whole_id customers_by_whole_email customers_by_transaction customers_by_start_of_id
customers_by_start_of_email place_of_event newest_events_of_customer deliveries_of_events movements_of_customer
owner_of_purchase aliases_of_customer move_aliases move_currency_transactions refer_currency_transactions
currency_transactions_by_key absorb_customer delete_customer disown_purchases postpone_customer customer_key
customer_state delivery_place deliveries_of_customer load_delivery attempts_of_delivery forget_handles feed_head
listed_events listed_events_of_customer listed_events_of_clock events_after shown_event tally_deliveries
listed_deliveries_of_event events_of_project events_of_customer event_by_id bodies_of_customer transfers_from
replace_bodies export_snapshot export_customers export_stretch export_changed_customers export_gone_customers
export_events export_rewritten_events export_tokens export_size take_figures await_figures figures_progress
figure_sums figure_rest newcomers_by_day sandbox_newcomers figure_environments find_import restart_import
staged_import advance_import finish_import list_import_skips reasons_of_skips override_offering
clear_offering_override last_seen_country find_delivery lock_lanes hurry_lane resend_delivery feed_end
committed_at events_to_replay load_handles handles_of_purchase still_to_ask set_check_at set_acknowledge_at
newest_clocks customers_on_clock
highest_sequence move_figures_on move_feed_on move_customer_keys_of_project_on read_purchases_again
"""

# Reference and local tables only, or none.
_HOME: Final = """
server_found timeline_history note_server running_services begin_restore load_restore note_moved finish_restore
projects_restored set_sequence_floor move_customer_keys_on stop_replays hold_announcements reset_webhook_health
free_exports read_histories_again
log_requests load_key_uses list_requests list_requests_of_key logged_routes prune_request_log logged_keys
prune_requests_of_key keep_event_traces load_event_traces prune_event_traces
drop_part lock_parts database_time list_parts open_part size_of_spread_part
watch_journal keys_about_to_expire look_at_shard_rows look_at_server place_projects is_operator watch_webhooks
look_at_tables look_at_nodes rules_of_keys lock_key find_citus list_operators look_at_shards revoke_operator
look_at_standbys ask_nodes server_identity grant_operator synchronous_standbys server_role set_key_rules
server_confirms watch_failing_webhooks
create_account load_account find_account find_account_by_openid link_openid password_of set_password
count_accounts put_member remove_member lock_owners role_of projects_of_account members_of_project open_session
find_session touch_session set_notice clear_notice end_session end_sessions_of_account end_session_of_account
sessions_of_account forget_old_sessions create_invitation forget_invitations find_invitation take_invitation
await_turn_to_guess count_failed_sign_ins note_failed_sign_in forget_failed_sign_ins forget_one_sign_in
begin_second_factor load_second_factor confirm_second_factor use_step remove_second_factor forget_recovery_codes
add_recovery_codes use_recovery_code count_recovery_codes begin_half_sign_in find_half_sign_in take_half_sign_in
forget_half_sign_ins
begin_audit_entry finish_audit_entry forget_in_audit_entries list_audit_entries list_audit_entries_between
list_audit_entries_of list_audit_entries_by load_audit_entry former_key_stores load_catalog catalog_grid
catalog_version save_checkout load_checkout set_checkout_handle claim_checkouts set_checkout_check
finish_checkout forget_checkouts prune_checkouts create_clock clock_by_id clocks_of_project hold_clock
move_clock delete_clock create_currency load_currency list_currencies update_currency products_crediting
forget_credits delete_currency credited_products set_product_credit walk_in_order share_clock currency_codes
experiment_by_id webhook_was_made webhook_key page_of_operational_events operational_event_place
add_demo_entitlements add_demo_currencies add_demo_products add_demo_mapping add_demo_offerings
add_demo_packages add_demo_package_products add_demo_base_plans sell_demo_base_plans add_demo_placements
announce_catalog has_catalog insert_project projects_of_webhooks a_project_of_each_shard forget_empty_webhook
webhook_is_replayed replay_alone next_notification_due forget_notifications create_entitlement load_entitlement
load_entitlements list_entitlements rename_entitlement delete_entitlement products_granting known_products
attach_products detach_products create_experiment update_experiment list_experiments create_export change_export
load_export list_exports delete_export run_export_now some_export_due claim_export renew_export finish_export
begin_export_run finish_export_run list_export_runs last_export_runs lock_import clear_staging count_staged
group_staged_by_alias group_staged_by_chain next_staged staged_of_customer create_key list_keys load_key
find_key revoke_key create_offering load_offering list_offerings update_offering unset_current_offering
set_current_offering delete_offering uses_of_offering create_package load_package packages_of_offering
packages_of_offerings rename_package order_packages delete_package products_of_packages attach_to_package
detach_from_package packages_with_product create_placement load_placement list_placements update_placement
unset_fallback_placement set_fallback_placement delete_placement announce claim_announcements
record_announcement load_product list_products list_products_of_entitlement save_product set_product_apps
delete_product load_product_prices count_product_prices save_product_price delete_product_price
delete_product_prices load_project list_projects update_project create_app update_app load_app list_apps
apps_of_project delete_app prunable_webhooks rates_version rates_since lock_rates known_rates put_rates
save_rates_version save_rates_reading rates_reading list_rates rate_currencies load_fees save_fees
note_missing_rates list_missing_rates unfinished_replays advance_replay
load_a_sealed_secret ensure_store_connection load_store_connection load_store_connections
store_connection_by_token connected_apps save_store_credentials delete_store_credentials note_store_check
lock_store_connection rotate_notification_token note_notified note_history_read file_notifications
claim_notifications hold_notifications finish_notifications postpone_notification load_notification
list_notifications reprocess_notification reprocess_notifications receipt_shown_by_another
count_failed_notifications count_store_troubles prune_notifications note_healing list_healings
take_temporary_grant troubled_webhooks replays_of_webhook create_webhook load_webhook lock_webhook list_webhooks
update_webhook rotate_webhook_secret delete_webhook lock_health save_health wake_workers write_probe
"""

ROUTES: Final[dict[str, Route]] = {
    **dict.fromkeys(_AT_PROJECT.split(), AtProject()),
    **dict.fromkeys(_HOME.split(), Home()),
    **_SPECIAL,
}
