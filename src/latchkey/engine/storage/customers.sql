-- name: share_clocks
-- the time of the test clocks of the given customers, with share locks, so that no clock moves before the commit
select t.project_id, t.id, t.now_ms
from unnest($1::text[], $2::text[]) as asked (project_id, app_user_id)
join aliases a using (project_id, app_user_id)
join customers c on c.project_id = a.project_id and c.id = a.customer_id
join test_clocks t on t.project_id = c.project_id and t.id = c.test_clock_id
for share of t;

-- name: share_clock
-- the time of one test clock, with a share lock, so that it does not move before the commit
select now_ms from test_clocks where project_id = $1 and id = $2 for share;

-- name: lock_customers
-- lock the given customers, in the same order everywhere, so that there is no deadlock
select a.project_id, a.app_user_id, c.id, c.state, {last_seen}
from unnest($1::text[], $2::text[]) as asked (project_id, app_user_id)
join aliases a using (project_id, app_user_id)
join customers c on c.project_id = a.project_id and c.id = a.customer_id
order by c.project_id, c.id
for update of c;

-- name: owners_of_purchases
-- who owns these purchases now; a null id if the owner was erased
select o.project_id, o.store, o.store_id, o.customer_id, c.app_user_id
from unnest($1::text[], $2::text[], $3::text[]) as asked (project_id, store, store_id)
join purchase_owners o using (project_id, store, store_id)
left join customers c on c.project_id = o.project_id and c.id = o.customer_id;

-- name: app_user_ids_by_digest
-- the app user ids with these SHA-256 digests
select asked.project_id, asked.digest, a.app_user_id
from unnest($1::text[], $2::text[]) as asked (project_id, digest)
join aliases a on a.project_id = asked.project_id and app_user_id_digest(a.app_user_id) = asked.digest;

-- name: known_app_user_ids
-- which of these ids a customer has
select project_id, app_user_id
from unnest($1::text[], $2::text[]) as asked (project_id, app_user_id)
join aliases using (project_id, app_user_id);

-- name: create_customers
-- create customers: whoever claims the app user id first creates the row, others find it when they look again
with claimed as (
    insert into aliases (project_id, app_user_id, customer_id, created_at)
    select project_id, app_user_id, next_customer_keys(project_id, 1), seen_at
    from unnest($1::text[], $2::text[], $5::bigint[]) as asked (project_id, app_user_id, seen_at)
    order by project_id, app_user_id
    on conflict do nothing
    returning project_id, app_user_id, customer_id
)
insert into customers (project_id, id, app_user_id, test_clock_id, state, first_seen_at, last_seen_at)
select n.project_id, claimed.customer_id, n.app_user_id, n.test_clock_id, n.state, n.seen_at, n.seen_at
from unnest($1::text[], $2::text[], $3::text[], $4::json[], $5::bigint[])
    as n (project_id, app_user_id, test_clock_id, state, seen_at)
join claimed using (project_id, app_user_id)
returning project_id, app_user_id, id;

-- name: add_aliases
-- add ids of customers
insert into aliases (project_id, app_user_id, customer_id, created_at)
select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]);

-- name: aliases_of_customer
-- the ids of a customer, and since when it has each of them
select app_user_id as id, created_at from aliases where customer_id = $2 and project_id = $1;

-- name: keep_emails
-- set the e-mail address of each of these customers; null is none
with gone as (
    delete from customer_emails k
    using unnest($1::text[], $2::bigint[], $3::text[]) as n (project_id, customer_id, email)
    where k.customer_id = n.customer_id and k.project_id = n.project_id and k.email is distinct from n.email
)
insert into customer_emails (project_id, email, customer_id)
select project_id, email, customer_id
from unnest($1::text[], $2::bigint[], $3::text[]) as n (project_id, customer_id, email)
where email is not null
on conflict do nothing;

