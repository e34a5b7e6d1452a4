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
    created_at, type
)
select $1, id, display_name, kind, duration, trial_duration, price_micros, 'USD', credits_code, credits_amount, $2, kind
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

-- name: add_demo_offerings
-- add the demo's offerings that do not exist yet
insert into offerings (project_id, id, lookup_key, display_name, metadata, is_current, created_at)
select $1, id, lookup_key, display_name, metadata::json, is_current and not exists (
    select from offerings o where o.project_id = $1 and o.is_current
), $2::bigint + place
from (values
    (0, 'ofrng_demo_default', 'default', 'Pro plans', true, '{"headline": "Do more with Pro", "highlight": "$rc_annual"}'),
    (1, 'ofrng_demo_team', 'team', 'Team plans', false, '{"headline": "Pro for all of you"}'),
    (2, 'ofrng_demo_coins', 'coins', 'Coins', false, null)
) as demo (place, id, lookup_key, display_name, is_current, metadata)
on conflict do nothing;

-- name: add_demo_packages
-- add the demo's packages to its offerings
insert into packages (project_id, id, offering_id, lookup_key, display_name, position, created_at)
select $1, demo.id, demo.offering_id, demo.lookup_key, demo.display_name, demo.position, $2
from (values
    ('pkge_demo_monthly', 'ofrng_demo_default', '$rc_monthly', 'Monthly', 1),
    ('pkge_demo_annual', 'ofrng_demo_default', '$rc_annual', 'Yearly', 2),
    ('pkge_demo_lifetime', 'ofrng_demo_default', '$rc_lifetime', 'For ever', 3),
    ('pkge_demo_team', 'ofrng_demo_team', '$rc_monthly', 'Team, monthly', 1),
    ('pkge_demo_coins', 'ofrng_demo_coins', 'coins_100', '100 coins', 1)
) as demo (id, offering_id, lookup_key, display_name, position)
join offerings o on o.project_id = $1 and o.id = demo.offering_id
on conflict do nothing;

-- name: add_demo_package_products
-- put the demo's products into its packages
insert into package_products (project_id, package_id, product_id, eligibility_criteria, position)
select $1, demo.package_id, demo.product_id, 'all', 1
from (values
    ('pkge_demo_monthly', 'pro_monthly'), ('pkge_demo_annual', 'pro_yearly'), ('pkge_demo_lifetime', 'pro_lifetime'),
    ('pkge_demo_team', 'team_monthly'), ('pkge_demo_coins', 'coins_100')
) as demo (package_id, product_id)
join packages k on k.project_id = $1 and k.id = demo.package_id
join products p on p.project_id = $1 and p.id = demo.product_id
on conflict do nothing;

-- name: add_demo_base_plans
-- add the demo's subscriptions as Google Play sells them: each base plan is a product of that app alone
insert into products (
    project_id, id, display_name, kind, duration, trial_duration, price_micros, currency, created_at, type
)
select p.project_id, demo.id, p.display_name, p.kind, p.duration, p.trial_duration, p.price_micros, p.currency, $2,
    'subscription'
from (values
    ('pro_monthly:monthly', 'pro_monthly'), ('pro_yearly:yearly', 'pro_yearly'), ('team_monthly:monthly', 'team_monthly')
) as demo (id, like_product)
join products p on p.project_id = $1 and p.id = demo.like_product and p.deleted_at is null
on conflict do nothing;

-- name: sell_demo_base_plans
-- sell the demo's base plans in one app
insert into product_apps (project_id, product_id, app_id, added_at)
select $1, p.id, $2, $3::bigint
from products p
where p.project_id = $1 and p.id in ('pro_monthly:monthly', 'pro_yearly:yearly', 'team_monthly:monthly')
on conflict do nothing;

-- name: grant_demo_base_plans
-- the demo's base plans grant what the products they are like grant
insert into product_entitlements (project_id, product_id, entitlement_id)
select $1, p.id, g.entitlement_id
from products p
join product_entitlements g on g.project_id = $1 and g.product_id = split_part(p.id, ':', 1)
where p.project_id = $1 and p.id in ('pro_monthly:monthly', 'pro_yearly:yearly', 'team_monthly:monthly')
on conflict do nothing;

-- name: pack_demo_base_plans
-- put the demo's base plans into the packages of the products they are like
insert into package_products (project_id, package_id, product_id, eligibility_criteria, position)
select $1, i.package_id, p.id, 'all', i.position + 1
from products p
join package_products i on i.project_id = $1 and i.product_id = split_part(p.id, ':', 1)
where p.project_id = $1 and p.id in ('pro_monthly:monthly', 'pro_yearly:yearly', 'team_monthly:monthly')
on conflict do nothing;

-- name: add_demo_placements
-- add the demo's placements
insert into placements (project_id, id, display_name, offering_id, created_at)
select $1, demo.id, demo.display_name, demo.offering_id, $2
from (values
    ('onboarding', 'At the first start', 'ofrng_demo_default'),
    ('team_settings', 'In the settings of a team', 'ofrng_demo_team')
) as demo (id, display_name, offering_id)
join offerings o on o.project_id = $1 and o.id = demo.offering_id
on conflict do nothing;

-- name: announce_catalog
-- increment the catalog's version, so that readers parse it again
update projects set catalog_version = catalog_version + 1 where id = $1;

-- name: has_catalog
-- whether a project has anything in its catalog
select exists (select from products where project_id = $1) or exists (select from entitlements where project_id = $1);

-- name: add_past_events
-- events that happened before, in the order of the feed; nobody is told of them
with head as (
    update feeds
    set position = position + cardinality($4::text[]), part = greatest(part, (select max(p.part) from parts p))
    where project_id = $1
    returning position - cardinality($4::text[]) as before, part
)
insert into events (
    project_id, position, id, customer_id, sequence, type, environment, app_id, occurred_at, committed_at, body, part
)
select $1, head.before + n.place, n.id, n.customer_id, n.sequence, n.type, n.environment, n.app_id, n.at, $2, n.body,
    head.part
from head
cross join unnest(
    $3::bigint[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::json[]
) with ordinality as n (customer_id, id, sequence, type, environment, app_id, at, body, place);
