-- Processes of the release before insert deliveries `on conflict` of a key that a partitioned table cannot have.
-- The tables become the partitions of part 0. Nothing is read or copied.

-- All locks at once, or none: as in 0036.
do $$
begin
    for attempt in 1..300 loop
        begin
            perform set_config('lock_timeout', '100', true);
            lock table deliveries, attempts, events in access exclusive mode;
            return;
        exception when lock_not_available or deadlock_detected then
            perform pg_sleep(0.05);
        end;
    end loop;
    raise lock_not_available using message = 'The tables are in use.';
end $$;

alter table events rename to events_0;
alter index events_pkey rename to events_0_pkey;
alter index events_by_id rename to events_0_by_id;
alter index events_of_customer rename to events_0_of_customer;
alter index events_of_transfers rename to events_0_project_id_customer_id_idx;
drop trigger rewritten_event on events_0;
create table events (like events_0 including defaults including storage) partition by range (part);
create index events_of_transfers on events (project_id, customer_id) where type = 'TRANSFER';
alter table events attach partition events_0 for values from (0) to (1000);
alter table events_0 drop constraint events_part;
create trigger rewritten_event after update on events for each row execute function note_rewritten_event();

alter table deliveries rename to deliveries_0;
alter index deliveries_pkey rename to deliveries_0_pkey;
alter index deliveries_listed rename to deliveries_0_webhook_key_created_at_customer_id_sequence_idx;
alter index deliveries_of_replay rename to deliveries_0_replay_id_idx;
-- While a table is empty, all its indexes look equally good for a lookup by its key, and the newest is taken: that is to
-- be the primary key (tests/storage/test_plans.py).
do $$
begin
    if not exists (select from deliveries_0) then
        alter table deliveries_0 drop constraint deliveries_0_pkey;
        alter table deliveries_0 add primary key (project_id, customer_id, webhook_key, sequence);
    end if;
end $$;
create table deliveries (like deliveries_0 including defaults including storage) partition by list (part);
alter table deliveries add constraint deliveries_status_check check (status in ('waiting', 'delivered', 'failed'));
create index deliveries_listed on deliveries (webhook_key, created_at, customer_id, sequence);
create index deliveries_of_replay on deliveries (replay_id) where replay_id is not null;
alter table deliveries attach partition deliveries_0 for values in (0);
alter table deliveries_0 drop constraint deliveries_part;

alter table attempts rename to attempts_0;
alter index attempts_pkey rename to attempts_0_pkey;
create table attempts (like attempts_0 including defaults including storage) partition by list (part);
alter table attempts attach partition attempts_0 for values in (0);
alter table attempts_0 drop constraint attempts_part;