-- name: absorb_customer
-- move what a merged customer ($2) has to the one it was merged into ($3); its offering unless that one has its own
with override as (
    update offering_overrides set customer_id = $3
    where project_id = $1 and customer_id = $2
        and not exists (select from offering_overrides k where k.project_id = $1 and k.customer_id = $3)
),
notes as (
    update customer_notes set customer_id = $3 where project_id = $1 and customer_id = $2
),
movements as (
    update currency_transactions m
    set customer_id = $3
    where m.project_id = $1 and m.customer_id = $2
        and not exists (
            select from currency_transactions k
            where k.project_id = $1 and k.customer_id = $3
                and k.idempotency_key = m.idempotency_key and k.code = m.code
        )
),
absorbed as (
    insert into absorbed_customers (project_id, customer_id, absorbed_id)
    select $1::text, $3::bigint, $2::bigint
    union all
    select project_id, $3::bigint, absorbed_id from absorbed_customers where project_id = $1 and customer_id = $2
)
update aliases set customer_id = $3 where project_id = $1 and customer_id = $2;

-- name: move_purchases
-- set the owners of purchases that were transferred, or whose owner was erased
update purchase_owners o
set customer_id = n.customer_id
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as n (project_id, store, store_id, customer_id)
where o.project_id = n.project_id and o.store = n.store and o.store_id = n.store_id;

-- name: refer_currency_transactions
-- add a reference to the currency transactions of a request
update currency_transactions set reference = $4 where project_id = $1 and customer_id = $2 and idempotency_key = $3;

-- name: currency_transactions_by_key
-- the currency transactions of a customer's request with this idempotency key
select code, amount, balance from currency_transactions
where project_id = $1 and customer_id = $2 and idempotency_key = $3;

-- name: lock_credited_customers
-- lock the customers who were credited by these transactions, in the same order everywhere
select c.project_id, c.id, c.state, m.idempotency_key
from unnest($1::text[], $2::text[]) as asked (project_id, idempotency_key)
join currency_transactions m using (project_id, idempotency_key)
join customers c on c.project_id = m.project_id and c.id = m.customer_id
order by c.project_id, c.id
for update of c;

-- name: delete_customer
-- erase a customer with everything that refers to it; its purchases stay, without an owner
with
    ids as (delete from aliases where project_id = $1 and customer_id = $2),
    addresses as (delete from customer_emails where project_id = $1 and customer_id = $2),
    override as (delete from offering_overrides where project_id = $1 and customer_id = $2),
    facets as (delete from customer_facets where customer_id = $2 and project_id = $1),
    -- The roller may be about to write the facets that it has just read.
    marked as (insert into facet_marks (project_id, id, customer_id) values ($1, nextval('facet_marks_id_seq'), $2)),
    notes as (delete from customer_notes where project_id = $1 and customer_id = $2),
    movements as (delete from currency_transactions where project_id = $1 and customer_id = $2),
    purchases as (update purchase_owners set customer_id = null where project_id = $1 and customer_id = $2),
    absorbed as (delete from absorbed_customers where project_id = $1 and customer_id = $2),
    gone as (
        insert into gone_customers (project_id, customer_id) values ($1, $2)
        on conflict (project_id, customer_id) do update set xid = default
    )
delete from customers where project_id = $1 and id = $2;

-- name: keep_endings
-- keep how transactions ended whose purchase belongs to nobody any more; how many of the purchases do
with erased as (
    select o.store, o.store_id
    from (select distinct store, store_id from unnest($2::text[], $3::text[]) as asked (store, store_id)) as asked
    join purchase_owners o using (store, store_id)
    where o.project_id = $1 and o.customer_id is null
    for share of o
),
kept as (
    insert into purchase_endings as k (project_id, store, store_id, transaction_id, ended_by, ended_at, told_at)
    select $1, store, store_id, transaction_id, ended_by, ended_at, told_at
    from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
        as n (store, store_id, transaction_id, ended_by, ended_at, told_at)
    join erased using (store, store_id)
    on conflict (project_id, store, store_id, transaction_id) do update
    set ended_by = excluded.ended_by, ended_at = excluded.ended_at, told_at = excluded.told_at
    where excluded.told_at >= k.told_at
)
select count(*) from erased;

-- name: lock_erased_purchases
-- lock those of the purchases that belong to nobody any more, with the ends of their transactions
select o.store, o.store_id, e.transaction_id, e.ended_by, e.ended_at, e.told_at
from unnest($2::text[], $3::text[]) as asked (store, store_id)
join purchase_owners o using (store, store_id)
left join purchase_endings e
    on e.project_id = o.project_id and e.store = o.store and e.store_id = o.store_id
where o.project_id = $1 and o.customer_id is null
order by o.store, o.store_id
for update of o;

