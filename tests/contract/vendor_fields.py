"""The fields of the vendor's V2 objects: those that are always there, and those that may be.

Written from the vendor's public description, apart from the table in the code, so that one checks the other."""

REQUIRED: dict[str, set[str]] = {}
OPTIONAL: dict[str, set[str]] = {}

_OBJECTS = """
list: items next_page url
project: id name created_at | icon_url icon_url_large
product: id store_identifier type display_name created_at app_id | subscription one_time app
entitlement: id project_id lookup_key display_name created_at | products
app: id name created_at project_id type | amazon app_store mac_app_store play_store stripe rc_billing roku paddle
public_api_key: id key environment app_id created_at
offering: id project_id lookup_key display_name is_current created_at | metadata packages
package: id lookup_key display_name position created_at | products
customer: id project_id first_seen_at last_seen_at last_seen_app_version last_seen_country last_seen_platform \
  last_seen_platform_version | active_entitlements experiment attributes
customer.active_entitlement: entitlement_id expires_at
customer.alias: id created_at
customer.attribute: name value updated_at
experiment_enrollment: id name variant
authenticated_management_url: management_url
subscription: id customer_id original_customer_id product_id starts_at current_period_starts_at \
  current_period_ends_at ends_at gives_access pending_payment auto_renewal_status status total_revenue_in_usd \
  presented_offering_id entitlements environment store store_subscription_identifier ownership management_url \
  | pending_changes country
subscription_transaction: id purchased_at | product_store_identifier expiration_date effective_expiration_date
purchase: id customer_id original_customer_id product_id purchased_at revenue_in_usd quantity status \
  presented_offering_id entitlements environment store store_purchase_identifier ownership | country
invoice: id total_amount line_items issued_at paid_at invoice_url
invoice.line_item: product_identifier product_display_name product_duration quantity unit_amount
virtual_currency: project_id code name created_at | description product_grants
virtual_currency.product_grant: product_ids amount trial_amount expire_at_cycle_end
virtual_currency_balance: currency_code balance | description name
webhook_integration: id project_id name url environment app_id created_at | event_types
collaborator: id email role accepted_at has_mfa | name
audit_log: id project_id action_type target_type target_identifier actor_type actor_identifier occurred_at \
  additional_data
chart_data: category display_type display_name description resolution values yaxis | documentation_link \
  last_computed_at start_date end_date yaxis_currency filtering_allowed segmenting_allowed summary segments \
  segments_limit measures user_selectors unsupported_params
chart_options: resolutions segments filters | user_selectors
overview_metrics: metrics
overview_metric: id name description unit period value last_updated_at last_updated_at_iso8601
error: type message retryable | param doc_url backoff_ms
"""
for _line in _OBJECTS.strip().replace("\\\n", "").splitlines():
    _name, _, _fields = _line.partition(":")
    _always, _, _perhaps = _fields.partition("|")
    REQUIRED[_name] = {"object", *_always.split()}
    OPTIONAL[_name] = set(_perhaps.split())

# An object that was deleted.
DELETED = {"object", "id", "deleted_at"}
DELETED_OBJECTS = {
    "app", "customer", "entitlement", "offering", "package", "paywall", "product", "virtual_currency",
    "webhook_integration",
}  # fmt: skip
# Objects of our own, on paths that the vendor does not have.
OURS = {
    "api_key", "entitlement_explanation", "experiment", "money_settings", "placement", "store_credentials",
    "store_notification",
    "store_notifications_reprocessed", "test_clock", "webhook_delivery", "webhook_replay", "webhook_test",
    "operational_event", "product.price", "purchase_snapshot", "webhook_attempt", "export", "export_run",
    "customer_list.customer", "customer_segment", "bulk_grant", "destination_preset", "destination_preview",
    "config", "config.plan", "targeting_rule", "targeting_preview", "offering_reason",
    "offer_code", "purchase_link", "store_product", "store_products.takeover",
}  # fmt: skip
