-- name: begin_idempotent_request
-- a request with an Idempotency-Key, unless one is known from after $5 that is under way or has a reply. One that failed may
-- be carried out again, as long as it is the same
insert into idempotent_requests as known (id_hash, project_id, fingerprint, created_at, started_at)
values ($1, $2, $3, $4, $4)
on conflict (id_hash) do update
set fingerprint = excluded.fingerprint, started_at = excluded.started_at, status = null, reply = null,
    created_at = case when known.created_at <= $5 then excluded.created_at else known.created_at end
where known.created_at <= $5
    or known.status is not null and known.reply is null and known.fingerprint = excluded.fingerprint
returning created_at;

-- name: load_idempotent_request
-- what is known of a request with an Idempotency-Key
select fingerprint, started_at, status, reply from idempotent_requests where id_hash = $1;

-- name: finish_idempotent_request
-- the outcome of the request that began at $2; without a reply ($4) it may be carried out again
update idempotent_requests set status = $3, reply = $4 where id_hash = $1 and started_at = $2;

-- name: prune_idempotent_requests
-- forget requests from before a time, so many at once
delete from idempotent_requests
where id_hash in (select id_hash from idempotent_requests where created_at <= $1 limit $2);
