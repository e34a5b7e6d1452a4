-- name: newest_customers
-- a page of a project's customers, the newest first
select c.id, c.state, t.now_ms, {last_seen}
from customers c
left join test_clocks t on t.project_id = c.project_id and t.id = c.test_clock_id
where c.project_id = $1 and c.id < $2
order by c.id desc
limit $3;

-- name: customers_by_key
-- the columns that a list shows, for these customers
select c.id, c.state, t.now_ms, {last_seen}
from unnest($2::bigint[]) as asked (id)
join customers c on c.project_id = $1 and c.id = asked.id
left join test_clocks t on t.project_id = c.project_id and t.id = c.test_clock_id;

-- name: customers_by_whole_id
-- the customers with one of these ids
select customer_id, app_user_id as matched from aliases where project_id = $1 and app_user_id = any($2::text[]);

-- name: customers_by_transaction
-- the owners of purchases, or of periods, with one of these ids in any store ($3); null if the owner was erased
select o.customer_id, asked.id as matched
from unnest($3::text[]) as known (store)
cross join unnest($2::text[]) as asked (id)
cross join lateral (
    select asked.id as store_id
    union all
    (
        select store_id from purchase_transactions
        where project_id = $1 and store = known.store and transaction_id = asked.id
        limit 100
    )
) as bought
cross join lateral (
    select customer_id from purchase_owners
    where project_id = $1 and store = known.store and store_id = bought.store_id
    limit 1
) as o;

-- name: customers_by_start_of_id
-- the customers with an id that begins like this; $2 and $3 are the bounds of the range in the index
select customer_id, app_user_id as matched
from aliases
where project_id = $1
    and (project_id || E'\x1f' || lower(app_user_id collate "C")) collate "C" >= $2
    and (project_id || E'\x1f' || lower(app_user_id collate "C")) collate "C" < $3
order by (project_id || E'\x1f' || lower(app_user_id collate "C")) collate "C"
limit $4;

-- name: customers_by_email
-- the customers whose e-mail address is in a range: one address, or all that begin alike
select customer_id, email as matched
from customer_emails
where project_id = $1 and email >= $2 and email <= $3
order by email
limit $4;

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
