-- Reads the tables once, without blocking anybody. Afterwards they can become partitions without being read again.
set local statement_timeout = 0;
alter table events validate constraint events_part;
alter table deliveries validate constraint deliveries_part;
alter table attempts validate constraint attempts_part;

-- Creates the partitions of a part, and the events' partition if the part is the first in it: parts 0 to 999 share the
-- first partition of events, 1000 to 1999 the next. From then on new rows belong to the part.
-- Attaching a table does not wait for those who use its parent.
create function open_part(new_part integer, at_ms bigint) returns void language plpgsql as $$
declare
    of_events constant text := new_part / 1000;
    named constant text := case when new_part = -1 then 'kept' else new_part::text end;
begin
    -- Part -1 is opened with the second part: with one partition a statement is planned as for a plain table.
    if new_part > 0 and not exists (select from parts where part = -1) then
        perform open_part(-1, at_ms);
    end if;
    if to_regclass('events_' || of_events) is null then
        execute format('create table events_%s (like events including all)', of_events);
        execute format('alter table events_%s add primary key (project_id, position)', of_events);
        execute format('create unique index events_%1$s_by_id on events_%1$s (id, project_id)', of_events);
        execute format(
            'create unique index events_%1$s_of_customer on events_%1$s (customer_id, project_id, sequence)', of_events
        );
        execute format(
            'alter table events attach partition events_%s for values from (%s) to (%s)',
            of_events, new_part / 1000 * 1000, (new_part / 1000 + 1) * 1000
        );
    end if;
    execute format(
        'create table deliveries_%s (like deliveries including all)'
        ' with (autovacuum_vacuum_scale_factor = 0.05, fillfactor = 50)', named
    );
    -- After the indexes that it has from its parent. While a table is empty, all its indexes look equally good for a lookup
    -- by its key, and the newest is taken.
    execute format(
        'alter table deliveries_%s add primary key (project_id, customer_id, webhook_key, sequence)', named
    );
    execute format('alter table deliveries attach partition deliveries_%s for values in (%s)', named, new_part);
    execute format('create table attempts_%s (like attempts including all)', named);
    execute format(
        'alter table attempts_%s add primary key (project_id, customer_id, webhook_key, sequence, number)', named
    );
    execute format('alter table attempts attach partition attempts_%s for values in (%s)', named, new_part);
    insert into parts (part, opened_at) values (new_part, at_ms);
end $$;

-- Drops the deliveries and attempts of a part. Waits until nobody uses the two tables: call it with a short lock_timeout.
-- The tables before their partitions, as all statements lock them.
create function drop_part(old_part integer, at_ms bigint) returns void language plpgsql as $$
begin
    lock table only deliveries, only attempts in access exclusive mode;
    execute format('alter table deliveries detach partition deliveries_%s', old_part);
    execute format('alter table attempts detach partition attempts_%s', old_part);
    execute format('drop table deliveries_%1$s, attempts_%1$s', old_part);
    update parts set dropped_at = at_ms where part = old_part;
end $$;
