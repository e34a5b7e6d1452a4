-- Exports: what an incremental one must know beyond the rows themselves, and the exports that run by themselves.

-- Customers that were erased or merged into another. Triggers write it, so that processes of the release before do too.
-- `xid` is the transaction's id: an export that did not see the transaction reports the customer again.
create table gone_customers (
    project_id text not null,
    customer_id bigint not null,
    xid bigint not null,
    primary key (project_id, customer_id)
);
create index gone_customers_since on gone_customers (xid, project_id);

create function note_gone_customer() returns trigger language plpgsql as $$
begin
    -- A project that is deleted takes its customers with it.
    insert into gone_customers (project_id, customer_id, xid)
    select old.project_id, old.id, pg_current_xact_id()::text::bigint
    where exists (select from projects where id = old.project_id)
    on conflict (project_id, customer_id) do update set xid = excluded.xid;
    return null;
end $$;
create trigger gone_customer after delete on customers for each row execute function note_gone_customer();

-- Events whose body was changed afterwards, which only an erasure does.
create table rewritten_events (
    project_id text not null references projects (id) on delete cascade,
    position bigint not null,
    xid bigint not null,
    primary key (project_id, position)
);
create index rewritten_events_since on rewritten_events (xid, project_id);

create function note_rewritten_event() returns trigger language plpgsql as $$
begin
    insert into rewritten_events (project_id, position, xid)
    values (new.project_id, new.position, pg_current_xact_id()::text::bigint)
    on conflict (project_id, position) do update set xid = excluded.xid;
    return null;
end $$;
create trigger rewritten_event after update on events for each row execute function note_rewritten_event();

-- Exports that run by themselves.
create table exports (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    what text[] not null,
    format text not null check (format in ('csv', 'jsonl', 'parquet')),
    -- Whether a run continues after the last one, or exports everything.
    incremental boolean not null,
    with_tokens boolean not null default false,
    -- A folder below the operator's `export_folder`, or s3://bucket/prefix.
    destination text not null,
    endpoint text,
    region text,
    -- The access key and its secret, encrypted; null for a folder. `access_key` is what may be shown.
    credentials bytea,
    access_key text,
    every text not null check (every in ('hour', 'day', 'week', 'never')),
    enabled boolean not null default true,
    created_at bigint not null,
    updated_at bigint not null,
    -- When it runs next; null when it does not by itself.
    next_at bigint,
    -- Failed runs since the last one that succeeded.
    failures integer not null default 0,
    -- Where the next increment begins; null when the next run exports everything.
    cursor text,
    -- Fencing: only the holder of the token may record; after lease_until another process may claim the export.
    lease_until bigint not null default 0,
    token bigint not null default 0,
    primary key (project_id, id)
);
create index exports_due on exports (next_at) where next_at is not null;

create table export_runs (
    project_id text not null,
    export_id text not null,
    id bigint generated always as identity,
    started_at bigint not null,
    finished_at bigint,
    state text not null default 'running' check (state in ('running', 'done', 'failed')),
    -- 'whole' or 'increment'; null while it is not decided.
    kind text,
    -- The name of its folder at the destination.
    folder text,
    rows bigint not null default 0,
    bytes bigint not null default 0,
    files integer not null default 0,
    -- Why it failed, in words for people.
    error text,
    primary key (project_id, export_id, id),
    foreign key (project_id, export_id) references exports (project_id, id) on delete cascade
);
