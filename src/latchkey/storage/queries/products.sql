-- part: product_columns
p.id, p.display_name, p.kind, p.duration, p.trial_duration, p.price_micros, p.currency,
    p.credits_code, p.credits_amount, p.created_at, p.deleted_at, p.type,
    array(
        select s.app_id from product_apps s
        where s.project_id = p.project_id and s.product_id = p.id
        order by s.added_at, s.app_id
    ) as app_ids,
    coalesce(
        (
            select s.app_id from product_apps s
            join apps a on a.project_id = s.project_id and a.id = s.app_id
            where s.project_id = p.project_id and s.product_id = p.id
            order by s.added_at, s.app_id
            limit 1
        ),
        (select a.id from apps a where a.project_id = p.project_id order by a.created_at, a.id limit 1)
    ) as app_id,
    array(
        select g.entitlement_id from product_entitlements g
        where g.project_id = p.project_id and g.product_id = p.id
        order by g.entitlement_id
    ) as entitlement_ids

-- name: load_product
-- one product with what it grants, even if deleted
select {product_columns}
from products p
where p.project_id = $1 and p.id = $2;

-- name: list_products
-- a page of the products on sale, by id; only those that are sold in an app, if one is given
select {product_columns}
from products p
where p.project_id = $1 and p.deleted_at is null and ($2::text is null or p.id > $2)
    and (
        $4::text is null
        or not exists (select from product_apps s where s.project_id = $1 and s.product_id = p.id)
        or exists (select from product_apps s where s.project_id = $1 and s.product_id = p.id and s.app_id = $4)
    )
order by p.id
limit $3;

-- name: list_products_of_entitlement
-- a page of all products that grant an entitlement, by id; including deleted ones, because they still grant it
select {product_columns}
from product_entitlements m
join products p on p.project_id = m.project_id and p.id = m.product_id
where m.project_id = $1 and m.entitlement_id = $4 and ($2::text is null or p.id > $2)
order by p.id
limit $3;

-- name: save_product
-- create a product, or change an existing one; a deleted one is on sale again
insert into products (
    project_id, id, display_name, kind, duration, trial_duration, price_micros, currency, credits_code, credits_amount,
    created_at, type
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (project_id, id) do update set
    display_name = excluded.display_name,
    duration = excluded.duration,
    trial_duration = excluded.trial_duration,
    price_micros = excluded.price_micros,
    currency = excluded.currency,
    credits_code = excluded.credits_code,
    credits_amount = excluded.credits_amount,
    created_at = excluded.created_at,
    deleted_at = null,
    type = excluded.type;

-- name: remove_product_apps
-- a product is not sold in other apps than these any more
delete from product_apps where project_id = $1 and product_id = $2 and not app_id = any($3::text[]);

-- name: insert_product_apps
-- a product is sold in these apps
insert into product_apps (project_id, product_id, app_id, added_at)
select $1, $2, app_id, $4 from unnest($3::text[]) as app_id
on conflict do nothing;

-- name: delete_product
-- take a product off sale; its owners keep it
update products set deleted_at = $3 where project_id = $1 and id = $2 and deleted_at is null;

-- name: load_product_prices
-- the listed prices of some products
select product_id, store, country, currency, price_micros
from product_prices
where project_id = $1 and product_id = any($2::text[])
order by product_id, store, country, currency;

-- name: count_product_prices
-- how many prices a product has
select count(*) from product_prices where project_id = $1 and product_id = $2;

-- name: save_product_price
-- list a price of a product, or change its amount
insert into product_prices (project_id, product_id, store, country, currency, price_micros, updated_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (project_id, product_id, store, country, currency) do update set
    price_micros = excluded.price_micros, updated_at = excluded.updated_at;

-- name: delete_product_price
-- take a listed price of a product away
delete from product_prices
where project_id = $1 and product_id = $2 and store = $3 and country = $4 and currency = $5;

-- name: delete_product_prices
-- take all listed prices of a product away
delete from product_prices where project_id = $1 and product_id = $2;

-- name: last_seen_country
-- where a customer was seen last
select c.last_seen_country
from aliases a
join customers c on c.project_id = a.project_id and c.id = a.customer_id
where a.project_id = $1 and a.app_user_id = $2;
