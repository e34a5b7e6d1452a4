-- After a restore the next event of every customer gets a sequence above this. Part of the catalog: changing it increments
-- catalog_version. Processes of the release before do not know it, so none of them may run when `after-restore` is used.
alter table projects add column sequence_floor bigint not null default 0;

-- Which server this database is on, as Latchkey last saw it. One row. If it differs, the database may have been restored.
create table server_identity (
    id smallint primary key default 1 check (id = 1),
    system_identifier text not null,
    database_oid bigint not null,
    timeline integer not null,
    noted_at bigint not null
);

-- What `latchkey after-restore` did, one row for each restore.
create table restores (
    system_identifier text not null,
    database_oid bigint not null,
    timeline integer not null,
    started_at bigint not null,
    -- When sequences, positions and keys were moved on; null while that is not done.
    moved_at bigint,
    finished_at bigint,
    counts json not null default '{}',
    primary key (system_identifier, database_oid, timeline)
);