-- name: customers_due
-- customers who are due, oldest first; those locked by another process are skipped
select project_id, id, state
from customers
where test_clock_id is null and next_due_at <= $1
order by next_due_at
limit $2
for update skip locked;

-- name: postpone_customer
-- postpone a customer
update customers set next_due_at = $3 where project_id = $1 and id = $2;

-- name: customer_state
-- a customer and where it was seen last, without a lock
select c.state, c.last_seen_country
from aliases a
join customers c on c.project_id = a.project_id and c.id = a.customer_id
where a.project_id = $1 and a.app_user_id = $2;

-- part: last_seen
c.last_seen_at, c.last_seen_platform, c.last_seen_platform_version, c.last_seen_app_version, c.last_seen_country

-- part: counted_with_leases
cross join lateral (
    select t.*
    from take_requests(
        asked.id, asked.wanted, asked.rate_limit, null, asked.ahead, asked.back, asked.settled, asked.back_at
    ) as t
    where asked.kind = 'secret' and asked.wanted > 0
    union all
    select asked.amount, null, null, 0, null, null, null
    where asked.kind <> 'secret' or asked.wanted = 0
) as taken

-- part: read_row
c.id as key, c.state,
    case when c.test_clock_id is not null then (
        select t.now_ms from test_clocks t where t.project_id = c.project_id and t.id = c.test_clock_id
    ) end as now_ms,
    c.next_due_at,
    c.last_seen_at, c.last_seen_platform, c.last_seen_platform_version, c.last_seen_app_version, c.last_seen_country

-- part: admitted_columns
select
    k.first + q.place as place, c.id as key, c.state, t.now_ms, c.next_due_at,
    c.last_seen_at, c.last_seen_platform, c.last_seen_platform_version, c.last_seen_app_version, c.last_seen_country,
    case when q.place = 1 then k.said end as of_key
from admitted k

-- part: customer_of_read
-- Lateral with a limit: one index lookup for each row, even with a plan that was made while the table was empty.
left join lateral (
    select a.project_id, a.customer_id from aliases a
    where a.project_id = k.project_id and a.app_user_id = q.app_user_id
    limit 1
) as a on true
left join customers c on c.project_id = a.project_id and c.id = a.customer_id
left join test_clocks t on t.project_id = c.project_id and t.id = c.test_clock_id

-- name: read_customers
-- everything that the reads of one batch need, each in its project: customer, clock, catalog version
select
    k.project_id, k.catalog_version, c.id as key, c.state, t.now_ms, c.next_due_at, {last_seen}
from unnest($1::text[], $2::text[]) with ordinality as q (project_id, app_user_id, place)
left join (select id as project_id, catalog_version from projects) as k on k.project_id = q.project_id
{customer_of_read}
order by q.place;

-- name: admit_reads
-- the same for reads with keys. Each key ($1) is for $3 of the ids ($4), from position $2. What the rate limit admits is in
-- the row of a key's first id; an unknown key has no rows. Unordered: sorting customers cost as much as finding them.
with admitted as materialized (
    select
        asked.project_id, asked.first, asked.amount,
        -- One column: eight columns, mostly null, would add a seventh to the cost of each customer.
        json_build_array(
            taken.granted, taken.retry_after_us, taken.used, taken.open_us, asked.rate_limit, p.catalog_version,
            {caller_columns}
        ) as said
    from (
        -- Each key's row is locked in the same order in all processes, so that there is no deadlock.
        select k.*, s.store, a.first, a.amount
        from unnest($1::bytea[], $2::integer[], $3::integer[]) as a (hash, first, amount)
        join api_keys k on k.hash = a.hash and k.revoked_at is null
        left join apps s on s.project_id = k.project_id and s.id = k.app_id
        order by k.id
    ) as asked
    cross join lateral (
        select t.granted, t.retry_after_us, t.used, t.open_us
        from take_requests(asked.id, asked.amount, asked.rate_limit) as t
        where asked.kind = 'secret'
        union all
        -- All phones of an app share its public key: it is not counted here.
        select asked.amount, null, null, null
        where asked.kind <> 'secret'
    ) as taken
    join projects p on p.id = asked.project_id
)
{admitted_columns}
cross join lateral unnest(($4::text[])[k.first + 1 : k.first + k.amount]) with ordinality as q (app_user_id, place)
{customer_of_read};

