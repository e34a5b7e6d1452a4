-- name: server_identity
-- which cluster and timeline a server is on, and whether it takes changes: asked once for each new connection. After a
-- promotion the control file is late, so a primary says what timeline it writes to
select
    (select system_identifier::text from pg_control_system()) as system,
    case when pg_is_in_recovery() then (
        select greatest(c.timeline_id, r.min_recovery_end_timeline)::bigint
        from pg_control_checkpoint() as c, pg_control_recovery() as r
    ) else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint end as timeline,
    pg_is_in_recovery() as standby,
    current_setting('transaction_read_only')::boolean as read_only,
    {waits_for_standby} as waits, {database_now} as now;

-- name: server_role
-- the same without cluster and timeline, for a service that hides them
select '' as system, 0::bigint as timeline,
    pg_is_in_recovery() as standby,
    current_setting('transaction_read_only')::boolean as read_only,
    {waits_for_standby} as waits, {database_now} as now;

-- name: server_session
-- PostgreSQL's process of this session
select pg_backend_pid();
