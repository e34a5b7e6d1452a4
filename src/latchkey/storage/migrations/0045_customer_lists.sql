-- Customer lists (decision 104). The roller's progress in a project: the last event of the feed that is in the facets, and
-- how far it has walked through the customers by their ids (as in figure_rolls).
create table facet_rolls (
    project_id text primary key references projects (id) on delete cascade,
    position bigint not null default 0,
    counted bigint not null default 0,
    mark_id bigint,
    mark_xid bigint,
    marked_at bigint
) with (fillfactor = 50);

-- Customers who changed without an event: those who were seen after an hour or more, or in another country, whose
-- purchases changed silently, and those who are gone.
create table facet_marks (
    project_id text not null,
    id bigint generated always as identity,
    customer_id bigint not null,
    primary key (project_id, id)
);

-- What lists of customers filter and sort by, written by the roller some seconds after each change. Only instants, which
-- readers compare with their own time: nothing here goes stale because time passes. `delete_customer` deletes it.
create table customer_facets (
    project_id text not null,
    customer_id bigint not null,
    environment text not null,
    test_clock_id text,
    first_seen_at bigint not null,
    last_seen_at bigint not null,
    country text,
    runs_until bigint,
    renews_until bigint,
    trial_until bigint,
    grace_from bigint,
    grace_until bigint,
    billing_issue_at bigint,
    granted_until bigint,
    bought boolean not null,
    owns boolean not null,
    spent_usd bigint not null,
    refunded_usd bigint not null,
    products text[] not null,
    -- Until when each of them gives or gave access.
    product_untils bigint[] not null,
    stores text[] not null,
    primary key (customer_id, project_id)
);
-- Lists are planned with their actual filter and with statistics, so these may begin with project_id. They hide the customer,
-- and all other queries hide the project: a lookup of one customer can use the primary key alone.
create index customer_facets_last_seen on customer_facets (project_id, last_seen_at, (customer_id + 0));
create index customer_facets_first_seen on customer_facets (project_id, first_seen_at, (customer_id + 0));
create index customer_facets_spent on customer_facets (project_id, spent_usd, (customer_id + 0));
create index customer_facets_country on customer_facets (project_id, country, last_seen_at, (customer_id + 0));
create index customer_facets_trial on customer_facets (project_id, trial_until) where trial_until is not null;
create index customer_facets_granted on customer_facets (project_id, granted_until) where granted_until is not null;
create index customer_facets_issue on customer_facets (project_id, billing_issue_at) where billing_issue_at is not null;
create index customer_facets_products on customer_facets using gin (products);

-- Saved filters of customer lists.
create table customer_segments (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    -- The filter in its text form, the columns and the order.
    filter json not null,
    columns text[] not null,
    sort text not null,
    created_at bigint not null,
    updated_at bigint not null,
    primary key (project_id, id)
);
create unique index customer_segments_by_name on customer_segments (lower(name), project_id);

-- What the team wrote about a customer. `delete_customer` deletes it; a merge moves it.
create table customer_notes (
    project_id text not null,
    customer_id bigint not null,
    id text not null,
    -- The account that wrote it, and its e-mail address at that time.
    account_id text not null,
    author text not null,
    body text not null,
    created_at bigint not null,
    edited_at bigint,
    primary key (project_id, customer_id, id)
);

-- Grants to many customers at once. A draft is the preview; it is deleted after a day.
create table bulk_grants (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    state text not null check (state in ('draft', 'running', 'done', 'stopped')),
    entitlement_id text not null,
    -- A named length, or an instant; both null: for ever.
    duration text,
    ends_at bigint,
    -- Whether customers who have the entitlement when their turn comes are left out.
    skip_holders boolean not null,
    -- Where its customers came from, in words.
    source text not null,
    actor text not null,
    created_at bigint not null,
    started_at bigint,
    finished_at bigint,
    total integer not null,
    -- Of the preview.
    holders integer not null,
    unknown_ids text[] not null,
    -- Fencing, as in exports.
    lease_until bigint not null default 0,
    token bigint not null default 0,
    primary key (project_id, id)
);
create index bulk_grants_running on bulk_grants (lease_until) where state = 'running';

create table bulk_grant_customers (
    project_id text not null,
    grant_id text not null,
    number integer not null,
    customer_key bigint not null,
    app_user_id text not null,
    -- 'granted', 'skipped' or 'failed'; null while it waits.
    outcome text,
    error text,
    primary key (project_id, grant_id, number)
);

-- As before, and it also marks customers for their facets. Processes of the release before call it with the same arguments.
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
        insert into facet_marks (project_id, customer_id)
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
