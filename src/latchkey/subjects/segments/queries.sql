-- name: start_facets
-- start the facets of new projects: at the end of the feed, because all customers are walked through from the first
insert into facet_rolls (project_id, position)
select f.project_id, f.position from feeds f
where ($1::text is null or f.project_id = $1)
    and not exists (select from facet_rolls r where r.project_id = f.project_id)
order by f.project_id
on conflict do nothing;

-- name: await_facets
-- lock a project's progress, waiting for another process
select project_id, position, counted, mark_id, mark_xid, marked_at
from facet_rolls where project_id = $1
for update;

-- name: take_facets_behind
-- lock the progress of the next projects whose lists are behind, or ($3) with customers to count, unless it is locked
select l.project_id, l.position, l.counted, l.mark_id, l.mark_xid, l.marked_at
from facet_rolls l
cross join lateral (select f.position from feeds f where f.project_id = l.project_id limit 1) as head
where l.project_id > $1
    and (
        head.position > l.position
        or exists (select from facet_marks m where m.project_id = l.project_id)
        or $3 and (l.marked_at is null or abs($4 - l.marked_at) >= $5)
            and exists (select from customers c where c.project_id = l.project_id and c.id > l.counted)
    )
order by l.project_id
limit $2
for update of l skip locked;

-- name: facets_batch
-- the next events and marks (which are deleted) of these projects, and the customers they name
-- A statement of its own after the lock: its snapshot must be newer than what another process has written.
with held as materialized (
    select * from unnest($1::text[], $2::bigint[]) as h (project_id, position)
),
taken as (
    -- By where the row is stored: a plan made while the table was known to be empty would go through all marks.
    delete from facet_marks m
    where m.ctid = any(array(
        select first.ctid
        from held h
        cross join lateral (
            select k.ctid from facet_marks k where k.project_id = h.project_id order by k.project_id, k.id limit $3
        ) as first
    ))
    returning m.project_id, m.customer_id
)
select h.project_id, head.position as head, told.events, told.position, told.customers as told,
    marked.customers as marked, found.keys, found.states, found.last_seen, found.countries,
    coalesce(newest.id, 0) as newest,
    pg_current_xact_id()::text::bigint as xid,
    pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_xid
from held h
cross join lateral (select f.position from feeds f where f.project_id = h.project_id limit 1) as head
cross join lateral (
    select count(*) as events, max(e.position) as position, array_agg(e.customer_id) as customers
    from (
        select n.position, n.customer_id from events n
        where n.project_id = h.project_id and n.position > h.position
        order by n.position
        limit $3
    ) as e
) as told
cross join lateral (
    select array_agg(t.customer_id) as customers from taken t where t.project_id = h.project_id
) as marked
cross join lateral (
    select array_agg(c.id) as keys, array_agg(c.state) as states, array_agg(c.last_seen_at) as last_seen,
        array_agg(c.last_seen_country) as countries
    from customers c
    where c.project_id = h.project_id and c.id = any(told.customers || marked.customers)
) as found
left join lateral (
    select c.id from customers c where c.project_id = h.project_id order by c.id desc limit 1
) as newest on true
order by h.project_id;

-- name: facets_stretch
-- the next customers of these projects by their keys, after one key and up to another
-- Those who have facets come without their state: whatever changes them later is an event or a mark.
select a.project_id, c.id, case when known.customer_id is null then c.state end as state,
    c.last_seen_at, c.last_seen_country
from unnest($1::text[], $2::bigint[], $3::bigint[]) as a (project_id, counted, until)
cross join lateral (
    select k.id, k.state, k.last_seen_at, k.last_seen_country from customers k
    where k.project_id = a.project_id and k.id > a.counted and k.id <= a.until
    order by k.id
    limit $4
) as c
left join lateral (
    select f.customer_id from customer_facets f
    where f.customer_id = c.id and f.project_id = a.project_id
    limit 1
) as known on true;

-- name: write_facets
-- write a batch of a project: delete the facets of customers that are gone ($2), add or replace others ($3)
with gone as (
    delete from customer_facets where project_id = $1 and customer_id = any($2::bigint[])
),
kept as (
    insert into customer_facets as f
    select * from json_populate_recordset(null::customer_facets, $3)
    on conflict (customer_id, project_id) do update set
        environment = excluded.environment, test_clock_id = excluded.test_clock_id,
        first_seen_at = excluded.first_seen_at, last_seen_at = excluded.last_seen_at, country = excluded.country,
        runs_until = excluded.runs_until, renews_until = excluded.renews_until, trial_until = excluded.trial_until,
        grace_from = excluded.grace_from, grace_until = excluded.grace_until,
        billing_issue_until = excluded.billing_issue_until, granted_until = excluded.granted_until,
        bought = excluded.bought, owns = excluded.owns, spent_usd = excluded.spent_usd,
        refunded_usd = excluded.refunded_usd, products = excluded.products, product_untils = excluded.product_untils,
        stores = excluded.stores
    -- Most events change nothing here, and then no index is written.
    where f.* is distinct from excluded.*
)
update facet_rolls set position = $4, counted = $5, mark_id = $6, mark_xid = $7, marked_at = $8 where project_id = $1;

