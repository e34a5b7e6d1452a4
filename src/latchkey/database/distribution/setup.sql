-- What every node of a distributed database needs beside the tables. `distribute.py` runs it; each command can be repeated.

create schema if not exists at_project;
create schema if not exists at_shard;
create schema if not exists at_home;
create schema if not exists at_node;

-- The statements that are functions, for nodes that make them. See functions.py.
create table if not exists at_project.statements (
    label text primary key,
    name text not null,
    digest text not null,
    arguments text not null,
    returns text not null,
    body text not null,
    call text not null,
    made_at timestamptz not null default now()
);

-- The shards that this node has.
create or replace function at_node.shards() returns setof bigint language sql stable as $$
    select p.shardid
    from pg_dist_shard s
    join pg_dist_placement p using (shardid)
    where s.logicalrelid = 'public.feeds'::regclass and p.groupid = (select g.groupid from pg_dist_local_group g)
$$;

-- For a function of a project that this node does not have. On a worker, the project was moved a moment ago. On the
-- coordinator, this session of Citus no longer sends calls to the nodes: after an error while it planned a statement with
-- subqueries it takes every later statement for a part of that one (recursivePlanningDepth in Citus 14.0).
create or replace function at_project.refuse() returns void language plpgsql as $$
begin
    if exists (select from pg_dist_local_group g where g.groupid = 0) then
        raise exception 'the call was not sent to the node of its project' using errcode = '40001';
    end if;
    raise exception 'the project was moved to another node' using errcode = '40001';
end $$;

-- The shard of a project, kept on this node until the transaction ends: Citus needs this lock on every node to move it.
create or replace function at_project.hold(of_project text) returns bigint language plpgsql as $$
declare
    shard bigint := get_shard_id_for_distribution_column('public.feeds', of_project);
begin
    perform lock_shard_metadata(5, array[shard]);
    if not exists (
        select from pg_dist_placement p
        where p.shardid = shard and p.groupid = (select g.groupid from pg_dist_local_group g)
    ) then
        perform at_project.refuse();
    end if;
    return shard;
end $$;

-- For a process that reads a shard on its node, without the coordinator: true, or an error if the shard is not here. While
-- the commit of a move is under way, the other node may have new rows already. Stable, so that it is called once for each
-- statement, before the first row is read.
create or replace function at_node.serves(of_shard bigint) returns boolean language plpgsql stable as $$
begin
    if exists (select from pg_prepared_xact()) or not exists (
        select from pg_dist_placement p
        where p.shardid = of_shard and p.groupid = (select g.groupid from pg_dist_local_group g)
    ) then
        raise exception 'the project was moved to another node' using errcode = '40001';
    end if;
    return true;
end $$;

-- In place of those in the schema. Keys for new customers come from a counter for each project: identity values that
-- several nodes make are in no order of time. The lock is held until the commit, so keys become visible in their order.
create or replace function public.next_customer_keys(of_project text, amount bigint)
returns setof bigint language plpgsql as $$
declare
    counters constant text
        := 'public.customer_keys_' || get_shard_id_for_distribution_column('public.customer_keys', of_project);
    reached bigint;
begin
    loop
        execute 'update ' || counters || ' set last = last + $2 where project_id = $1 returning last'
        into reached using of_project, amount;
        exit when reached is not null;
        execute 'insert into ' || counters || ' (project_id, last) select $1, coalesce(max(id), 0) from public.customers_'
            || get_shard_id_for_distribution_column('public.customers', of_project)
            || ' where project_id = $1 on conflict do nothing' using of_project;
    end loop;
    return query select generate_series(reached - amount + 1, reached);
end $$;

-- A notification that a worker sends is heard on that worker alone: the caller sends it.
create or replace function public.wake_deliveries(webhook_keys bigint[]) returns void language sql as 'select';

-- No two are alike, so every export is a whole one: transactions of several nodes have no common order.
create or replace function public.export_epoch() returns text language sql as $$
    select 'distributed-' || gen_random_uuid()::text
$$;

-- Makes the function of a statement for one shard, with the names of the shard's own tables.
create or replace function at_project.make(of_label text, of_shard bigint) returns void language plpgsql as $$
declare
    it record;
    one record;
begin
    if of_shard not in (select at_node.shards()) then
        perform at_project.refuse();
    end if;
    perform pg_advisory_xact_lock(hashtextextended(of_label, of_shard));
    perform set_config('citus.enable_ddl_propagation', 'off', true);
    execute 'select * from at_project.statements_'
        || (select shardid from pg_dist_shard where logicalrelid = 'at_project.statements'::regclass)
        || ' where label = $1' into strict it using of_label;
    -- Only now: opening a table makes a process learn of what others have made.
    if to_regproc('at_shard.' || of_label || '_' || of_shard) is not null then
        return;
    end if;
    for one in
        select c.relname as name, s.shardid
        from pg_dist_shard s
        join pg_dist_partition p using (logicalrelid)
        join pg_class c on c.oid = s.logicalrelid
        where c.relnamespace = 'public'::regnamespace
            and (
                p.partmethod = 'n'
                or p.colocationid = (
                    select q.colocationid from pg_dist_partition q where q.logicalrelid = 'public.feeds'::regclass
                )
                and (s.shardminvalue, s.shardmaxvalue)
                    = (select m.shardminvalue, m.shardmaxvalue from pg_dist_shard m where m.shardid = of_shard)
            )
    loop
        it.body := replace(it.body, '@' || one.name || '@', 'public.' || one.name || '_' || one.shardid);
    end loop;
    execute 'create function at_shard.' || of_label || '_' || of_shard || '(' || it.arguments || ') returns '
        || it.returns || ' language plpgsql as ' || quote_literal(it.body);
exception when duplicate_function or unique_violation then
    -- Somebody else has made it meanwhile.
    return;
end $$;

-- Makes all functions of the shards that this node has; those of a shard that comes later are made at their first use.
create or replace function at_project.make_all() returns bigint language plpgsql as $$
declare
    one record;
    amount bigint := 0;
begin
    for one in
        select s.label, p.shardid
        from at_project.statements s
        cross join at_node.shards() as p (shardid)
        where s.call like '%at_project.%'
            and to_regproc('at_shard.' || s.label || '_' || p.shardid) is null
    loop
        perform at_project.make(one.label, one.shardid);
        amount := amount + 1;
    end loop;
    return amount;
end $$;
