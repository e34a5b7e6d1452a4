-- Imports: what was imported, how far it came, the rows that wait to be applied, and what was skipped.
create table imports (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    -- SHA-256 of the files, with the format and the options that change the result.
    fingerprint text not null,
    format text not null,
    options json not null,
    files json not null,
    -- 'staging' while the files are read, 'applying' while customers are written, then 'done'.
    status text not null check (status in ('staging', 'applying', 'done')),
    -- Rows that wait in import_rows. After a crash of the database they are gone, and the files are read again.
    staged bigint not null default 0,
    -- Customers up to this one are written. In the order of bytes.
    cursor text collate "C" not null default '',
    counts json not null,
    started_at bigint not null,
    updated_at bigint not null,
    finished_at bigint,
    primary key (project_id, id)
);
create index imports_by_fingerprint on imports (fingerprint, project_id);

-- The rows of a running import, put together by customer. Unlogged: the files can be read again.
create unlogged table import_rows (
    project_id text not null,
    import_id text not null,
    customer text collate "C" not null,
    n bigint not null,
    -- The purchase that a transaction belongs to; null for what is about the customer.
    store text,
    chain text,
    updated_at bigint not null,
    body bytea not null,
    primary key (project_id, import_id, customer, n)
);

-- The other ids of the customers of a running import.
create unlogged table import_ids (
    import_id text not null,
    project_id text not null,
    app_user_id text collate "C" not null,
    customer text collate "C" not null,
    as_of bigint not null
);
create index import_ids_of_import on import_ids (import_id, project_id, app_user_id);

-- What was not imported, and why. No ids of people: the line leads to the file.
create table import_skips (
    project_id text not null,
    import_id text not null,
    n bigint generated always as identity,
    file text not null,
    line bigint not null,
    reason text not null,
    primary key (project_id, import_id, n),
    foreign key (project_id, import_id) references imports (project_id, id) on delete cascade
);
