-- name: start_charts
-- start the charts of new projects at the beginning of their feeds
insert into chart_rolls (project_id)
select f.project_id from feeds f
where ($1::text is null or f.project_id = $1)
    and not exists (select from chart_rolls r where r.project_id = f.project_id)
order by f.project_id
on conflict do nothing;

-- name: take_charts
-- lock a project's progress, unless another process holds it
select project_id, generation, position, rolled_to, counted, mark_id, mark_xid, marked_at, passed_to, batch, dimension,
    tail, folded_at, rebuilding, summed_to
from chart_rolls where project_id = $1
for update skip locked;

-- name: await_charts
-- lock a project's progress, waiting for another process
select project_id, generation, position, rolled_to, counted, mark_id, mark_xid, marked_at, passed_to, batch, dimension,
    tail, folded_at, rebuilding, summed_to
from chart_rolls where project_id = $1
for update;

-- name: chart_newcomers
-- the next customers of these projects, in the order of their keys
select a.project_id, c.id, c.original_app_user_id, c.first_seen_at, c.test_clock_id, c.last_seen_platform,
    c.last_seen_app_version, c.last_seen_country, c.bought, c.described
from unnest($1::text[], $2::bigint[], $3::bigint[]) as a (project_id, counted, until)
cross join lateral (
    select k.id, k.original_app_user_id, k.first_seen_at, k.test_clock_id, k.last_seen_platform, k.last_seen_app_version,
        k.last_seen_country,
        position('"subscriptions":[{' in k.state::text) > 0 or position('"purchases":[{' in k.state::text) > 0
            or position('"enrollments":[{' in k.state::text) > 0 as bought,
        position('"attributes":{"' in k.state::text) > 0 as described
    from customers k
    where k.project_id = a.project_id and k.id > a.counted and k.id <= a.until
    order by k.id
    limit $4
) as c;

-- name: mark_for_charts
-- look at these customers again in the next batch
insert into chart_marks (project_id, id, customer_id)
select n.project_id, nextval('chart_marks_id_seq'), n.customer_id
from unnest($1::text[], $2::bigint[]) as n (project_id, customer_id);

-- name: chart_subjects_of
-- what these subjects have contributed, where they came from, and their billing issues
select asked.project_id, asked.subject, known.facts, known.platform, known.app_version, known.country, issues.ats,
    issues.transactions, issues.graces, known.erased_to
from unnest($1::text[], $2::uuid[]) as asked (project_id, subject)
left join lateral (
    select s.facts, s.erased_to, o.platform, o.app_version, o.country
    from chart_subjects s
    cross join lateral (
        select d.platform, d.app_version, d.country from chart_dimensions d
        where d.project_id = s.project_id and d.id = s.origin
        order by d.project_id, d.id
        limit 1
    ) as o
    where s.project_id = asked.project_id and s.subject = asked.subject
    limit 1
) as known on true
cross join lateral (
    select array_agg(i.at) as ats, array_agg(i.transaction_id) as transactions, array_agg(i.grace_ends_at) as graces
    from (
        select k.at, k.transaction_id, k.grace_ends_at from chart_issues k
        where k.project_id = asked.project_id and k.subject = asked.subject
        order by k.project_id, k.subject, k.at, k.transaction_id
        limit 1000
    ) as i
) as issues
where known.facts is not null or issues.ats is not null;

-- name: rename_chart_subjects
-- the facts of an erased customer stay under a key that nobody can compute
update chart_subjects s set subject = n.new
from unnest($2::uuid[], $3::uuid[]) as n (old, new)
where s.project_id = $1 and s.subject = n.old;

-- name: keep_erased_chart_subjects
-- the payments of these purchases up to an instant are those of a customer who is erased
update chart_subjects s set erased_to = n.erased_to
from unnest($2::uuid[], $3::bigint[]) as n (subject, erased_to)
where s.project_id = $1 and s.subject = n.subject;

-- name: keep_chart_issues
-- remember billing issues by purchase
insert into chart_issues (project_id, subject, at, transaction_id, grace_ends_at)
select * from unnest($1::text[], $2::uuid[], $3::bigint[], $4::text[], $5::bigint[])
on conflict (project_id, subject, at, transaction_id) do update set grace_ends_at = excluded.grace_ends_at;

-- name: chart_dimensions_of
-- the numbers of these combinations of dimensions, where they have one
select asked.project_id, asked.digest, known.id
from unnest($1::text[], $2::uuid[]) as asked (project_id, digest)
cross join lateral (
    select d.id from chart_dimensions d where d.digest = asked.digest and d.project_id || '' = asked.project_id limit 1
) as known;

-- name: chart_environments_of
-- the environments of these combinations of dimensions
select asked.project_id, asked.id, known.environment
from unnest($1::text[], $2::integer[]) as asked (project_id, id)
cross join lateral (
    select d.environment from chart_dimensions d
    where d.project_id = asked.project_id and d.id = asked.id
    order by d.project_id, d.id
    limit 1
) as known;

-- name: add_chart_dimensions
-- store combinations of dimensions; lists are passed as text
insert into chart_dimensions (
    project_id, id, digest, environment, cuboid, product, duration, store, country, platform, app_version, offering,
    variants, attributes
)
select n.project_id, n.id, n.digest, n.environment, n.cuboid, n.product, n.duration, n.store, n.country, n.platform,
    n.app_version, n.offering, array(select json_array_elements_text(n.variants::json)),
    array(select json_array_elements_text(n.attributes::json))
