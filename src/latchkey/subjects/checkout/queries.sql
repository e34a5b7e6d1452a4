-- name: save_checkout
-- a checkout that a web page has begun
insert into checkouts (
    project_id, id_hash, app_id, app_user_id, product_id, price_micros, currency, trial_days, handle, status, created_at,
    expires_at, offering, redeemable, check_at
)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'open', $10, $11, $12, $13, $14);

-- name: load_checkout
-- the checkout of an app by the hash of its id
select * from checkouts where id_hash = $1 and project_id = $2 and app_id = $3;

-- name: load_paid_checkout
-- the paid checkout with this hash, in any project
select * from checkouts where id_hash = $1 and status = 'succeeded';

-- name: set_checkout_handle
-- the payment of a checkout, and when to ask about it; a handle that is there stays, and counts
update checkouts
set handle = coalesce(handle, $2), check_at = case when handle is null then $3 else check_at end
where id_hash = $1
returning handle;

-- name: claim_checkouts
-- the checkouts whose provider has to be asked, leased to this process until a moment
update checkouts
set check_at = $2
{due_rows of checkouts by check_at}
returning *;

-- name: set_checkout_check
-- when to ask again about a checkout that is still open
update checkouts set check_at = $2 where id_hash = $1 and status = 'open';

-- name: finish_checkout
-- the outcome of a checkout; the first one counts
update checkouts
set status = $2, transaction_id = $3, purchased_at = $4, purchase_id = $5, email = $6, check_at = null
where id_hash = $1 and status = 'open';

-- name: redeem_checkout
-- who takes a paid purchase over; the first one counts, and is returned
update checkouts
set redeemed_by = coalesce(redeemed_by, $2), redeemed_at = coalesce(redeemed_at, $3)
where id_hash = $1 and redeemable and status = 'succeeded'
returning redeemed_by;

-- name: forget_checkouts
-- the checkouts of a customer who is erased
delete from checkouts where project_id = $1 and (app_user_id = any($2::text[]) or redeemed_by = any($2::text[]));

-- name: prune_checkouts
-- a batch of checkouts that expired before a moment; what was paid and can be redeemed stays until it is, and a payment
-- that is still asked for until it has come, but not longer than the second moment
delete from checkouts
where id_hash in (
    select id_hash
    from checkouts
    where expires_at < $1 and not (redeemable and status = 'succeeded' and coalesce(redeemed_at, $1) >= $1)
        and (check_at is null or expires_at < $2)
    order by expires_at
    limit $3
    for update skip locked
);