-- name: forget_facets
-- delete a project's facets and begin again: the roller walks through all customers
with gone as (
    delete from customer_facets where project_id = $1
)
update facet_rolls set counted = 0, mark_id = null, mark_xid = null, marked_at = null where project_id = $1;

-- name: customer_list_standing
-- how many customers of a project have no facets yet, up to a limit, and the earliest now of anybody in it
select (
        select count(*) from (
            select from customers c where c.project_id = $1 and c.id > coalesce(r.counted, 0) limit $3
        ) as later
    ) as missing,
    least($2::bigint, (select min(t.now_ms) from test_clocks t where t.project_id = $1)) as earliest
from feeds f
left join facet_rolls r on r.project_id = f.project_id
where f.project_id = $1;

-- part: matching_facets
from customer_facets f
cross join lateral (
    select case when f.test_clock_id is null then $2::bigint else (
        select t.now_ms from test_clocks t where t.project_id = f.project_id and t.id = f.test_clock_id
    ) end as now
) as at
where f.project_id = $1
    and ($4::text[] is null
        or 'active' = any($4) and f.runs_until > at.now
        or 'trial' = any($4) and f.trial_until > $3 and f.trial_until > at.now
        or 'in_grace_period' = any($4) and f.grace_until > at.now and f.grace_from <= at.now
        or 'billing_issue' = any($4) and f.billing_issue_until > $3 and f.billing_issue_until > at.now
        or 'cancelled' = any($4) and f.runs_until > at.now and coalesce(f.renews_until <= at.now, true)
        or 'expired' = any($4) and f.runs_until <= at.now
        or 'one_time_purchase' = any($4) and f.owns
        or 'never_bought' = any($4) and not f.bought
        or 'granted' = any($4) and f.granted_until > $3 and f.granted_until > at.now)
    and ($5::text is null or f.products @> array[$5]
        and (not $6::boolean or f.product_untils[array_position(f.products, $5)] > at.now))
    and ($7::bigint is null or f.spent_usd >= $7)
    and ($8::bigint is null or f.spent_usd <= $8)
    and ($9::text[] is null or f.country = any($9))
    and ($10::text is null or f.stores @> array[$10])
    and ($11::text is null or f.environment = $11)
    and ($12::bigint is null or f.last_seen_at >= $12)
    and ($13::bigint is null or f.last_seen_at < $13)
    and ($14::bigint is null or f.first_seen_at >= $14)
    and ($15::bigint is null or f.first_seen_at < $15)
    and ($16::bigint is null or f.trial_until > $3 and f.trial_until > at.now and f.trial_until <= at.now + $16 * 86400000)
    and (not $17::boolean or f.billing_issue_until > $3 and f.billing_issue_until > at.now)

-- name: list_facets
-- a page of the customers that a filter matches, the highest of the chosen value first
-- Planned with its actual arguments: conditions that are not asked for vanish, and the order is that of an index. $3 is a
-- lower bound of everybody's now, so that an index can be used; each customer is compared with its own.
with page as materialized (
    select f.*, at.now as own_now,
        case $18::text when 'last_seen' then f.last_seen_at when 'first_seen' then f.first_seen_at when 'spent' then f.spent_usd
            else f.customer_id end as sorted_by
    {matching_facets}
        and ($19::bigint is null or (
            case $18::text when 'last_seen' then f.last_seen_at when 'first_seen' then f.first_seen_at
                when 'spent' then f.spent_usd else f.customer_id end, f.customer_id
        ) < ($19, $20::bigint))
    order by sorted_by desc, f.customer_id desc
    limit $21
)
select p.*, c.app_user_id, c.state
from page p
left join lateral (
    select k.app_user_id, case when $22::boolean then k.state end as state
    from customers k
    where k.project_id = p.project_id and k.id = p.customer_id
    limit 1
) as c on true
order by p.sorted_by desc, p.customer_id desc;

-- name: count_facets
-- how many customers a filter matches, up to a limit; the parameters are those of list_facets
select count(*) as customers
from (
    select
    {matching_facets}
    limit $18
) as matching;

-- name: count_seen
-- how many customers of an environment, or of a test clock, were seen since an instant
select count(*) as customers
from customer_facets f
where f.project_id = $1 and f.last_seen_at >= $2 and coalesce(f.test_clock_id, f.environment) = $3;

-- name: list_segments
-- a project's saved filters by id, after one; or the one with an id
select id, name, filter, columns, sort, created_at, updated_at
from customer_segments
where project_id = $1 and {page by id};

-- name: save_segment
-- save a filter; one with the same name, in any case of letters, is replaced
insert into customer_segments as s (project_id, id, name, filter, columns, sort, created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $7)
on conflict (lower(name), project_id) do update
set name = excluded.name, filter = excluded.filter, columns = excluded.columns, sort = excluded.sort,
    updated_at = excluded.updated_at
returning id, name, filter, columns, sort, created_at, updated_at;

-- name: delete_segment
-- delete a saved filter
delete from customer_segments where project_id = $1 and id = $2 returning id;

