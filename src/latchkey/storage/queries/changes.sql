-- name: look_at_customers
-- what changes to customers of one project need to know, without locks; a row for each asked id and claimed purchase
select asked.app_user_id, asked.store, asked.store_id,
    p.catalog_version, (select version from exchange_rate_readings where id = 1) as rates_version,
    c.id as key, c.revision, c.state, {last_visit},
    o.store_id is not null as is_owned, o.customer_id as owner
from unnest($2::text[], $3::text[], $4::text[]) as asked (app_user_id, store, store_id)
join projects p on p.id = $1
-- Lateral with a limit: one index lookup for each row, even with a plan that was made while the table was empty.
left join lateral (
    select a.customer_id from aliases a where a.project_id = $1 and a.app_user_id = asked.app_user_id limit 1
) as a on true
left join lateral (
    select c.* from customers c where c.project_id = $1 and c.id = a.customer_id limit 1
) as c on true
left join lateral (
    select o.store_id, o.customer_id from purchase_owners o
    where o.project_id = $1 and o.store = asked.store and o.store_id = asked.store_id
    limit 1
) as o on true;

-- name: write_changes
-- everything that changes to customers of one project write; see the migration that makes the function
select write_changes($1, $2, $3, $4);
