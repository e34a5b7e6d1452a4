-- Every table that belongs to a customer starts with (project_id, customer_id), so that one customer's rows can live on
-- one node of a distributed PostgreSQL. Instants are bigint epoch milliseconds; money is bigint millionths of a unit.

create table projects (
    id text primary key,
    name text not null,
    restore_behavior text not null default 'transfer' check (restore_behavior in ('transfer', 'keep')),
    -- Bumped with every change of products, entitlements or their mapping: readers compare it, so a parsed catalog may be
    -- kept in memory and is never stale.
    catalog_version bigint not null default 1,
    created_at bigint not null
);

-- The head of each project's event feed. Writers take this row's lock last, so positions become visible in order and a
-- reader with a cursor can never step over an event that commits later.
create table feeds (
    project_id text primary key references projects (id) on delete cascade,
    position bigint not null default 0
) with (fillfactor = 50);

create table apps (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    store text not null,
    created_at bigint not null,
    primary key (project_id, id)
);

create table api_keys (
    id text primary key,
    project_id text not null references projects (id) on delete cascade,
    app_id text,
    kind text not null check (kind in ('secret', 'public')),
    name text not null,
    scopes text[] not null,
    -- SHA-256 of the key. The key itself is random enough (over 128 bits) that a slow hash would add nothing.
    hash bytea not null unique,
    hint text not null,
    rate_limit integer not null check (rate_limit > 0),
    created_at bigint not null,
    revoked_at bigint,
    foreign key (project_id, app_id) references apps (project_id, id) on delete cascade
);
create index api_keys_by_project on api_keys (project_id, created_at, id);

create table entitlements (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    display_name text not null,
    created_at bigint not null,
    primary key (project_id, id)
);

create table products (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    display_name text not null,
    kind text not null check (kind in ('subscription', 'one_time')),
    duration text,
    trial_duration text,
    price_micros bigint not null check (price_micros >= 0),
    currency text not null,
    credits_code text,
    credits_amount bigint check (credits_amount > 0),
    created_at bigint not null,
    primary key (project_id, id)
);

create table product_entitlements (
    project_id text not null,
    product_id text not null,
    entitlement_id text not null,
    primary key (project_id, product_id, entitlement_id),
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade,
    foreign key (project_id, entitlement_id) references entitlements (project_id, id) on delete cascade
);

create table virtual_currencies (
    project_id text not null references projects (id) on delete cascade,
    code text not null,
    name text not null,
    description text not null default '',
    created_at bigint not null,
    primary key (project_id, code)
);

create table experiments (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    variants json not null,
    created_at bigint not null,
    primary key (project_id, id)
);

create table test_clocks (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    now_ms bigint not null,
    created_at bigint not null,
    primary key (project_id, id)
);

create table customers (
    project_id text not null references projects (id) on delete cascade,
    id bigint generated always as identity,
    app_user_id text not null,
    original_app_user_id text not null,
    test_clock_id text,
    -- The whole customer as the rules see it. One row read or written is one customer read or written.
    state json not null,
    sequence bigint not null default 0,
    -- When time alone will next change this customer; null when it never will.
    next_due_at bigint,
    first_seen_at bigint not null,
    last_seen_at bigint not null,
    last_seen_platform text,
    last_seen_platform_version text,
    last_seen_app_version text,
    last_seen_country text,
    primary key (project_id, id),
    foreign key (project_id, test_clock_id) references test_clocks (project_id, id)
) with (fillfactor = 80);
create index customers_due on customers (next_due_at) where test_clock_id is null and next_due_at is not null;
create index customers_due_on_clock on customers (project_id, test_clock_id, next_due_at) where test_clock_id is not null;
create index customers_listed on customers (project_id, app_user_id);

create table aliases (
    project_id text not null,
    app_user_id text not null,
    customer_id bigint not null,
    primary key (project_id, app_user_id) include (customer_id),
    foreign key (project_id, customer_id) references customers (project_id, id) on delete cascade
);
create index aliases_of_customer on aliases (project_id, customer_id);

-- Which customer a store's purchase belongs to. A deleted customer leaves the row with no owner, so that a purchase
-- restored afterwards is known to have been told once already.
create table purchase_owners (
    project_id text not null references projects (id) on delete cascade,
    store text not null,
    store_id text not null,
    customer_id bigint,
    primary key (project_id, store, store_id)
);
create index purchase_owners_of_customer on purchase_owners (project_id, customer_id);

