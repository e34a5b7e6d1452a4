-- Charts: what each purchase and customer adds to them, and the sums. Processes of the release before keep their figures and
-- neither read nor write these tables; the function below marks for both.

-- Customer attributes that charts can be filtered and broken down by.
alter table projects add column chart_attributes text[] not null default '{}';

create table chart_rolls (
    project_id text primary key references projects (id) on delete cascade,
    -- Changes when the tables of this project start anew, so that nobody uses numbers of dimensions that were given before.
    generation uuid not null default gen_random_uuid(),
    -- The last event of the feed that is in the charts, and when it was committed.
    position bigint not null default 0,
    rolled_to bigint not null default 0,
    -- Customers up to this id are counted, and the next id to count up to; see usecases/figures/newcomers.py.
    counted bigint not null default 0,
    mark_id bigint,
    mark_xid bigint,
    marked_at bigint,
    -- Facts up to this instant are in chart_tail or the sums. Later ones are in chart_ahead.
    passed_to bigint not null default 0,
    -- The numbers of the last batch and of the last row of chart_dimensions.
    batch bigint not null default 0,
    dimension integer not null default 0,
    -- How many rows chart_tail has, and when they were last added to the sums.
    tail bigint not null default 0,
    folded_at bigint not null default 0,
    -- During a rebuild: what it is doing ('clearing', 'summing'), and the last subject whose facts are in the sums again.
    rebuilding text,
    summed_to uuid
) with (fillfactor = 50);

-- Customers who changed without an event.
create table chart_marks (
    project_id text not null,
    id bigint generated always as identity,
    customer_id bigint not null,
    primary key (project_id, id)
);

-- What each purchase and each customer contributed: to take the difference when it changes. `subject` is a hash of the
-- store's id, or of the customer's first id, so that nothing here identifies an erased person.
create table chart_subjects (
    project_id text not null,
    subject uuid not null,
    -- The row of chart_dimensions with the platform, app version and country when the subject was first counted.
    origin integer not null,
    -- MessagePack; see storage/charts/subjects.py.
    facts bytea not null,
    primary key (project_id, subject)
);

-- BILLING_ISSUE events by purchase: a customer's state knows only the latest one.
create table chart_issues (
    project_id text not null,
    subject uuid not null,
    at bigint not null,
    transaction_id text not null,
    primary key (project_id, subject, at, transaction_id)
);

-- Combinations of dimensions, by number. Those of test clocks have numbers below zero and no cells.
create table chart_dimensions (
    project_id text not null,
    id integer not null,
    -- A hash of everything below.
    digest uuid not null,
    environment text not null,
    -- See domain/charts/cuboids.py; 0 has all dimensions, -1 is an origin.
    cuboid smallint not null,
    product text not null,
    duration text not null,
    store text not null,
    country text not null,
    platform text not null,
    app_version text not null,
    offering text not null,
    variants text[] not null,
    attributes text[] not null,
    -- Of cuboid 0: the cells in which facts with these dimensions are summed by day, and those of them also by month.
    cells integer[] not null,
    months integer[] not null,
    primary key (project_id, id)
);
-- Without the project's own column, so that no lookup by id uses these: while the table is empty, all indexes look
-- equally good.
create index chart_dimensions_digest on chart_dimensions (digest);
create index chart_dimensions_cuboid on chart_dimensions (cuboid, environment, (project_id || ''));

-- Facts that are not in the sums yet: added to them together, because one row of a sum then changes once for many facts.
-- `dimension` has cuboid 0. Zero amounts are null here and in the sums.
create table chart_tail (
    project_id text not null,
    kind smallint not null,
    batch bigint not null,
    place integer not null,
    dimension integer not null,
    n smallint not null,
    currency text not null,
    day integer not null,
    quantity bigint not null,
    micros bigint, tax bigint, commission bigint, usd bigint, tax_usd bigint, commission_usd bigint, unconverted bigint,
    primary key (project_id, kind, batch, place)
) with (autovacuum_vacuum_scale_factor = 0.05);

