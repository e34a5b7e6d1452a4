-- name: admit_requests
-- who the keys of one tick belong to, and how many of their requests the rate limit lets through
select taken.hash, taken.granted, taken.retry_after_us, k.id, k.project_id, k.app_id, k.kind, k.scopes
from take_requests($1::bytea[], $2::integer[]) as taken
join api_keys k on k.hash = taken.hash and k.revoked_at is null
