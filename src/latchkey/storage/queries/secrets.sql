-- name: load_a_sealed_secret
-- something encrypted with LATCHKEY_SECRET_KEY, to check a key with; there is none before the first webhook
select id, secret_sealed
from webhooks
where deleted_at is null
order by key desc
limit 1
