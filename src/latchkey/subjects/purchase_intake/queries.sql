-- name: ensure_store_connection
-- the row of an app that has none yet
insert into store_connections (project_id, app_id, store, version, url_token, url_token_hash)
select project_id, id, store, 1, $3, $4 from apps where project_id = $1 and id = $2
on conflict (project_id, app_id) do nothing;

-- name: load_store_connections
-- how apps of a project are connected to their stores
select * from store_connections where project_id = $1 and app_id = any($2::text[]);

-- name: store_connection_by_token
-- the app that a notification URL belongs to, also by a token that was rotated away while that is valid
select * from store_connections where url_token_hash = $1
union all
select c.*
from former_notification_tokens f
join store_connections c on c.project_id = f.project_id and c.app_id = f.app_id
where f.token_hash = $1 and f.until > $2;

-- name: connected_apps
-- every app with credentials
select * from store_connections where credentials is not null order by project_id, app_id;

-- name: save_store_credentials
-- new credentials, with what the trial call said; with null the app is no longer connected, and its notification URL stays
update store_connections
set credentials = $3, shown = $4, saved_at = $5, check_result = $6, check_message = $7, checked_at = $5,
    version = version + 1
where project_id = $1 and app_id = $2;

-- name: note_store_check
-- what a later call to the store said about the credentials
update store_connections
set check_result = $4, check_message = $5, checked_at = $6
where project_id = $1 and app_id = $2 and version = $3
    -- Every refused call says the same; only the first one is written, and what somebody asked for.
    and ($7 or (check_result, check_message) is distinct from ($4, $5));

-- name: lock_store_connection
-- one rotation after the other
select 1 from store_connections where project_id = $1 and app_id = $2 for update;

-- name: rotate_notification_token
-- a new notification URL; the one before works until a moment, and those before it as long as they were to
with kept as (
    insert into former_notification_tokens (token_hash, project_id, app_id, until)
    select url_token_hash, project_id, app_id, $5 from store_connections where project_id = $1 and app_id = $2
),
over as (
    delete from former_notification_tokens where project_id = $1 and app_id = $2 and until <= $6
)
update store_connections
set url_token = $3, url_token_hash = $4, version = version + 1
where project_id = $1 and app_id = $2;

-- name: note_notified
-- notifications arrived for an app
update store_connections
set first_notified_at = coalesce(first_notified_at, $3), last_notified_at = $3,
    notified_days = case $3::bigint / 86400000 - last_notified_at / 86400000
        when 0 then notified_days
        when 1 then notified_days + 1
        else 1
    end
where project_id = $1 and app_id = $2 and (last_notified_at is null or last_notified_at < $3::bigint - 1000);

-- name: note_history_read
-- the store's history was compared with the journal up to a moment
update store_connections set history_read_to = greatest(history_read_to, $3) where project_id = $1 and app_id = $2;

-- part: filed_columns
project_id, app_id, store, source, external_id, kind, environment, subject, occurred_at, received_at, checked, next_at,
    app_user_id, message, finished_at

-- part: kept_payload
-- An invalid receipt may be large junk: what stays is its size, and its SHA-256 in external_id.
case
    when source = 'receipt' and outcome = 'ignored' then
        '{"not_kept" : "' || octet_length(payload)::text || ' bytes"}'
    else payload
end

-- name: file_notifications
-- into the journal, each store id once, and wake workers for those that wait; the ids of those that are new or reopened
with given as (
    select distinct on (external_id, app_id, project_id)
        {filed_columns}, outcome, {kept_payload} as payload, string_to_array(event_ids, ',') as event_ids
    from unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[],
        $10::bigint[], $11::json[], $12::bigint[], $13::text[], $14::text[], $15::bigint[], $16::text[], $17::text[],
        $18::text[]
    )
    as n ({filed_columns}, outcome, payload, event_ids)
    -- Of a receipt that was shown twice at once, the one that waits or led to events.
    order by external_id, app_id, project_id, outcome = 'waiting' desc, n.event_ids desc
),
filed as (
    insert into store_notifications ({filed_columns}, status, payload, event_ids)
    select * from given
    on conflict (external_id, app_id, project_id) do nothing
    returning id, external_id, app_id, project_id, status
),
-- A receipt that was dealt with, and cannot be checked now that it is shown again, waits as if it were new. The insert
-- does not do it, because it would lock every entry that comes again, in another order than the workers do.
reopened as (
    update store_notifications k
    set status = 'waiting', attempts = 0, message = g.message, finished_at = null, payload = g.payload,
        occurred_at = g.occurred_at, received_at = g.received_at, next_at = g.next_at
    from given g
    where k.external_id = g.external_id and k.app_id = g.app_id and k.project_id = g.project_id
        and g.source = 'receipt' and g.outcome = 'waiting' and k.status <> 'waiting'
    returning k.id, k.external_id, k.app_id, k.project_id, k.status
)
select id, external_id, app_id, project_id, case when status = 'waiting' then pg_notify('latchkey_stores', '') end
from (select * from filed union all select * from reopened) as entries;

