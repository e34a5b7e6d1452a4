-- part: caller_columns
asked.revision, asked.id, asked.project_id, asked.app_id, asked.store, asked.kind, asked.scopes,
    asked.expires_at, asked.allowed_networks, asked.shape

-- name: rules_of_keys
-- when and from where keys work; nothing is counted
select hash, id, expires_at, allowed_networks from api_keys where hash = any($1::bytea[]) and revoked_at is null;

-- name: hand_back
-- a lease of a key that is over: what is unused ($2), its size ($3) and its run ($4)
select t.used
from api_keys k
cross join lateral take_requests(k.id, 0, k.rate_limit, null, 0, $2::integer, $3::integer, $4::bigint) as t
where k.hash = $1;

-- name: former_key_store
-- the store of a public key that once existed: revoked, or of an app that was deleted
select a.store
from api_keys k
join apps a on a.project_id = k.project_id and a.id = k.app_id
where k.hash = $1 and k.kind = 'public' and k.revoked_at is not null
union all
select store from former_public_keys where hash = $1;

-- part: key_columns
id, project_id, app_id, kind, name, scopes, hint, rate_limit, created_at, revoked_at, plaintext,
    expires_at, coalesce(allowed_networks, '{}') as allowed_networks, shape

-- name: create_key
-- a new API key: its hash and a hint; of a public one the key itself, too
insert into api_keys (
    project_id, id, app_id, kind, name, scopes, hint, rate_limit, created_at, plaintext, expires_at, shape, hash,
    allowed_networks
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: list_keys
-- a project's keys, including revoked ones, oldest first, after a given one; optionally of a kind, an app or an id
select {key_columns} from api_keys
where project_id = $1 and ($5::text is null or kind = $5) and ($6::text is null or app_id = $6)
    and {page_by_age of api_keys};

-- name: find_key
-- the key with this hash, unless it was revoked
select {key_columns} from api_keys where hash = $1 and revoked_at is null;

-- name: revoke_key
-- revoke a key; idempotent
update api_keys set revoked_at = coalesce(revoked_at, $3), revision = revision + 1
where project_id = $1 and id = $2
returning {key_columns};

-- name: lock_key
-- one key of a project, locked until the transaction ends, so that two changes of its rules follow each other
select {key_columns} from api_keys where project_id = $1 and id = $2 for update;

-- name: set_key_rules
-- when and from where a key works, its name and its rate limit
update api_keys set name = $3, rate_limit = $4, expires_at = $5, allowed_networks = $6, revision = revision + 1
where project_id = $1 and id = $2
returning {key_columns};

-- name: keys_about_to_expire
-- the keys of all projects that work now ($1) and expire before a time ($2), the first first
select {key_columns} from api_keys
where revoked_at is null and expires_at > $1 and expires_at <= $2
order by expires_at, id
limit $3;

-- name: look_out_at_home
-- when background work of each kind is next due, by tables that the coordinator of a distributed database has
-- With look_out_in_projects all that the clock role asks while nothing happens. Each instant is the first entry of an index.
select
    (select min(n.next_at) from store_notifications n where n.status = 'waiting') as notification_at,
    (select min(c.check_at) from checkouts c where c.check_at is not null) as checkout_at,
    (select min(greatest(e.next_at, e.lease_until)) from exports e where e.next_at is not null) as export_at,
    (select min(b.lease_until) from bulk_grants b where b.state = 'running') as bulk_grant_at,
    (select min(m.due_at) from outgoing_mails m) as mail_at,
    least(
        (select min(w.look_at) from alert_watches w),
        (select min(s.report_at) from alert_subscriptions s where s.report_at is not null)
    ) as alert_at;

-- name: look_out_in_projects
-- the same by the tables of projects, and whether customer lists are behind their feeds: they are never ahead of them
select
    (
        select c.next_due_at from customers c
        where c.test_clock_id is null and c.next_due_at is not null
        order by c.next_due_at
        limit 1
    ) as customer_at,
    (select min(h.acknowledge_at) from store_handles h where h.acknowledge_at is not null) as acknowledgement_at,
    (select min(h.check_at) from store_handles h where h.check_at is not null) as check_at,
    heads.position > lists.position or exists (select from facet_marks) as behind,
    heads.projects > lists.projects as unstarted,
    -- One of the two counts the keys of customers, and the other stands still; see next_customer_keys.
    coalesce(pg_sequence_last_value('customers_id_seq'), 0)
        + (select coalesce(sum(k.last), 0) from customer_keys k)::bigint as newest
from (select coalesce(sum(position), 0) as position, count(*) as projects from feeds) as heads,
    (select coalesce(sum(position), 0) as position, count(*) as projects from facet_rolls) as lists;
