-- Requests with API keys, for the dashboard: a sample of those that succeeded, and those that did not. Nothing in it names a
-- customer. Unlogged: a crash of the database may empty it.
create unlogged table request_log (
    project_id text not null,
    id bigint generated always as identity,
    key_id text not null,
    at bigint not null,
    -- Empty in a row that only says how many requests were left out.
    method text not null default '',
    -- The template, not the path: paths hold ids of users.
    route text not null default '',
    status integer not null default 0,
    took_us integer not null default 0,
    bytes integer not null default 0,
    request_id text not null default '',
    -- Of a phone: only its network.
    address text not null default '',
    agent text not null default '',
    -- Further requests with this key in the same second that were not kept.
    left_out integer not null default 0,
    primary key (project_id, id)
);
create index request_log_of_key on request_log (key_id, id);
create index request_log_old on request_log (at);

-- When each API key was last used, to the minute.
create table key_uses (
    key_id text primary key,
    project_id text not null,
    used_at bigint not null
);
