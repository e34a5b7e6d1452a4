-- name: lock_import
-- one import of a project at a time, held until the connection ends; false if another process has it
select pg_try_advisory_lock(hashtextextended('latchkey import ' || $1, 0));

-- name: find_import
-- the latest import of the same files with the same options
select id, status, staged, cursor, counts, started_at, finished_at
from imports
where fingerprint = $2 and project_id = $1
order by started_at desc
limit 1;

-- name: begin_import
-- a new import
insert into imports (project_id, id, fingerprint, status, counts, started_at) values ($1, $2, $3, 'staging', '{}', $4);

-- name: restart_import
-- read the files of an import again: what was staged is gone, or was left by another attempt
with gone as (delete from import_skips where project_id = $1 and import_id = $2 and $3)
update imports set status = 'staging', staged = 0 where project_id = $1 and id = $2;

-- name: clear_staging
-- forget the rows of every import of a project: only one runs at a time
with ids as (delete from import_ids where project_id = $1)
delete from import_rows where project_id = $1;

-- name: clear_stopped
-- the same unless an import runs, which does it at its end
with turn as materialized (
    select where pg_try_advisory_xact_lock(hashtextextended('latchkey import ' || $1, 0))
),
ids as (delete from import_ids where project_id = $1 and exists (select from turn))
delete from import_rows where project_id = $1 and exists (select from turn);

-- name: count_staged
-- how many rows wait, the applied ones included
select count(*) from import_rows where project_id = $1 and import_id = $2;

-- name: set_import_status
-- 'applying': the files are read, and from now on customers are written; 'done': everything is written
-- The cursor is an id of the last customer written: a finished import needs none.
update imports set status = $3, counts = $4, staged = coalesce($5, staged), finished_at = $6,
    cursor = case when $3 = 'done' then '' else cursor end
where project_id = $1 and id = $2;

-- name: group_staged_by_alias
-- rows under another id of a customer go to that customer; of several that claim an id, the newest word counts
with named as (
    select distinct on (app_user_id) app_user_id, customer
    from import_ids
    where import_id = $2 and project_id = $1
    order by app_user_id, as_of desc, customer
)
update import_rows r
set customer = named.customer
from named
where r.project_id = $1 and r.import_id = $2 and r.customer = named.app_user_id and r.customer <> named.customer;

-- name: group_staged_by_chain
-- all rows of a purchase go to the customer that its newest row names
with named as (
    select store, chain, (array_agg(customer order by updated_at desc, customer))[1] as customer
    from import_rows
    where project_id = $1 and import_id = $2 and chain is not null
    group by store, chain
    having min(customer) <> max(customer)
)
update import_rows r
set customer = named.customer
from named
where r.project_id = $1 and r.import_id = $2 and r.store = named.store and r.chain = named.chain
    and r.customer <> named.customer;

-- name: next_staged
-- the next rows in the order of customers
select customer, n, body
from import_rows
where project_id = $1 and import_id = $2 and customer > $3
order by customer, n
limit $4;

-- name: staged_of_customer
-- all rows of one customer
select body from import_rows where project_id = $1 and import_id = $2 and customer = $3 order by n;

-- name: advance_import
-- customers up to this one are written; no row if another process was faster
update imports set cursor = $4, counts = $5
where project_id = $1 and id = $2 and cursor = $3
returning id;

-- name: list_import_skips
-- what was not imported and why, in the order of the files
select n, file, line, reason
from import_skips
where project_id = $1 and import_id = $2 and n > $3
order by n
limit $4;

-- name: reasons_of_skips
-- how often each reason was given
select reason, count(*) as rows
from import_skips
where project_id = $1 and import_id = $2
group by reason
order by count(*) desc, reason;

-- name: add_import_skips
-- rows that could not be applied
insert into import_skips (project_id, import_id, n, file, line, reason)
select $1, $2, nextval('import_skips_n_seq'), * from unnest($3::text[], $4::bigint[], $5::text[]);

-- name: new_customer_keys
-- keys for new customers of a project
select next_customer_keys($1, $2) as id;

-- name: import_customers
-- new customers, whole
insert into customers (
    project_id, id, app_user_id, state, next_due_at, first_seen_at, last_seen_at, last_seen_platform,
    last_seen_platform_version, last_seen_app_version, last_seen_country, first_platform, first_app_version, first_country
)
select $1, n.*, n.platform, n.app_version, n.country
from unnest(
    $2::bigint[], $3::text[], $4::json[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[],
    $11::text[]
) as n (id, app_user_id, state, due_at, first_seen_at, last_seen_at, platform, platform_version, app_version, country);