-- name: claim_notifications
-- the next waiting notifications, leased to this worker until a moment; none of the apps and stores that are busy
update store_notifications
set next_at = $2, attempts = attempts + 1
where ctid = any(array(
    select n.ctid from store_notifications n
    where n.status = 'waiting' and n.next_at <= $1 and not array[n.app_id, n.store] && $4::text[]
    order by n.next_at
    limit $3
    for update skip locked
))
returning *;

-- name: hold_notifications
-- process waiting notifications later, with the reason if there is one; or keep them, while their worker is at it
update store_notifications set next_at = $2, message = coalesce($3, message)
where id = any($1::bigint[]) and status = 'waiting';

-- name: finish_notifications
-- what became of notifications
update store_notifications n
set status = d.outcome, message = d.reason, finished_at = d.at, payload = {kept_payload},
    app_user_id = coalesce(d.owner, n.app_user_id), event_ids = string_to_array(d.event_ids, ','), next_at = d.at
from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[])
    as d (id, outcome, reason, at, owner, event_ids)
where n.id = d.id;

-- name: hurry_receipts
-- an app's receipts since $5 that could not be checked yet are due now, unless a worker has them; how many there are
with kept as (
    select id, next_at from store_notifications
    where project_id = $1 and app_id = $2 and status = 'waiting' and source = 'receipt' and message <> ''
    and received_at >= $5
),
hurried as (
    update store_notifications n set next_at = $3 from kept where n.id = kept.id and kept.next_at > $4
)
select count(*), case when count(*) > 0 then pg_notify('latchkey_stores', '') end from kept;

-- name: list_notifications
-- a page of the journal, newest first; or the entry with an id
select * from store_notifications
where project_id = $1
    and ($2::bigint is null or id < $2)
    and ($3::text is null or app_id = $3)
    and ($4::text is null or status = $4)
    and ($5::text is null or starts_with(kind, $5))
    and ($6::text is null or subject = $6)
    and ($7::bigint is null or received_at >= $7)
    and ($8::bigint is null or received_at < $8)
    and ($10::bigint is null or id = $10)
order by id desc
limit $9;

-- name: reprocess_notifications
-- one entry of a project once more, or those received since a moment, of a status or all
update store_notifications
set status = 'waiting', next_at = $2, attempts = 0, message = '',
    -- Kept where it was processed before: a receipt then moves nothing any more.
    finished_at = case when status in ('applied', 'ignored') then finished_at end
where project_id = $1 and (
    id = $6
    or $6 is null and received_at >= $3 and (status <> 'waiting' or next_at > $2)
        and ($4::text is null or status = $4 or (status = 'waiting' and $4 = 'failed'))
        and ($5::text is null or app_id = $5)
);

-- name: receipt_shown_by_another
-- whether another customer has shown a receipt with this token
select exists (
    select from store_notifications
    where project_id = $1 and subject = $2 and source = 'receipt' and app_user_id is distinct from $3
);

-- name: receipt_shown_since
-- whether a customer with these ids has shown a receipt of purchases in a store after a moment
select exists (
    select from store_notifications
    where project_id = $1 and store = $2 and app_user_id = any($3::text[]) and received_at > $4
    and source = 'receipt' and status = 'applied'
);

-- name: count_failed_notifications
-- entries of a project that failed, up to a limit
select count(*) from (
    select 1 from store_notifications where project_id = $1 and status = 'failed' limit $2
) as failed;

