-- Webhooks and the queue that feeds them. Nothing here refers to its parent with a foreign key where rows come by the
-- thousand: a check for each row would lock the webhook's row again and again. A deleted webhook keeps its row
-- (deleted_at) until `prune` has cleared what belonged to it, a batch at a time.

create table webhooks (
    -- Short name inside the queue; people and the API know the webhook by its id.
    key bigint generated always as identity unique,
    project_id text not null references projects (id) on delete cascade,
    id text not null unique,
    name text not null,
    url text not null,
    -- AES-GCM; null when the receiver wants no Authorization header.
    authorization_sealed bytea,
    -- Null is both.
    environment text check (environment in ('production', 'sandbox')),
    -- Empty is all.
    event_types text[] not null default '{}',
    app_id text,
    retry_seconds integer[] not null,
    in_flight_limit integer not null check (in_flight_limit between 1 and 1000),
    enabled boolean not null default true,
    secret_sealed bytea not null,
    -- The secret before the last rotation signs along until this moment.
    previous_secret_sealed bytea,
    previous_secret_until bigint,
    -- Bumped with every change of the above, so that a worker knows when its copy is old.
    version integer not null default 1,
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint,
    -- Health. Consecutive failures, over all workers; the circuit is open while open_until lies ahead.
    failures integer not null default 0,
    open_until bigint,
    -- Since when nothing but failures; null when the last attempt succeeded.
    failing_since bigint,
    -- When webhook.failing was announced for the present trouble.
    announced_at bigint,
    -- Paused by itself after days of failures, or by hand: deliveries gather and nothing is sent.
    paused_at bigint,
    primary key (project_id, id)
) with (fillfactor = 70);

-- One event for one webhook. The event's id within its webhook is the delivery's public id.
create table deliveries (
    project_id text not null,
    customer_id bigint not null,
    webhook_key bigint not null,
    sequence bigint not null,
    event_id text not null,
    event_type text not null,
    status text not null default 'waiting' check (status in ('waiting', 'delivered', 'failed')),
    -- No longer in its customer's line: it stepped aside after two minutes of retries, or was resent by hand.
    aside boolean not null default false,
    attempts integer not null default 0,
    created_at bigint not null,
    -- When it was delivered or given up.
    finished_at bigint,
    response_status integer,
    error text,
    replay_id text,
    primary key (project_id, customer_id, webhook_key, sequence)
    -- status is in no index: recording an outcome stays inside the row's page.
) with (fillfactor = 65, autovacuum_vacuum_scale_factor = 0.05);
create index deliveries_listed on deliveries (webhook_key, created_at, customer_id, sequence);
create index deliveries_of_replay on deliveries (replay_id) where replay_id is not null;

-- A line of deliveries, sent one after the other: all that wait for one customer at one webhook (aside = 0), or a single
-- one that stepped aside (aside = its sequence). Exists only while something waits. Whoever adds to it and whoever
-- records an outcome lock this row, so that neither can miss the other.
create table lanes (
    project_id text not null,
    customer_id bigint not null,
    webhook_key bigint not null,
    aside bigint not null default 0,
    waiting integer not null,
    -- The head is the first waiting delivery after this sequence.
    done bigint not null,
    next_at bigint not null,
    -- How often the head was tried in this round of its retry schedule, and when first.
    tries integer not null default 0,
    tried_at bigint,
    -- Fencing: only who holds the token may record; after lease_until anybody may take over.
    lease_until bigint not null default 0,
    token bigint not null default 0,
    primary key (project_id, customer_id, webhook_key, aside)
    -- lease_until and token are in no index: a claim stays inside the row's page.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index lanes_due on lanes (webhook_key, next_at);

create table attempts (
    project_id text not null,
    customer_id bigint not null,
    webhook_key bigint not null,
    sequence bigint not null,
    number integer not null,
    at bigint not null,
    took_ms integer not null,
    -- In words, null when it was delivered.
    error text,
    status integer,
    -- Secrets masked.
    request_headers json not null,
    response_headers json,
    -- The first 16 KiB.
    response_body bytea,
    primary key (project_id, customer_id, webhook_key, sequence, number)
);

-- webhook.failing, webhook.paused, webhook.recovered: kept for the log and sent to the operations URL where one is set.
create table operational_events (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    webhook_id text not null,
    type text not null,
    at bigint not null,
    body json not null,
    attempts integer not null default 0,
    -- When it is next sent to the operations URL; null when it was, or when there is none.
    next_at bigint,
    delivered_at bigint,
    error text,
    primary key (project_id, id)
);
create index operational_events_listed on operational_events (project_id, at);
create index operational_events_due on operational_events (next_at) where next_at is not null;

-- "Send everything that failed since ...": worked off in batches by the delivery role.
create table replays (
    id text primary key,
    project_id text not null references projects (id) on delete cascade,
    webhook_key bigint not null,
    since_ms bigint not null,
    until_ms bigint not null,
    status text not null check (status in ('failed', 'all')),
    event_types text[] not null default '{}',
    created_at bigint not null,
    -- How far it has come in the project's feed, and where it ends.
    position bigint not null,
    last_position bigint not null,
    scheduled bigint not null default 0,
    finished_at bigint
);
create index replays_unfinished on replays (created_at) where finished_at is null;
