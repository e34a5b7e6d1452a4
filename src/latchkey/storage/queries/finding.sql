-- name: find_by_name
-- things of a project whose id is this text, or whose name contains it; at most 500 of each kind are looked at
select named.kind, named.id, named.name
from (
    (select 'webhook' as kind, id, name || ' ' || url as sought, name, 1 as rank from webhooks
        where project_id = $1 and deleted_at is null order by project_id, id limit 500)
    union all
    -- Secret keys only: a public key is on the page of its app.
    (select 'key', id, name, name, 2 from api_keys
        where project_id = $1 and kind = 'secret' and revoked_at is null order by project_id, created_at, id limit 500)
    union all
    (select 'app', id, name, name, 3 from apps where project_id = $1 order by project_id, id limit 500)
    union all
    (select 'product', id, display_name || ' ' || id, display_name, 4 from products
        where project_id = $1 and deleted_at is null order by project_id, id limit 500)
    union all
    (select 'entitlement', id, display_name || ' ' || id, display_name, 5 from entitlements
        where project_id = $1 order by project_id, id limit 500)
    union all
    (select 'offering', id, display_name || ' ' || lookup_key, display_name, 6 from offerings
        where project_id = $1 order by project_id, id limit 500)
    union all
    (select 'experiment', id, name, name, 7 from experiments where project_id = $1 order by project_id, id limit 500)
) as named
where named.id = $2 or position(lower($2) in lower(named.sought)) > 0
order by named.rank, position(lower($2) in lower(named.sought)), named.name, named.id
limit $3;
