-- name: create_entitlement
-- a new entitlement; nothing when the id is taken
insert into entitlements (project_id, id, display_name, created_at) values ($1, $2, $3, $4)
on conflict (project_id, id) do nothing
returning id, display_name, created_at;

-- name: list_entitlements
-- a page of a project's entitlements, by id; or those with one of these ids
select id, display_name, created_at
from entitlements
where project_id = $1 and ($2::text is null or id > $2)
    and ($4::text[] is null or id = any($4))
order by id
limit $3;

-- name: rename_entitlement
-- an entitlement's new name
update entitlements set display_name = $3 where project_id = $1 and id = $2
returning id, display_name, created_at;

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

-- name: remove_grants
-- detach these products from the entitlement
delete from product_entitlements
where project_id = $1 and entitlement_id = $2 and product_id = any($3::text[])
returning product_id;

-- name: insert_former_grants
-- when these products were detached from the entitlement ($4), also for every test clock
insert into former_product_entitlements (project_id, product_id, entitlement_id, detached_at, detached_on_clocks)
select
    $1::text, product_id, $2::text, $4::bigint,
    coalesce((select json_object_agg(t.id, t.now_ms) from test_clocks t where t.project_id = $1), '{}')
from unnest($3::text[]) as product_id
on conflict (project_id, product_id, entitlement_id) do update
set detached_at = excluded.detached_at, detached_on_clocks = excluded.detached_on_clocks;
