-- What connects an app to its store. The credentials are encrypted; `shown` is what may be shown of them.
create table store_connections (
    project_id text not null,
    app_id text not null,
    store text not null,
    -- Counts the changes; a process that knows an older version loads the row again.
    version bigint not null,
    credentials bytea,
    shown json,
    saved_at bigint,
    -- What the trial call said when the credentials were saved: 'ok', 'refused' or 'unknown', with a message.
    check_result text not null default 'unknown' check (check_result in ('ok', 'refused', 'unknown')),
    check_message text not null default '',
    checked_at bigint,
    -- The secret part of the notification URL: encrypted to be shown, hashed (SHA-256) to be looked up.
    url_token bytea not null,
    url_token_hash bytea not null unique,
    -- After a rotation the token before it works on for a while.
    previous_token_hash bytea unique,
    previous_token_until bigint,
    first_notified_at bigint,
    last_notified_at bigint,
    -- Up to when the store's own history of notifications was compared with the journal.
    history_read_to bigint,
    primary key (project_id, app_id),
    foreign key (project_id, app_id) references apps (project_id, id) on delete cascade
);

-- The journal: every authentic notification and receipt, as it came, with what was checked and what became of it.
create table store_notifications (
    id bigint generated always as identity primary key,
    project_id text not null references projects (id) on delete cascade,
    app_id text not null,
    store text not null,
    -- 'notification', 'receipt', or 'history' where the store's history had one that never arrived.
    source text not null check (source in ('notification', 'receipt', 'history')),
    -- The store's own id. The same again changes nothing.
    external_id text not null,
    kind text not null,
    environment text,
    subject text,
    occurred_at bigint not null,
    received_at bigint not null,
    checked json not null,
    payload text not null,
    status text not null default 'waiting' check (status in ('waiting', 'applied', 'ignored', 'failed')),
    attempts integer not null default 0,
    -- When a waiting one is processed next. A worker that takes one moves it on, as a lease.
    next_at bigint not null,
    finished_at bigint,
    -- Why it failed, why it waits, or why nothing followed.
    message text not null default '',
    app_user_id text,
    event_ids text[] not null default '{}'
);
create unique index store_notifications_by_external_id on store_notifications (external_id, app_id, project_id);
create index store_notifications_waiting on store_notifications (next_at) where status = 'waiting';
create index store_notifications_of_project on store_notifications (project_id, id desc);
create index store_notifications_failed on store_notifications (project_id, id desc) where status = 'failed';
create index store_notifications_of_subject on store_notifications (subject, project_id) where subject is not null;
create index store_notifications_of_user on store_notifications (app_user_id, project_id) where app_user_id is not null;
create index store_notifications_old on store_notifications (received_at);

-- What a store can be asked about: one row for each purchase token or original transaction.
create table store_handles (
    project_id text not null references projects (id) on delete cascade,
    store text not null,
    -- SHA-256 of the handle: tokens can be longer than an index entry may be.
    handle_hash bytea not null,
    handle text not null,
    app_id text not null,
    environment text not null,
    -- The purchase it belongs to, as `purchase_owners` knows it.
    store_id text not null,
    kind text not null check (kind in ('subscription', 'one_time')),
    product_id text not null,
    first_seen_at bigint not null,
    last_told_at bigint not null,
    -- When to read it again because the store should have spoken by then; null when nothing more is expected.
    check_at bigint,
    checks integer not null default 0,
    -- When to tell the store again that the purchase was received; null when it knows.
    acknowledge_at bigint,
    acknowledge_attempts integer not null default 0,
    primary key (project_id, store, handle_hash)
);
create index store_handles_of_purchase on store_handles (store_id, store, project_id);
create index store_handles_to_check on store_handles (check_at) where check_at is not null;
create index store_handles_to_acknowledge on store_handles (acknowledge_at) where acknowledge_at is not null;

-- How often the safety net found what no notification had told, by day (UTC, as days since 1970).
create table store_healings (
    project_id text not null references projects (id) on delete cascade,
    app_id text not null,
    day integer not null,
    checks bigint not null default 0,
    healed bigint not null default 0,
    primary key (project_id, app_id, day)
);

-- How a purchase shown by another customer is treated: moved, kept, or moved only while nothing of the owner is active.
alter table projects drop constraint projects_restore_behavior_check;
alter table projects add constraint projects_restore_behavior_check
    check (restore_behavior in ('transfer', 'keep', 'transfer_if_no_active_subscriptions'));

-- Temporary grants given while a store could not be asked, by app and hour (hours since 1970): the cap counts them.
create table temporary_grants (
    project_id text not null,
    app_id text not null,
    hour integer not null,
    granted integer not null,
    primary key (project_id, app_id, hour),
    foreign key (project_id, app_id) references apps (project_id, id) on delete cascade
);
