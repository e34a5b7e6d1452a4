"""Where each named statement runs in a distributed database. A test compares the lists with `queries/*.sql`, so that a
new statement cannot be forgotten; another asks a real cluster.

A statement that uses a table spread by project runs on the node of its project, as a function (`functions.py`). The
classes below say how its project is found. Everything else is at home: it uses only tables that the coordinator has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

_DUE = "what is due in any project"
_NEW = "new projects, wherever they are"
_OF_ALL = "the state of the whole deployment"
_MEASURED = "metrics of the whole deployment"


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
    # Whether projects on a node that is away are left out.
    goes_past: bool = False


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
    # The parameter that names one project, if it is about one.
    project: int | None = None

    @property
    def goes_past(self) -> bool:
        """Whether shards on a node that is away are left out: what is due there is found when the node is back."""
        return self.why in (_DUE, _NEW, _MEASURED)

    @property
    def by_node(self) -> bool:
        """Whether each node can be asked once, about all of its shards. Not where it matters that a shard on its way
        from one node to another is neither left out nor counted twice."""
        return self.why == _DUE and self.limit is None


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
    "hold_clock": Apart("a lock on one copy of a reference table is none on the others"),
    "attach_products": Apart("a delete and an insert into reference tables, one by one"),
    "set_product_apps": Apart("as attach_products"),
    "detach_products": Apart("as attach_products"),
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
    "claim_lanes": ByWebhook(1, 2, apart=(5, 500), goes_past=True),
    "release_lanes": _by_project(5),
    "record_attempts": _by_project(18, place="place"),
    "count_deliveries_of_webhooks": ByWebhook(1, 1),
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
    "watch_queue": EachShard(_MEASURED),
    "watch_queue_estimate": EachShard(_MEASURED, merge="sums"),
    "watch_lists": EachShard(_MEASURED, merge="sums", least=("oldest_at",)),
    "look_at_feeds": Planned(_OF_ALL),
    # After a restore or a failover.
    "feed_heads": Planned(_OF_ALL),
    "move_feeds_on": Planned(_OF_ALL),
    "move_customer_keys_of_projects_on": Planned(_OF_ALL),
    "hold_lanes": EachShard("what waits in any project", merge="sums"),
    "free_lanes": EachShard("what waits in any project", merge="sums"),
    # The clock and the stores.
    "customers_due": EachShard(_DUE, limit=2),
    "next_customer_due": EachShard(_DUE, merge="sums", least=("next_due_at",)),
    "claim_checks": EachShard(_DUE, limit=3),
    "claim_acknowledgements": EachShard(_DUE, limit=3),
    "look_out_in_projects": EachShard(_DUE, merge="sums", least=("customer_at", "acknowledgement_at", "check_at")),
    "look_out": Apart("local tables and tables by project"),
    # Customer lists.
    "take_facets_behind": EachShard(_DUE, limit=2, sorted=True),
    "facets_batch": _by_project(2),
    "start_facets": EachShard(_NEW, project=1),
    "facets_stretch": _by_project(3),
    "write_facets": ByProject((Columns(1, 2), Columns(3, 23), Columns(24, 29))),
    "list_facets": AtProject(),
    "count_facets": AtProject(),
    "count_seen": AtProject(),
    # Their project is their first parameter.
    "write_changes": AtProject(),
    "offering_choice": AtProject(),
    "import_customers": AtProject(),
    "import_aliases": AtProject(),
    "import_handles": AtProject(),
    "add_past_events": AtProject(),
    "requeue_deliveries": AtProject(),
    "unqueue_replayed": AtProject(),
    "new_customer_keys": AtProject(),
    "begin_import": AtProject(),
    "add_import_skips": AtProject(),
    "insert_feed": AtProject(),
    "outcomes_of_replay": AtProject(),
    "count_reads": Home(quick=True),
    "read_admitted": AtProject(),
    # Several statements of queries/distribution.sql, put together in `handlers.py`.
    "create_project": Apart("a reference table and a table by project"),
    "forget_webhook": Apart("a reference table, a local one and two by project"),
    "load_replay": Apart("a local table and one by project"),
    "forget_store_data": Apart("a local table and one by project"),
}

# The project is the first parameter.
_AT_PROJECT: Final = """
count_events_since count_customers_of_project
next_stretch_of_customers customers_mentioning look_at_customers next_due_on_clock customers_due_on_clock
clock_is_used currency_was_moved list_customers list_customers_by_email newest_customers customers_by_key
customers_by_whole_id customers_by_whole_email customers_by_transaction customers_by_start_of_id
customers_by_start_of_email place_of_event newest_events_of_customer deliveries_of_events movements_of_customer
owner_of_purchase aliases_of_customer move_aliases move_currency_transactions refer_currency_transactions
currency_transactions_by_key absorb_customer delete_customer disown_purchases postpone_customer customer_key
lock_erased_purchases keep_endings
customer_state delivery_place deliveries_of_customer load_delivery attempts_of_delivery forget_handles feed_head
listed_events listed_events_of_customer listed_events_of_clock events_after shown_event tally_deliveries
listed_deliveries_of_event events_of_project events_after_event events_of_customer event_by_id bodies_of_customer
transfers_from
chart_periods_of chart_customers_of chart_mark chart_attributes_of chart_changes keep_erased_chart_customer
replace_bodies export_snapshot export_customers export_stretch export_changed_customers export_gone_customers
export_events export_rewritten_events export_tokens export_size
find_import restart_import
staged_import advance_import finish_import list_import_skips reasons_of_skips override_offering
clear_offering_override last_seen_country find_delivery lock_lanes hurry_lane resend_delivery feed_end
hurry_lanes hurry_deliveries
committed_at events_to_replay load_handles handles_of_purchase still_to_ask set_check_at set_acknowledge_at
newest_clocks customers_on_clock has_delivered
read_purchases_again
await_facets forget_facets customer_list_standing add_note change_note delete_note count_notes notes_of_customer
past_troubles_of_customer
"""

# Reference and local tables only, or none.
_HOME: Final = """
add_bulk_grant_customers claim_bulk_grant create_bulk_grant failures_of_bulk_grant finish_bulk_grant
forget_in_bulk_grants list_bulk_grants load_bulk_grant next_bulk_grant_customers page_of_bulk_grants
record_bulk_grant_customers renew_bulk_grant start_bulk_grant stop_bulk_grant
a_project_of_each_shard add_demo_base_plans add_demo_currencies add_demo_entitlements add_demo_mapping
add_demo_offerings add_demo_package_products add_demo_packages add_demo_placements add_demo_products add_link
add_mail add_recovery_codes advance_replay announce announce_catalog apps_of_project ask_nodes attach_to_package
await_turn_to_guess begin_audit_entry begin_export_run begin_half_sign_in begin_restore begin_second_factor
begin_idempotent_request load_idempotent_request finish_idempotent_request prune_idempotent_requests
choose_chart_attributes close_circuit note_unqueued
catalog_grid catalog_version change_export claim_announcements claim_checkouts claim_export claim_mail
claim_notifications clear_notice clear_staging clock_by_id clocks_of_project confirm_second_factor
connected_apps count_accounts count_failed_notifications count_failed_sign_ins count_mails count_product_prices
count_recovery_codes count_segments count_staged count_store_troubles create_account create_app create_clock
create_currency
create_entitlement create_experiment create_export create_invitation create_key create_offering create_package
create_placement create_webhook credited_products currency_codes database_time delete_app delete_clock
delete_currency delete_entitlement delete_export delete_offering delete_package delete_placement delete_product
delete_product_price delete_product_prices delete_segment delete_store_credentials delete_webhook
detach_from_package drop_part
end_session end_session_of_account end_sessions_of_account ensure_store_connection experiment_by_id
file_notifications find_account find_account_by_openid find_by_name find_citus find_half_sign_in find_invitation
find_key dismiss_onboarding found_of_onboarding keep_onboarding load_onboarding
find_session finish_audit_entry finish_checkout finish_export finish_export_run finish_notifications
finish_restore forget_checkouts forget_credits forget_empty_webhook forget_failed_sign_ins forget_former_grants
forget_half_sign_ins forget_in_audit_entries forget_invitations forget_notifications forget_old_sessions
forget_one_sign_in forget_recovery_codes former_key_stores free_exports grant_operator group_staged_by_alias
group_staged_by_chain has_catalog hold_announcements hold_copies_of_clock hold_notifications hurry_receipts
insert_former_grants insert_grants insert_product_apps insert_project is_operator keep_event_traces
keys_about_to_expire known_products known_rates last_export_runs link_openid list_apps list_audit_entries
list_audit_entries_between list_audit_entries_by list_audit_entries_of list_currencies list_entitlements
list_experiments list_export_runs list_exports list_healings list_keys list_missing_rates list_notifications
list_offerings list_operators list_parts list_placements list_products list_products_of_entitlement
list_projects list_rates list_requests list_requests_of_key list_segments list_webhooks load_a_sealed_secret
load_account
load_app load_audit_entry load_catalog load_checkout load_currency load_entitlement load_entitlements
load_event_traces load_export load_fees load_key load_key_uses load_notification load_offering load_package
load_placement load_product load_product_prices load_project load_restore load_second_factor load_segment
load_store_connection load_store_connections load_webhook lock_health lock_import lock_key lock_owners
lock_parts lock_rates lock_store_connection lock_webhook log_requests logged_keys logged_routes look_at_nodes
look_at_server look_at_shard_rows look_at_shards look_at_standbys look_at_tables look_out_at_home
lock_server lossy_failovers
members_of_project move_clock move_customer_keys_on next_staged node_of_project nodes_with_shards
note_failed_sign_in note_healing
note_history_read note_missing_rates note_moved note_notified note_server note_store_check open_part open_session
operational_event_place order_packages plan_each_list packages_of_offering packages_of_offerings
page_of_operational_events password_of place_projects postpone_mail postpone_notification products_crediting
products_granting products_of_packages projects_of_account projects_of_webhooks projects_restored
prunable_webhooks prune_checkouts prune_event_traces prune_notifications prune_request_log prune_requests_of_key
put_member put_rates rate_currencies rates_reading rates_since rates_version raise_sequence_floors read_histories_again
receipt_shown_by_another record_announcement remove_grants remove_mail remove_member remove_product_apps
remove_second_factor rename_entitlement rename_package renew_export replay_alone replays_of_webhook
reprocess_notification reprocess_notifications reset_webhook_health revoke_key revoke_operator role_of
rotate_notification_token rotate_webhook_secret rules_of_keys run_export_now running_services save_checkout
save_fees save_health save_product save_product_price save_rates_reading save_rates_version save_segment
save_store_credentials sell_demo_base_plans grant_demo_base_plans pack_demo_base_plans
server_found server_identity server_role server_session
sessions_of_account set_checkout_check set_checkout_handle set_current_offering set_fallback_placement
set_key_rules set_notice set_password set_product_credit share_clock size_of_spread_part
staged_of_customer start_replay stop_replay stop_replays store_connection_by_token synchronous_standbys
take_half_sign_in take_invitation take_replay take_temporary_grant timeline_history touch_session
troubled_webhooks unfinished_replays unset_current_offering unset_fallback_placement update_app update_currency
update_experiment update_offering update_placement update_project update_webhook use_recovery_code use_step
uses_of_offering wake_workers walk_in_order watch_failing_webhooks watch_journal watch_webhooks
webhook_is_replayed webhook_key webhook_was_made write_probe
"""

ROUTES: Final[dict[str, Route]] = {
    **dict.fromkeys(_AT_PROJECT.split(), AtProject()),
    **dict.fromkeys(_HOME.split(), Home()),
    **_SPECIAL,
}