-- name: admit_reads_with_leases
-- the same where leases are concerned, which costs more. $4 is how many requests to count; 0 if a lease covers them. $5 to
-- $8 are leases to take and to hand back, see take_requests. The ids are $9.
with admitted as materialized (
    select
        asked.project_id, asked.first, asked.amount,
        json_build_array(
            taken.granted, taken.retry_after_us, taken.used, taken.open_us, asked.rate_limit, p.catalog_version,
            {caller_columns},
            taken.leased, taken.leased_at, taken.leased_us
        ) as said
    from (
        select k.*, s.store, a.first, a.amount, a.wanted, a.ahead, a.back, a.settled, a.back_at
        from unnest(
            $1::bytea[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[],
            $8::bigint[]
        ) as a (hash, first, amount, wanted, ahead, back, settled, back_at)
        join api_keys k on k.hash = a.hash and k.revoked_at is null
        left join apps s on s.project_id = k.project_id and s.id = k.app_id
        order by k.id
    ) as asked
    {counted_with_leases}
    join projects p on p.id = asked.project_id
)
{admitted_columns}
cross join lateral unnest(($9::text[])[k.first + 1 : k.first + k.amount]) with ordinality as q (app_user_id, place)
{customer_of_read};

-- name: read_leased
-- the same for reads with one key ($1) that a lease covers: nothing is counted or written. No rows if the key's revision
-- ($2) or the version ($4) of its project's ($3) catalog is no longer what the process knows.
select
    q.place, {read_row}
from unnest($5::text[]) with ordinality as q (app_user_id, place)
left join lateral (
    select a.project_id, a.customer_id from aliases a
    where a.project_id = $3 and a.app_user_id = q.app_user_id
    limit 1
) as a on true
left join customers c on c.project_id = a.project_id and c.id = a.customer_id
where (select k.revision = $2 and k.revoked_at is null from api_keys k where k.hash = $1)
    and (select p.catalog_version = $4 from projects p where p.id = $3);

-- name: touch_customers
-- write when and from where customers were last seen; rows are locked in the same order everywhere. Who was not seen for
-- an hour, or not in this country, is marked for the lists of customers.
with locked as (
    select c.project_id, c.id, c.last_seen_at as was_at, c.last_seen_country as was_in,
        seen.at, seen.platform, seen.platform_version, seen.app_version, seen.country
    from customers c
    join unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[])
        as seen (project_id, id, at, platform, platform_version, app_version, country) using (project_id, id)
    order by c.project_id, c.id
    for no key update of c
),
marked as (
    insert into facet_marks (project_id, id, customer_id)
    select project_id, nextval('facet_marks_id_seq'), id from locked
    where at / 3600000 > was_at / 3600000 or country is not null and was_in is distinct from country
)
update customers c
set last_seen_at = greatest(c.last_seen_at, seen.at),
    last_seen_platform = coalesce(seen.platform, c.last_seen_platform),
    -- The version belongs to the platform: after a visit from another platform the old version is meaningless.
    last_seen_platform_version = case
        when seen.platform is null then c.last_seen_platform_version
        when seen.platform_version is null and seen.platform = c.last_seen_platform then c.last_seen_platform_version
        else seen.platform_version
    end,
    last_seen_app_version = coalesce(seen.app_version, c.last_seen_app_version),
    last_seen_country = coalesce(seen.country, c.last_seen_country),
    first_platform = coalesce(c.first_platform, seen.platform),
    first_app_version = coalesce(c.first_app_version, seen.app_version),
    first_country = coalesce(c.first_country, seen.country),
    changed_xid = case
        when c.first_platform is null and seen.platform is not null
            or c.first_app_version is null and seen.app_version is not null
            or c.first_country is null and seen.country is not null
        then pg_current_xact_id()::text::bigint
        else c.changed_xid
    end
from locked seen
where c.project_id = seen.project_id and c.id = seen.id;

-- name: look_at_customers
-- what changes to customers of one project need to know, without locks; a row for each asked id and claimed purchase
select asked.app_user_id, asked.store, asked.store_id,
    p.catalog_version, (select version from exchange_rate_readings where id = 1) as rates_version,
    c.id as key, c.revision, c.state, {last_seen},
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
