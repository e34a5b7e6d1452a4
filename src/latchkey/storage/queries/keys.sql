-- part: key_columns
id, project_id, app_id, kind, name, scopes, hint, rate_limit, created_at, revoked_at, plaintext,
    expires_at, allowed_networks, shape

-- name: create_key
-- a new API key: its hash and a hint; of a public one the key itself, too
insert into api_keys (
    id, project_id, app_id, kind, name, scopes, hash, hint, rate_limit, created_at, plaintext, expires_at, allowed_networks,
    shape
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- name: list_keys
-- a project's keys, including revoked ones, oldest first, after a given one; optionally of a kind, an app or an id
select {key_columns} from api_keys
where project_id = $1
  and ($4::text is null or kind = $4)
  and ($5::text is null or app_id = $5)
  and ($6::text is null or id = $6)
  and ($2::text is null or (created_at, id) > (select k.created_at, k.id from api_keys k where k.project_id = $1 and k.id = $2))
order by created_at, id
limit $3;

-- name: find_key
-- the key with this hash, unless it was revoked
select {key_columns} from api_keys
where hash = $1 and revoked_at is null;

-- name: revoke_key
-- revoke a key; idempotent
update api_keys set revoked_at = coalesce(revoked_at, $3), revision = revision + 1
where project_id = $1 and id = $2
returning {key_columns};

-- name: lock_key
-- one key of a project, locked until the transaction ends, so that two changes of its rules follow each other
select {key_columns} from api_keys
where project_id = $1 and id = $2
for update;

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