-- name: count_store_troubles
-- for all projects: apps of these stores without credentials, with refused ones, and failed entries up to a limit
select
    count(*) filter (where c.credentials is null) as missing,
    count(*) filter (where c.credentials is not null and c.check_result = 'refused') as refused,
    (select count(*) from (select 1 from store_notifications where status = 'failed' limit $2) as f) as failed
from apps a
left join store_connections c on c.project_id = a.project_id and c.app_id = a.id
where a.store = any($1::text[]);

-- name: prune_notifications
-- a batch of finished entries from before a moment
delete from store_notifications
where id in (
    select id from store_notifications
    where received_at < $1 and status <> 'waiting'
    order by received_at
    limit $2
    for update skip locked
);

-- name: load_handles
-- what is known of these handles
select * from store_handles
where project_id = $1 and store = $2 and handle_hash = any($3::bytea[]);

-- name: handles_of_purchase
-- what a purchase can be read again with, the latest first: a purchase that was replaced has a handle for each
select * from store_handles
where project_id = $1 and store = $2 and store_id = $3
order by first_seen_at desc, last_told_at desc
limit 1;

-- name: add_handles
-- stores told of purchases by these handles; what is known already stays as it is
insert into store_handles (
    project_id, store, handle_hash, handle, app_id, environment, store_id, kind, product_id, first_seen_at,
    last_told_at, check_at, acknowledge_at
)
select * from unnest(
    $1::text[], $2::text[], $3::bytea[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[]
)
on conflict (project_id, store, handle_hash) do nothing;

-- name: still_to_ask
-- ended subscriptions of which their store has not told since, and that it will be asked about
select e.store, e.store_id
from unnest($2::text[], $3::text[], $4::bigint[]) as e (store, store_id, ended_at)
join store_handles h on h.project_id = $1 and h.store = e.store and h.store_id = e.store_id
join store_connections c on c.project_id = $1 and c.app_id = h.app_id and c.credentials is not null
group by e.store, e.store_id, e.ended_at
having max(h.last_told_at) < e.ended_at and bool_or(h.check_at is not null)
    -- The first question may be under way.
    and (e.ended_at > $5 or max(h.checks) filter (where h.check_at is not null) < 2);

-- name: claim_checks
-- purchases whose store should have spoken by now, leased until a moment
update store_handles
set check_at = $2, checks = checks + 1
{due_rows of store_handles by check_at}
returning *;

-- name: set_check_at
-- when to read a purchase again
update store_handles set check_at = $4 where project_id = $1 and store = $2 and handle_hash = $3;

-- name: claim_acknowledgements
-- purchases that their store still has to be told of, leased until a moment
update store_handles
set acknowledge_at = $2, acknowledge_attempts = acknowledge_attempts + 1
{due_rows of store_handles by acknowledge_at}
returning *;

-- name: set_acknowledge_at
-- when to tell the store again; null once it knows
update store_handles set acknowledge_at = $4 where project_id = $1 and store = $2 and handle_hash = $3;

-- name: note_healing
-- the safety net looked at purchases of an app, and found news in some of them
insert into store_healings as h (project_id, app_id, day, checks, healed)
values ($1, $2, $3, $4, $5)
on conflict (project_id, app_id, day) do update
set checks = h.checks + excluded.checks, healed = h.healed + excluded.healed;

-- name: list_healings
-- how often the safety net looked and found news, since a day
select app_id, sum(checks)::bigint as checks, sum(healed)::bigint as healed
from store_healings
where project_id = $1 and day >= $2
group by app_id;

-- name: prune_healings
-- counts of the safety net from before a day
delete from store_healings where day < $1;

-- name: take_temporary_grant
-- one more temporary grant of an app in this hour, unless the cap is reached
insert into temporary_grants as g (project_id, app_id, hour, granted)
values ($1, $2, $3, 1)
on conflict (project_id, app_id, hour) do update set granted = g.granted + 1
where g.granted < $4
returning granted;

-- name: prune_temporary_grants
-- counts of temporary grants from before an hour
delete from temporary_grants where hour < $1;

-- name: forget_notifications
-- remove what the stores told of a customer who is erased from the journal
delete from store_notifications where project_id = $1 and app_user_id = any($2::text[]);

-- name: forget_handles
-- remove what the purchases of a customer who is erased can be read again with
delete from store_handles h
using purchase_owners o
where o.project_id = $1 and o.customer_id = $2
    and h.project_id = o.project_id and h.store = o.store and h.store_id = o.store_id;