from unnest(
    $1::text[], $2::integer[], $3::uuid[], $4::text[], $5::smallint[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[]
) as n (
    project_id, id, digest, environment, cuboid, product, duration, store, country, platform, app_version, offering,
    variants, attributes
);

-- name: write_charts
-- write a batch: the facts of subjects, the differences, facts whose time has come, the progress
with rolled as materialized (
    select * from unnest(
        $38::text[], $39::bigint[], $40::bigint[], $41::bigint[], $42::bigint[], $43::bigint[], $44::bigint[],
        $45::bigint[], $46::bigint[], $47::integer[], $48::bigint[], $49::uuid[]
    ) as n (
        project_id, position, rolled_to, counted, mark_id, mark_xid, marked_at, passed_to, batch, dimension, tail,
        summed_to
    )
),
subjects as (
    insert into chart_subjects as s (project_id, subject, origin, facts)
    select * from unnest($1::text::text[], $2::uuid[], $3::text::integer[], $4::bytea[])
    on conflict (project_id, subject) do update set origin = excluded.origin, facts = excluded.facts
),
passed as (
    delete from chart_ahead a
    where a.ctid = any(array(
        select due.ctid
        from rolled r
        cross join lateral (
            select k.ctid from chart_ahead k
            where k.project_id = r.project_id and k.clock = '' and k.at <= r.passed_to
            order by k.project_id, k.clock, k.at, k.batch, k.place
            limit 1000000
        ) as due
    ))
    returning a.*
),
summed as materialized (
    select p.project_id, p.kind, p.dimension, p.n, p.currency, (p.at / 86400000)::integer as day,
        sum(p.quantity)::bigint as quantity, sum(p.micros)::bigint as micros, sum(p.tax)::bigint as tax,
        sum(p.commission)::bigint as commission, sum(p.usd)::bigint as usd, sum(p.tax_usd)::bigint as tax_usd,
        sum(p.commission_usd)::bigint as commission_usd, sum(p.unconverted)::bigint as unconverted
    from passed p
    group by 1, 2, 3, 4, 5, 6
),
due as materialized (
    -- What was replaced in time has left nothing.
    select s.*, -row_number() over () as place from summed s
    where s.quantity <> 0 or s.micros <> 0 or s.tax <> 0 or s.commission <> 0 or s.usd <> 0 or s.tax_usd <> 0
        or s.commission_usd <> 0 or s.unconverted <> 0
),
tail as (
    insert into chart_tail (
        project_id, kind, batch, place, dimension, n, currency, day, quantity, micros, tax, commission, usd, tax_usd,
        commission_usd, unconverted
    )
    -- Most amounts are none, and take no place.
    select p.project_id, p.kind, p.batch, p.place, p.dimension, p.n, p.currency, (p.at / 86400000)::integer, p.quantity,
        nullif(p.micros, 0), nullif(p.tax, 0), nullif(p.commission, 0), nullif(p.usd, 0), nullif(p.tax_usd, 0),
        nullif(p.commission_usd, 0), nullif(p.unconverted, 0)
    from unnest(
        $5::text::text[], $6::text::bigint[], $7::text::integer[], $8::text::smallint[], $9::text::bigint[],
        $10::text::smallint[], $11::text::text[], $12::text::integer[], $13::text::bigint[], $14::text::bigint[],
        $15::text::bigint[], $16::text::bigint[], $17::text::bigint[], $18::text::bigint[], $19::text::bigint[],
        $20::text::bigint[]
    ) as p (
        project_id, batch, place, kind, at, n, currency, dimension, quantity, micros, tax, commission, usd, tax_usd,
        commission_usd, unconverted
    )
    union all
    select d.project_id, d.kind, r.batch, d.place, d.dimension, d.n, d.currency, d.day, d.quantity, d.micros, d.tax,
        d.commission, d.usd, d.tax_usd, d.commission_usd, d.unconverted
    from due d
    cross join lateral (select q.batch from rolled q where q.project_id = d.project_id limit 1) as r
),
ahead as (
    insert into chart_ahead (
        project_id, clock, at, batch, place, kind, dimension, n, currency, quantity, micros, tax, commission, usd, tax_usd,
        commission_usd, unconverted
    )
    select p.project_id, p.clock, p.at, p.batch, p.place, p.kind, p.dimension, p.n, p.currency, p.quantity,
        nullif(p.micros, 0), nullif(p.tax, 0), nullif(p.commission, 0), nullif(p.usd, 0), nullif(p.tax_usd, 0),
        nullif(p.commission_usd, 0), nullif(p.unconverted, 0)
    from unnest(
        $21::text::text[], $22::text::text[], $23::text::bigint[], $24::text::integer[], $25::text::smallint[],
        $26::text::bigint[], $27::text::smallint[], $28::text::text[], $29::text::integer[], $30::text::bigint[],
        $31::text::bigint[], $32::text::bigint[], $33::text::bigint[], $34::text::bigint[], $35::text::bigint[],
        $36::text::bigint[], $37::text::bigint[]
    ) as p (
        project_id, clock, batch, place, kind, at, n, currency, dimension, quantity, micros, tax, commission, usd, tax_usd,
        commission_usd, unconverted
    )
)
update chart_rolls c
set position = n.position, rolled_to = n.rolled_to, counted = n.counted, mark_id = n.mark_id, mark_xid = n.mark_xid,
    marked_at = n.marked_at, passed_to = n.passed_to, batch = n.batch, dimension = n.dimension,
    tail = n.tail + (select count(*) from due d where d.project_id = n.project_id),
    summed_to = n.summed_to
from rolled n
where c.project_id = n.project_id
returning c.project_id, c.tail;
