-- name: load_catalog
-- what a catalog has beside its products and offerings, and its version
select p.catalog_version, p.test_store, p.fees, p.sequence_floor, p.chart_attributes,
    exists (select from product_prices l where l.project_id = p.id) as lists_prices,
    array(select e.id from entitlements e where e.project_id = p.id) as entitlements
from projects p
where p.id = $1;

-- name: former_grants
-- what products granted until it was detached
select product_id, entitlement_id, detached_at, detached_on_clocks
from former_product_entitlements where project_id = $1;

-- name: project_settings
-- the settings of projects that a change needs, and the version of the exchange rates
select id, catalog_version, restore_behavior, (select version from exchange_rate_readings where id = 1) as rates_version
from projects where id = any($1::text[]);
