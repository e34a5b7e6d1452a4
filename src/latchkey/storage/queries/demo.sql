-- name: add_demo_entitlements
-- add the demo's entitlements that do not exist yet
insert into entitlements (project_id, id, display_name, created_at)
select $1, id, display_name, $2
from (values ('pro', 'Pro'), ('team', 'Team')) as demo (id, display_name)
on conflict do nothing;

-- name: add_demo_currencies
-- add the demo's virtual currency
insert into virtual_currencies (project_id, code, name, description, created_at)
values ($1, 'COIN', 'Coins', 'Spent inside the demo app', $2)
on conflict do nothing;

-- name: add_demo_products
-- add the demo's products that do not exist yet
insert into products (
    project_id, id, display_name, kind, duration, trial_duration, price_micros, currency, credits_code, credits_amount,
    created_at
)
select $1, id, display_name, kind, duration, trial_duration, price_micros, 'USD', credits_code, credits_amount, $2
from (values
    ('pro_monthly',  'Pro, monthly',   'subscription', 'P1M', 'P7D',  9990000, null,   null),
    ('pro_yearly',   'Pro, yearly',    'subscription', 'P1Y', null,  79990000, null,   null),
    ('team_monthly', 'Team, monthly',  'subscription', 'P1M', null,  29990000, null,   null),
    ('pro_lifetime', 'Pro, for ever',  'one_time',     null,  null, 199990000, null,   null),
    ('coins_100',    '100 coins',      'one_time',     null,  null,   1990000, 'COIN', 100)
) as demo (id, display_name, kind, duration, trial_duration, price_micros, credits_code, credits_amount)
on conflict do nothing;

-- name: add_demo_mapping
-- attach the demo's products to its entitlements
insert into product_entitlements (project_id, product_id, entitlement_id)
select $1, product_id, entitlement_id
from (values
    ('pro_monthly', 'pro'), ('pro_yearly', 'pro'), ('pro_lifetime', 'pro'),
    ('team_monthly', 'pro'), ('team_monthly', 'team')
) as demo (product_id, entitlement_id)
on conflict do nothing;

-- name: announce_catalog
-- increment the catalog's version, so that readers parse it again
update projects set catalog_version = catalog_version + 1 where id = $1;

-- name: has_catalog
-- whether a project has anything in its catalog
select exists (select from products where project_id = $1) or exists (select from entitlements where project_id = $1);