-- Facts of the future, and all facts of test clocks.
create table chart_ahead (
    project_id text not null,
    -- The id of the test clock; '' for the time of everybody.
    clock text not null,
    at bigint not null,
    batch bigint not null,
    place integer not null,
    kind smallint not null,
    dimension integer not null,
    n smallint not null,
    currency text not null,
    quantity bigint not null,
    micros bigint, tax bigint, commission bigint, usd bigint, tax_usd bigint, commission_usd bigint, unconverted bigint,
    primary key (project_id, clock, at, batch, place)
) with (autovacuum_vacuum_scale_factor = 0.05);

-- Sums by day (in days since 1970) and by month (its first day).
create table chart_days (
    project_id text not null,
    cell integer not null,
    kind smallint not null,
    day integer not null,
    n smallint not null,
    currency text not null,
    quantity bigint not null,
    micros bigint, tax bigint, commission bigint, usd bigint, tax_usd bigint, commission_usd bigint, unconverted bigint,
    primary key (project_id, cell, kind, day, n, currency)
) with (fillfactor = 90);

create table chart_months (
    project_id text not null,
    cell integer not null,
    kind smallint not null,
    day integer not null,
    n smallint not null,
    currency text not null,
    quantity bigint not null,
    micros bigint, tax bigint, commission bigint, usd bigint, tax_usd bigint, commission_usd bigint, unconverted bigint,
    primary key (project_id, cell, kind, day, n, currency)
) with (fillfactor = 70);

-- As before, and customers who changed without an event are marked for the charts too.
create or replace function write_changes(
    of_project text, at_ms bigint,
    known_keys bigint[], known_seen xid[], known_ids text[], known_originals text[], known_states json[],
    known_dues bigint[], known_firsts bigint[],
    new_ids text[], new_states json[], new_dues bigint[], new_firsts bigint[],
    own_whos bigint[], own_stores text[], own_ids text[],
    part_stores text[], part_ids text[], part_of text[],
    coin_whos bigint[], coin_ids text[], coin_codes text[], coin_amounts bigint[], coin_balances bigint[],
    coin_ats bigint[],
    mark_whos bigint[],
    told_whos bigint[], told_ids text[], told_sequences bigint[], told_types text[], told_environments text[],
    told_apps text[], told_ats bigint[], told_vendor_types text[], told_bodies json[]
) returns bigint[] language plpgsql as $$
declare
    made bigint[] := '{}';
    one record;
    woken text;
    head bigint;
    now_part integer;
    told_part integer;
