-- name: load_product
-- one product with what it grants, even if deleted
select p.id, p.display_name, p.kind, p.duration, p.trial_duration, p.price_micros, p.currency,
    p.credits_code, p.credits_amount, p.created_at, p.deleted_at,
    array(
        select g.entitlement_id from product_entitlements g
        where g.project_id = p.project_id and g.product_id = p.id
        order by g.entitlement_id
    ) as entitlement_ids
from products p
where p.project_id = $1 and p.id = $2;

-- name: list_products
-- a page of the products on sale, by id
select p.id, p.display_name, p.kind, p.duration, p.trial_duration, p.price_micros, p.currency,
    p.credits_code, p.credits_amount, p.created_at, p.deleted_at,
    array(
        select g.entitlement_id from product_entitlements g
        where g.project_id = p.project_id and g.product_id = p.id
        order by g.entitlement_id
    ) as entitlement_ids
from products p
where p.project_id = $1 and p.deleted_at is null and ($2::text is null or p.id > $2)
order by p.id
limit $3;

-- name: list_products_of_entitlement
-- a page of all products that grant an entitlement, by id; including deleted ones, because they still grant it
select p.id, p.display_name, p.kind, p.duration, p.trial_duration, p.price_micros, p.currency,
    p.credits_code, p.credits_amount, p.created_at, p.deleted_at,
    array(
        select g.entitlement_id from product_entitlements g
        where g.project_id = p.project_id and g.product_id = p.id
        order by g.entitlement_id
    ) as entitlement_ids
from product_entitlements m
join products p on p.project_id = m.project_id and p.id = m.product_id
where m.project_id = $1 and m.entitlement_id = $4 and ($2::text is null or p.id > $2)
order by p.id
limit $3;

-- name: save_product
-- create a product, or change an existing one; a deleted one is on sale again
insert into products (
    project_id, id, display_name, kind, duration, trial_duration, price_micros, currency, credits_code, credits_amount,
    created_at
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict (project_id, id) do update set
    display_name = excluded.display_name,
    duration = excluded.duration,
    trial_duration = excluded.trial_duration,
    price_micros = excluded.price_micros,
    currency = excluded.currency,
    credits_code = excluded.credits_code,
    credits_amount = excluded.credits_amount,
    created_at = excluded.created_at,
    deleted_at = null;

-- name: delete_product
-- take a product off sale; its owners keep it
update products set deleted_at = $3 where project_id = $1 and id = $2 and deleted_at is null;
