-- name: take_rolls_behind
-- lock the progress of the next projects whose charts or lists are behind, by id, unless another process holds it
-- With $3 also projects with customers to count, with facts whose time has come a minute ago, with a tail that has waited
-- for $6, and those that are being rebuilt.
select r.project_id, r.generation, r.position, r.rolled_to, r.counted, r.mark_id, r.mark_xid, r.marked_at, r.passed_to,
    r.batch, r.dimension, r.tail, r.folded_at, r.rebuilding, r.summed_to,
    l.position as list_position, l.counted as list_counted, l.mark_id as list_mark_id, l.mark_xid as list_mark_xid,
    l.marked_at as list_marked_at
from chart_rolls r
join facet_rolls l on l.project_id = r.project_id
cross join lateral (select f.position from feeds f where f.project_id = r.project_id limit 1) as head
where r.project_id > $1
    and (
        head.position > r.position
        or head.position > l.position
        or exists (select from chart_marks m where m.project_id = r.project_id)
        or exists (select from facet_marks m where m.project_id = r.project_id)
        or r.rebuilding is not null
        or $3 and (
            (r.marked_at is null or abs($4 - r.marked_at) >= $5)
                and exists (select from customers c where c.project_id = r.project_id and c.id > r.counted)
            or (l.marked_at is null or abs($4 - l.marked_at) >= $5)
                and exists (select from customers c where c.project_id = r.project_id and c.id > l.counted)
            or r.tail > 0 and abs($4 - r.folded_at) >= $6
            or exists (
                select from chart_ahead a where a.project_id = r.project_id and a.clock = '' and a.at <= $4 - 60000
            )
        )
    )
order by r.project_id
limit $2
for update of r, l skip locked;

-- name: rolls_batch
-- the next events and marks (which are deleted) of these projects, for charts, lists or both, and the customers they name
-- A statement of its own after the lock: its snapshot must be newer than what another process has written. Customers are
-- all from this snapshot; merged and erased ones are missing.
with held as materialized (
    select * from unnest($1::text[], $2::bigint[], $3::boolean[], $4::boolean[])
        as h (project_id, position, charts, lists)
),
chart_taken as (
    -- By where the row is stored: a plan made while the table was known to be empty would go through all marks.
    delete from chart_marks m
    where m.ctid = any(array(
        select first.ctid
        from held h
        cross join lateral (
            select k.ctid from chart_marks k where k.project_id = h.project_id order by k.project_id, k.id limit $5
        ) as first
        where h.charts
    ))
    returning m.project_id, m.customer_id
),
list_taken as (
    delete from facet_marks m
    where m.ctid = any(array(
        select first.ctid
        from held h
        cross join lateral (
            select k.ctid from facet_marks k where k.project_id = h.project_id order by k.project_id, k.id limit $5
        ) as first
        where h.lists
    ))
    returning m.project_id, m.customer_id
)
select h.project_id, h.charts, h.lists,
    p.catalog_version, (select x.version from exchange_rate_readings x where x.id = 1) as rates_version,
    head.position as head, told.events, told.position, told.committed_at, told.issues, told.customers as told,
    chart_marked.customers as chart_marked, list_marked.customers as list_marked,
    found.keys, found.states, found.last_seen, found.platforms, found.app_versions, found.countries,
    coalesce(newest.id, 0) as newest,
    pg_current_xact_id()::text::bigint as xid,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid
from held h
cross join lateral (select q.catalog_version from projects q where q.id = h.project_id limit 1) as p
cross join lateral (select f.position from feeds f where f.project_id = h.project_id limit 1) as head
cross join lateral (
    select count(*) as events, max(e.position) as position, max(e.committed_at) as committed_at,
        array_agg(e.customer_id) as customers, array_agg(e.body) filter (where e.type = 'BILLING_ISSUE') as issues
    from (
        select n.position, n.customer_id, n.committed_at, n.type, n.body from events n
        where n.project_id = h.project_id and n.position > h.position
        order by n.position
        limit $5
    ) as e
) as told
cross join lateral (
    select array_agg(t.customer_id) as customers from chart_taken t where h.charts and t.project_id = h.project_id
) as chart_marked
cross join lateral (
    select array_agg(t.customer_id) as customers from list_taken t where h.lists and t.project_id = h.project_id
) as list_marked
cross join lateral (
    select array_agg(c.id) as keys, array_agg(c.state) as states, array_agg(c.last_seen_at) as last_seen,
        array_agg(c.last_seen_platform) as platforms, array_agg(c.last_seen_app_version) as app_versions,
        array_agg(c.last_seen_country) as countries
    from customers c
    where c.project_id = h.project_id
        and c.id = any(told.customers || chart_marked.customers || list_marked.customers)
) as found
left join lateral (
    select c.id from customers c where c.project_id = h.project_id order by c.id desc limit 1
) as newest on true
order by h.project_id;