-- name: add_note
-- what somebody wrote about a customer
insert into customer_notes (project_id, customer_id, id, account_id, author, body, created_at)
select $1, $2, $3, $4, $5, $6, $7
from customers c where c.project_id = $1 and c.id = $2
-- Erasing the customer waits, or this does: no note is left without its customer.
for key share of c
returning id;

-- name: change_note
-- its author writes it differently
update customer_notes set body = $5, edited_at = $6
where project_id = $1 and customer_id = $2 and id = $3 and account_id = $4
returning id;

-- name: delete_note
-- its author deletes it
delete from customer_notes where project_id = $1 and customer_id = $2 and id = $3 and account_id = $4
returning id;

-- name: notes_of_customer
-- what was written about a customer, newest first
select id, account_id, author, body, created_at, edited_at
from customer_notes
where project_id = $1 and customer_id = $2
order by created_at desc, id desc
limit $3;

-- name: past_troubles_of_customer
-- the latest events that say when a payment failed, a pause began, and what followed
select e.body
from unnest({customer_and_absorbed}) as who (customer_id)
cross join lateral (
    select n.occurred_at, n.body from events n
    where n.customer_id = who.customer_id and n.project_id = $1
        and n.type in ('BILLING_ISSUE', 'SUBSCRIPTION_PAUSED', 'EXPIRATION')
    order by n.sequence desc
    limit $3
) as e
order by e.occurred_at desc
limit $3;

-- name: create_bulk_grant
-- a draft of a grant to many customers; drafts of the day before are deleted
with old as (
    delete from bulk_grants where project_id = $1 and state = 'draft' and created_at < $11::bigint - 86400000 returning id
),
forgotten as (
    delete from bulk_grant_customers c using old where c.project_id = $1 and c.grant_id = old.id
)
insert into bulk_grants (
    project_id, id, state, entitlement_id, duration, ends_at, skip_holders, source, actor, total, created_at, holders,
    unknown_ids
)
values ($1, $2, 'draft', $3, $4, $5, $6, $7, $8, $9, $11, $10, $12);

-- name: add_bulk_grant_customers
-- the customers of a bulk grant, numbered from 1
insert into bulk_grant_customers (project_id, grant_id, number, customer_key, app_user_id)
select $1, $2, n.number, n.customer_key, n.app_user_id
from unnest($3::bigint[], $4::text[]) with ordinality as n (customer_key, app_user_id, number);

-- name: load_bulk_grant
-- a bulk grant, and how far it is
select g.*, counted.granted, counted.skipped, counted.failed
from bulk_grants g
cross join lateral (
    select count(*) filter (where c.outcome = 'granted') as granted,
        count(*) filter (where c.outcome = 'skipped') as skipped,
        count(*) filter (where c.outcome = 'failed') as failed
    from bulk_grant_customers c where c.project_id = g.project_id and c.grant_id = g.id
) as counted
where g.project_id = $1 and g.id = $2;

-- name: list_bulk_grants
-- the bulk grants of a project: those that were started ($4), newest first, or all with their previews, by id
select g.*
from bulk_grants g
where g.project_id = $1 and ($2::text is null or g.id > $2) and (g.state <> 'draft' or not $4)
order by case when $4 then -g.created_at end, g.id
limit $3;

-- name: set_bulk_grant_state
-- a draft was confirmed, the grant was stopped, or every customer has had its turn; only while it is in state $3
update bulk_grants
set state = $4, lease_until = 0, started_at = case when $4 = 'running' then $5 else started_at end,
    finished_at = case when $4 <> 'running' then $5 end
where project_id = $1 and id = $2 and state = $3 and token = coalesce($6, token)
returning id;

-- name: claim_bulk_grant
-- take the bulk grant that nobody works on
update bulk_grants set lease_until = $2, token = token + 1
where ctid = any(array(
    select g.ctid from bulk_grants g
    where g.state = 'running' and g.lease_until <= $1
    order by g.lease_until
    limit 1
    for update skip locked
))
returning *;

-- name: renew_bulk_grant
-- keep the lease; no row if it was lost, or if the grant was stopped
update bulk_grants set lease_until = $4 where project_id = $1 and id = $2 and token = $3 and state = 'running'
returning id;

-- name: next_bulk_grant_customers
-- the next customers whose turn it is
select number, customer_key, app_user_id from bulk_grant_customers
where project_id = $1 and grant_id = $2 and number > $3 and outcome is null
order by number
limit $4;

-- name: record_bulk_grant_customers
-- what became of customers
update bulk_grant_customers c set outcome = n.outcome, error = n.error
from unnest($3::integer[], $4::text[], $5::text[]) as n (number, outcome, error)
where c.project_id = $1 and c.grant_id = $2 and c.number = n.number;

-- name: failures_of_bulk_grant
-- the customers that did not get it because of an error
select app_user_id, error from bulk_grant_customers
where project_id = $1 and grant_id = $2 and outcome = 'failed'
order by number
limit $3;

-- name: forget_in_bulk_grants
-- replace the ids of an erased customer; an error may quote the id
update bulk_grant_customers set app_user_id = $3, error = null where app_user_id = any($2::text[]) and project_id = $1;