create table currency_transactions (
    project_id text not null,
    customer_id bigint not null,
    idempotency_key text not null,
    code text not null,
    amount bigint not null,
    balance bigint not null,
    at bigint not null,
    reference text,
    primary key (project_id, customer_id, idempotency_key, code),
    foreign key (project_id, customer_id) references customers (project_id, id) on delete cascade
);

create table events (
    project_id text not null references projects (id) on delete cascade,
    position bigint not null,
    id text not null,
    customer_id bigint not null,
    sequence bigint not null,
    type text not null,
    environment text not null,
    app_id text,
    occurred_at bigint not null,
    committed_at bigint not null,
    body json not null,
    primary key (project_id, position)
);
create unique index events_by_id on events (project_id, id);
create unique index events_of_customer on events (project_id, customer_id, sequence);

-- Requests of the last minute for each key, as runs of (bucket, count). Unlogged: after a crash of the database the
-- worst that happens is one fresh minute.
create unlogged table rate_windows (
    key_id text primary key,
    buckets bigint[] not null,
    counts integer[] not null,
    -- How many requests the runs hold together, so that a check need not add them up.
    total integer not null default 0
) with (fillfactor = 50);

-- Takes up to `wanted` requests from a key's last 60 seconds and says how many were granted and, where some were not,
-- after how many microseconds the next one can be. Refused requests are not counted.
--
-- The row lock is the queue: the clock is read after it is held, so instants only grow. A run is (instant, count); a run
-- leaves the window 60 seconds after its instant. Up to 600 requests a minute every batch is its own run and the limit is
-- exact to the microsecond. Above that a run spans 500 ms and bears the instant of its end: never more than allowed, and
-- a place comes back at most 500 ms late. `at_us` replaces the clock in tests.
create function take_requests_of_key(
    of_key text, wanted integer, allowed integer, at_us bigint default null,
    out granted integer, out retry_after_us bigint
) language plpgsql as $$
declare
    window_us constant bigint := 60000000;
    grain constant bigint := case when allowed <= 600 then 1 else 500000 end;
    now_us bigint;
    stamp bigint;
    instants bigint[];
    runs integer[];
    used integer;
    oldest integer := 1;
    newest integer;
    missing integer;
begin
    -- An unlogged row is lost in a crash anyway; nobody waits for the disk here.
    perform set_config('synchronous_commit', 'off', true);
    loop
        select buckets, counts, total into instants, runs, used from rate_windows where key_id = of_key for update;
        exit when found;
        insert into rate_windows (key_id, buckets, counts) values (of_key, '{}', '{}') on conflict do nothing;
    end loop;
    now_us := coalesce(at_us, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    stamp := (now_us + grain - 1) / grain * grain;
    newest := cardinality(instants);

    -- A clock that was set back by more than a second must not lock a key out until it has caught up.
    if newest > 0 and instants[newest] > stamp + 1000000 then
        instants := array(
            select least(instant, stamp) from unnest(instants) with ordinality as run (instant, place) order by place
        );
    end if;

    while oldest <= newest and instants[oldest] <= now_us - window_us loop
        used := used - runs[oldest];
        oldest := oldest + 1;
    end loop;

    granted := greatest(least(wanted, allowed - used), 0);
    if granted > 0 then
        if oldest > 1 then
            instants := instants[oldest:];
            runs := runs[oldest:];
            newest := newest - oldest + 1;
            oldest := 1;
        end if;
        if newest > 0 and instants[newest] >= stamp then
            runs[newest] := runs[newest] + granted;
        else
            newest := newest + 1;
            instants[newest] := stamp;
            runs[newest] := granted;
        end if;
        used := used + granted;
        update rate_windows set buckets = instants, counts = runs, total = used where key_id = of_key;
    end if;

    if granted < wanted then
        missing := used - allowed + 1;
        loop
            missing := missing - runs[oldest];
            exit when missing <= 0;
            oldest := oldest + 1;
        end loop;
        retry_after_us := instants[oldest] + window_us - now_us;
    end if;
end $$;

-- The same for the requests of one tick: several keys, each once, named by their hash. Keys are locked in the order of
-- their ids, so that two processes can never wait for each other. A key that is unknown or revoked gives no row.
create function take_requests(hashes bytea[], wanted integer[])
returns table (hash bytea, granted integer, retry_after_us bigint) language sql as $$
    select asked.hash, taken.granted, taken.retry_after_us
    from (
        select k.id, k.hash, k.rate_limit, a.wanted
        from unnest(hashes, wanted) as a (hash, wanted)
        join api_keys k on k.hash = a.hash and k.revoked_at is null
        order by k.id
    ) as asked
    cross join lateral take_requests_of_key(asked.id, asked.wanted, asked.rate_limit) as taken
$$;