begin
    -- One at a time: joined, the plan of an empty table would read all customers of the project for each of them. The
    -- arrays are sorted by key, so rows are locked in the same order everywhere.
    if cardinality(known_keys) > 0 then
        for one in
            select *
            from unnest(known_keys, known_seen, known_ids, known_originals, known_states, known_dues, known_firsts)
                as n (key, seen, app_user_id, original, state, due, first)
        loop
            update customers c
            set app_user_id = one.app_user_id,
                original_app_user_id = one.original,
                state = one.state,
                next_due_at = one.due,
                first_seen_at = one.first
            where c.project_id = of_project and c.id = one.key and (one.seen is null or c.xmin = one.seen);
            if not found then
                raise exception 'a customer has changed meanwhile' using errcode = 'LK001';
            end if;
        end loop;
    end if;

    if cardinality(new_ids) > 0 then
        made := array(
            select nextval('customers_id_seq') from generate_series(1, cardinality(new_ids))
        );
        insert into aliases (project_id, app_user_id, customer_id, created_at)
        select of_project, n.app_user_id, n.key, n.first
        from unnest(new_ids, made, new_firsts) as n (app_user_id, key, first)
        order by n.app_user_id;
        insert into customers (
            project_id, id, app_user_id, original_app_user_id, state, next_due_at, first_seen_at, last_seen_at
        )
        select of_project, n.key, n.app_user_id, n.app_user_id, n.state, n.due, n.first, n.first
        from unnest(new_ids, made, new_states, new_dues, new_firsts) as n (app_user_id, key, state, due, first);
    end if;

    if cardinality(own_whos) > 0 then
        insert into purchase_owners (project_id, store, store_id, customer_id)
        select of_project, n.store, n.id, case when n.who < 0 then made[-n.who] else n.who end
        from unnest(own_whos, own_stores, own_ids) as n (who, store, id);
    end if;
    if cardinality(part_ids) > 0 then
        insert into purchase_transactions (project_id, store, transaction_id, store_id)
        select of_project, n.store, n.id, n.part_of
        from unnest(part_stores, part_ids, part_of) as n (store, id, part_of)
        on conflict do nothing;
    end if;
    if cardinality(coin_whos) > 0 then
        insert into currency_transactions (project_id, customer_id, idempotency_key, code, amount, balance, at)
        select of_project, case when n.who < 0 then made[-n.who] else n.who end, n.id, n.code, n.amount, n.balance, n.at
        from unnest(coin_whos, coin_ids, coin_codes, coin_amounts, coin_balances, coin_ats)
            as n (who, id, code, amount, balance, at);
    end if;
    if cardinality(mark_whos) > 0 then
        insert into figure_marks (project_id, customer_id)
        select of_project, case when n.who < 0 then made[-n.who] else n.who end from unnest(mark_whos) as n (who);
        insert into chart_marks (project_id, customer_id)
        select of_project, case when n.who < 0 then made[-n.who] else n.who end from unnest(mark_whos) as n (who);
    end if;
    if cardinality(told_whos) = 0 then
        return made;
    end if;

    now_part := (select max(p.part) from parts p);
    -- Before the feed's lock: this may wait for a lane whose outcome is being recorded.
    with matching as (
        select w.key, w.dialect, n.*, case when n.who < 0 then made[-n.who] else n.who end as customer_id
        from webhooks w
        cross join unnest(
            told_whos, told_ids, told_sequences, told_types, told_environments, told_apps, told_vendor_types
        ) as n (who, event_id, sequence, type, environment, app_id, vendor_type)
        where w.project_id = of_project and w.enabled and w.deleted_at is null
            and (w.environment is null or w.environment = lower(n.environment))
            and (
                w.event_types = '{}'
                or case when w.dialect = 'latchkey' then n.type = any(w.event_types) else
                    -- The rule is domain/webhooks/dialect.py: vendor_type is null where it is the same.
                    coalesce(n.vendor_type, n.type) = any(w.event_types)
                    or n.type = any(w.event_types) and n.type in ('TRIAL_STARTED', 'TRIAL_CANCELLED', 'REFUND')
                end
            )
            and (w.app_id is null or w.app_id = n.app_id)
    ),
    stored as (
        insert into deliveries (
            project_id, customer_id, webhook_key, sequence, event_id, event_type, created_at, dialect, part
        )
        select of_project, customer_id, key, sequence, event_id, type, at_ms, nullif(dialect, 'latchkey'), now_part
        from matching
    ),
    queued as (
        insert into lanes as l (project_id, customer_id, webhook_key, waiting, done, next_at, part)
        select of_project, customer_id, key, count(*), min(sequence) - 1, at_ms, now_part
        from matching
        group by customer_id, key
        order by customer_id, key
        on conflict (project_id, customer_id, webhook_key, aside) do update
        set waiting = l.waiting + excluded.waiting, part = least(l.part, excluded.part)
        returning webhook_key
    )
    select case when count(*) <= 300 then string_agg(webhook_key::text, ',') else '' end into woken
    from (select distinct webhook_key from queued) as told;
    if woken is not null then
        perform pg_notify('latchkey_delivery', woken);
    end if;

    -- Last: the feed's lock is held until the commit, so positions are in the order of commits (decision 6).
    -- A project's parts never go back, so no part after this one has an event of the project.
    update feeds set position = position + cardinality(told_whos), part = greatest(part, now_part)
    where project_id = of_project
    returning position - cardinality(told_whos), part into head, told_part;
    -- The index of a partition knows only the ids in that partition. Under the feed's lock nobody adds one meanwhile.
    if told_part >= 1000 and exists (
        select from events e
        where e.part < told_part / 1000 * 1000 and e.project_id || '' = of_project and e.id = any(told_ids)
    ) then
        raise unique_violation using message = 'an event with this id exists already';
    end if;
    insert into events (
        project_id, position, id, customer_id, sequence, type, environment, app_id, occurred_at, committed_at, body,
        part
    )
    select of_project, head + n.place, n.id, case when n.who < 0 then made[-n.who] else n.who end, n.sequence, n.type,
        n.environment, n.app_id, n.at, at_ms, n.body, told_part
    from unnest(
        told_whos, told_ids, told_sequences, told_types, told_environments, told_apps, told_ats, told_bodies
    ) with ordinality as n (who, id, sequence, type, environment, app_id, at, body, place);
    return made;
end $$;
