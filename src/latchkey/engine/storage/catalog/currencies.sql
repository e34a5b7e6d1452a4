-- name: create_currency
-- a new virtual currency; nothing when the code is taken
insert into virtual_currencies (project_id, code, name, description, created_at) values ($1, $2, $3, $4, $5)
on conflict (project_id, code) do nothing;

-- name: list_currencies
-- a page of a project's virtual currencies, by code; or the one with a code
select code, name, description, created_at
from virtual_currencies
where project_id = $1 and {page by code};

-- name: update_currency
-- change a virtual currency's name and description, each if given
update virtual_currencies set name = coalesce($3, name), description = coalesce($4, description)
where project_id = $1 and code = $2
returning code, name, description, created_at;

-- name: keep_currencies
-- which of these virtual currencies there are; none of them is deleted before the transaction ends
select code from virtual_currencies where project_id = $1 and code = any($2::text[]) for key share;

-- name: currency_was_moved
-- whether any customer ever had any of a virtual currency
select exists (select from currency_transactions where project_id = $1 and code = $2);

-- name: delete_currency
-- delete a virtual currency; deleted products no longer credit it
with former as (
    update products set credits_code = null, credits_amount = null
    where project_id = $1 and credits_code = $2 and deleted_at is not null
)
delete from virtual_currencies where project_id = $1 and code = $2;

-- name: credited_products
-- the products on sale that credit one of these virtual currencies, with the amounts
select id as product_id, credits_code as code, credits_amount as amount from products
where project_id = $1 and credits_code = any($2::text[]) and deleted_at is null
order by id;

-- name: set_product_credit
-- set what a product credits; null is nothing
update products set credits_code = $3, credits_amount = $4 where project_id = $1 and id = $2;
