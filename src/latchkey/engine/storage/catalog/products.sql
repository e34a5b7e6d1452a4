-- part: product_columns
p.id, p.display_name, p.kind, p.duration, p.trial_duration, p.price_micros, p.currency,
    p.credits_code, p.credits_amount, p.created_at, p.deleted_at, p.type, p.app_ids,
    coalesce(
        (
            select a.id from unnest(p.app_ids) with ordinality as sold (app_id, place)
            join apps a on a.project_id = p.project_id and a.id = sold.app_id
            order by sold.place
            limit 1
        ),
        (select a.id from apps a where a.project_id = p.project_id order by a.created_at, a.id limit 1)
    ) as app_id,
    array(
        select g.entitlement_id from product_entitlements g
        where g.project_id = p.project_id and g.product_id = p.id
        order by g.entitlement_id
    ) as entitlement_ids

-- name: list_products
-- a page of products, by id; with deleted ones ($4), of an app ($5), granting an entitlement ($6), with these ids ($7)
select {product_columns}
from products p
where p.project_id = $1 and ($2::text is null or p.id > $2) and ($4 or p.deleted_at is null)
    and ($5::text is null or p.app_ids = '{}' or $5 = any(p.app_ids))
    and ($6::text is null or exists (
        select from product_entitlements g where g.project_id = $1 and g.product_id = p.id and g.entitlement_id = $6
    ))
    and ($7::text[] is null or p.id = any($7))
order by p.id
limit $3;

-- name: save_product
-- create a product, or change an existing one; a deleted one is on sale again
insert into products (
    project_id, id, display_name, kind, duration, trial_duration, price_micros, currency, credits_code, credits_amount,
    created_at, type, app_ids
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
on conflict (project_id, id) do update set
    display_name = excluded.display_name, duration = excluded.duration, trial_duration = excluded.trial_duration,
    price_micros = excluded.price_micros, currency = excluded.currency, credits_code = excluded.credits_code,
    credits_amount = excluded.credits_amount, created_at = excluded.created_at, deleted_at = null, type = excluded.type,
    app_ids = excluded.app_ids;

-- name: delete_product
-- take a product off sale; its owners keep it
update products set deleted_at = $3 where project_id = $1 and id = $2 and deleted_at is null;

-- name: load_product_prices
-- the listed prices of some products
select product_id, store, country, currency, price_micros
from product_prices
where project_id = $1 and product_id = any($2::text[])
order by product_id, store, country, currency;

-- name: save_product_prices
-- list prices of a product, or change their amounts
insert into product_prices (project_id, product_id, store, country, currency, price_micros)
select $1, $2, store, country, currency, micros
from unnest($3::text[], $4::text[], $5::text[], $6::bigint[]) as listed (store, country, currency, micros)
on conflict (project_id, product_id, store, country, currency) do update set price_micros = excluded.price_micros;

-- name: delete_product_price
-- take a listed price of a product away, or all of them
delete from product_prices
where project_id = $1 and product_id = $2 and ($3::text is null or store = $3 and country = $4 and currency = $5);

-- name: create_entitlement
-- a new entitlement; nothing when the id is taken
insert into entitlements (project_id, id, display_name, created_at) values ($1, $2, $3, $4)
on conflict (project_id, id) do nothing;

-- name: list_entitlements
-- a page of a project's entitlements, by id; or the one with an id
select id, display_name, created_at
from entitlements
where project_id = $1 and {page by id};

-- name: rename_entitlement
-- an entitlement's new name
update entitlements set display_name = $3 where project_id = $1 and id = $2 returning id, display_name, created_at;

-- name: delete_entitlement
-- delete an entitlement that no product grants
delete from entitlements where project_id = $1 and id = $2;

-- name: forget_former_grants
-- these products were never detached from the entitlement
delete from former_product_entitlements where project_id = $1 and entitlement_id = $2 and product_id = any($3::text[]);

-- name: insert_grants
-- attach these products to the entitlement
insert into product_entitlements (project_id, product_id, entitlement_id)
select $1, product_id, $2 from unnest($3::text[]) as product_id
on conflict do nothing;

-- name: detach_products
-- detach these products from the entitlement, and record when ($4), also for every test clock
with removed as (
    delete from product_entitlements
    where project_id = $1 and entitlement_id = $2 and product_id = any($3::text[])
    returning product_id
)
insert into former_product_entitlements (project_id, product_id, entitlement_id, detached_at, detached_on_clocks)
select
    $1::text, product_id, $2::text, $4::bigint,
    coalesce((select json_object_agg(t.id, t.now_ms) from test_clocks t where t.project_id = $1), '{}')
from removed
on conflict (project_id, product_id, entitlement_id) do update
set detached_at = excluded.detached_at, detached_on_clocks = excluded.detached_on_clocks;

-- name: next_stretch_of_customers
-- where a range of so many customers ends, how many it has, and the last customer of all; for reading range by range
select
    max(s.id) as ends_at,
    count(*) as customers,
    (select c.id from customers c where c.project_id = $1 order by c.id desc limit 1) as last
from (
    select id from customers where project_id = $1 and id > $2 order by id limit $3
) s;

-- name: customers_mentioning
-- the customers of a range whose state contains one of these words; with the time of their test clock
select c.state, t.now_ms
from customers c
left join test_clocks t on t.project_id = c.project_id and t.id = c.test_clock_id
where c.project_id = $1 and c.id > $2 and c.id <= $3
  and exists (select from unnest($4::text[]) as word where strpos(c.state::text, word) > 0);
