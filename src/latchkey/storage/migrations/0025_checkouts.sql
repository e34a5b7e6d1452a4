-- A purchase that a web page has begun at a payment provider. `erase` deletes those of a customer; others go some time
-- after they expired.
create table checkouts (
    -- SHA-256 of the id that the page has.
    id_hash bytea primary key,
    project_id text not null references projects (id) on delete cascade,
    app_id text not null,
    app_user_id text not null,
    product_id text not null,
    -- What the page shows.
    price_micros bigint not null,
    currency text not null,
    -- Null: no free trial.
    trial_days integer,
    -- What the provider knows the payment by; null until there is something to pay.
    handle text,
    status text not null check (status in ('open', 'succeeded', 'failed')),
    transaction_id text,
    purchased_at bigint,
    created_at bigint not null,
    expires_at bigint not null
);
create index checkouts_of_user on checkouts (app_user_id, project_id);
create index checkouts_by_expiry on checkouts (expires_at);
