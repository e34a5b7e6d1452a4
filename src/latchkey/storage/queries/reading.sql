-- part: counted
cross join lateral (
    select t.granted, t.retry_after_us, t.used, t.open_us
    from take_requests(asked.id, asked.amount, asked.rate_limit) as t
    where asked.kind = 'secret'
    union all
    -- All phones of an app share its public key: it is not counted here.
    select asked.amount, null, null, null
    where asked.kind <> 'secret'
) as taken

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

-- part: admitted_customers
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
    p.id as project_id, p.catalog_version, c.id as key, c.state, t.now_ms, c.next_due_at,
    c.last_seen_at, c.last_seen_platform, c.last_seen_platform_version, c.last_seen_app_version, c.last_seen_country
from unnest($1::text[], $2::text[]) with ordinality as asked (project_id, app_user_id, place)
left join projects p on p.id = asked.project_id
-- Lateral with a limit: one index lookup for each row, even with a plan that was made while the table was empty.
left join lateral (
    select a.project_id, a.customer_id from aliases a
    where a.project_id = p.id and a.app_user_id = asked.app_user_id
    limit 1
) as a on true
left join customers c on c.project_id = a.project_id and c.id = a.customer_id
left join test_clocks t on t.project_id = c.project_id and t.id = c.test_clock_id
order by asked.place;

-- name: admit_reads
-- the same for reads with keys. Each key ($1) applies to a range of the ids ($4): from position $2, $3 ids long. Returns
-- how many requests the rate limit admits, and every customer. The data of a key is in the row of its first id; an
-- unknown key has none. Unordered: sorting customers cost as much as finding them.
with admitted as materialized (
    select
        asked.project_id, asked.first, asked.amount,
        -- One column: eight columns, mostly null, would add a seventh to the cost of each customer.
        json_build_array(
            taken.granted, taken.retry_after_us, taken.used, taken.open_us, asked.rate_limit, p.catalog_version,
            {caller_columns}
        ) as said
    from (
        -- Locked in the same order as in admit_requests.
        select k.*, s.store, a.first, a.amount
        from unnest($1::bytea[], $2::integer[], $3::integer[]) as a (hash, first, amount)
        join api_keys k on k.hash = a.hash and k.revoked_at is null
        left join apps s on s.project_id = k.project_id and s.id = k.app_id
        order by k.id
    ) as asked
    {counted}
    join projects p on p.id = asked.project_id
)
{admitted_columns}
cross join lateral unnest(($4::text[])[k.first + 1 : k.first + k.amount]) with ordinality as q (app_user_id, place)
{admitted_customers};

-- name: admit_reads_with_leases
-- the same where leases are concerned, which costs more. The ids are $9; $4 to $8 are $2 to $6 of admit_with_leases
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
{admitted_customers};

-- name: read_leased
-- the same for reads with one key ($1) that a lease covers, so nothing is counted or written. No rows at all if the key or
-- the catalog is no longer what the process knows: the key's revision ($2), its project ($3) and the version of
-- the project's catalog ($4).
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
