-- Every table of a customer's data starts with (project_id, customer_id), so that one customer's rows can be on one node
-- of a distributed PostgreSQL. Instants are bigint epoch milliseconds; money is bigint millionths of a unit.

create table projects (
    id text primary key,
    name text not null,
    restore_behavior text not null default 'transfer' check (
        restore_behavior in ('transfer', 'keep', 'transfer_if_no_active_subscriptions')
    ),
    -- Incremented by every change of the catalog. Readers compare it, so a parsed catalog in memory is never stale.
    catalog_version bigint not null default 1,
    created_at bigint not null,
    -- Whether the test store sells and renews. Part of the catalog: changing it increments catalog_version.
    test_store text not null default 'open' check (test_store in ('open', 'closed')),
    -- An IANA name, for pages and reports.
    time_zone text not null default 'UTC',
    -- Programs and percentages for tax and commission. Part of the catalog: changing them increments catalog_version.
    fees json not null default '{}',
    -- After a restore, the next event of every customer gets a sequence above this. Part of the catalog, as above.
    sequence_floor bigint not null default 0,
    -- The position of the feed from which on events have sequences above the floor.
    floor_position bigint not null default 0,
    -- Customer attributes that charts can be filtered and broken down by. Part of the catalog, as above.
    chart_attributes text[] not null default '{}',
    -- The first steps that were done once, and when the list on the overview was dismissed, for everybody.
    onboarding_done text[] not null default '{}',
    onboarding_dismissed_at bigint
);

-- The head of each project's event feed. Writers lock this row last, so positions become visible in order and a reader
-- with a cursor never skips an event that commits later.
create table feeds (
    project_id text primary key references projects (id) on delete cascade,
    position bigint not null default 0,
    partition integer not null default 0
) with (fillfactor = 50);

-- Events, deliveries and attempts are partitioned by stretches of time, which have numbers. New rows belong to the highest.
-- Number -1, which is opened with the second, keeps deliveries that outlive their own.
create table partitions (
    partition integer primary key,
    opened_at bigint not null,
    dropped_at bigint
);

create table apps (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    store text not null,
    created_at bigint not null,
    -- Bundle id, package name and the like, by field. No secrets.
    details json not null default '{}',
    primary key (project_id, id)
);

create table api_keys (
    id text primary key,
    project_id text not null references projects (id) on delete cascade,
    app_id text,
    kind text not null check (kind in ('secret', 'public')),
    name text not null,
    scopes text[] not null,
    -- SHA-256 of the key. The key is random (over 128 bits), so a slow hash would add nothing.
    hash bytea not null unique,
    hint text not null,
    rate_limit integer not null check (rate_limit > 0),
    created_at bigint not null,
    revoked_at bigint,
    -- A public key ships inside an app, so it is no secret and can be shown again. Null for secret keys.
    plaintext text,
    -- Of secret keys only. The first instant at which the key no longer works, and the networks that it works from.
    expires_at bigint,
    allowed_networks text[],
    -- Of the V2 replies to this key: with our own fields, or as the vendor's clients expect them.
    shape text not null default 'latchkey' check (shape in ('latchkey', 'vendor')),
    -- Raised with each change, so that a process notices that what it knows of the key is outdated.
    revision bigint not null default 1,
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
    -- A deleted product stays, so that its owners keep what it grants; it is not listed or sold any more.
    deleted_at bigint,
    type text not null check (type in ('subscription', 'one_time', 'consumable', 'non_consumable', 'non_renewing_subscription')),
    -- The apps in which it is sold; empty means in every app. So a deleted app stays in it.
    app_ids text[] not null default '{}',
    primary key (project_id, id)
);

-- Prices of a product beside its own: for a store, a country, a currency. '' is any store, and any country.
create table product_prices (
    project_id text not null,
    product_id text not null,
    store text not null,
    country text not null,
    currency text not null,
    price_micros bigint not null check (price_micros >= 0),
    primary key (project_id, product_id, store, country, currency),
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade
);

create table offerings (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    lookup_key text not null,
    display_name text not null,
    metadata json,
    is_current boolean not null default false,
    created_at bigint not null,
    primary key (project_id, id)
);
create unique index offerings_by_lookup_key on offerings (lookup_key, project_id);
create unique index offerings_current on offerings (project_id) where is_current;

create table packages (
    project_id text not null,
    id text not null,
    offering_id text not null,
    lookup_key text not null,
    display_name text not null,
    position integer not null,
    created_at bigint not null,
    primary key (project_id, id),
    foreign key (project_id, offering_id) references offerings (project_id, id) on delete cascade
);
create unique index packages_by_lookup_key on packages (offering_id, project_id, lookup_key);

create table package_products (
    project_id text not null,
    package_id text not null,
    product_id text not null,
    eligibility_criteria text not null check (eligibility_criteria in ('all', 'google_sdk_lt_6', 'google_sdk_ge_6')),
    position integer not null,
    primary key (project_id, package_id, product_id),
    foreign key (project_id, package_id) references packages (project_id, id) on delete cascade,
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade
);

create table placements (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    display_name text not null,
    -- Null: nothing is offered here.
    offering_id text,
    is_fallback boolean not null default false,
    created_at bigint not null,
    primary key (project_id, id),
    foreign key (project_id, offering_id) references offerings (project_id, id)
);
create index placements_of_offering on placements (offering_id, project_id) where offering_id is not null;
create unique index placements_fallback on placements (project_id) where is_fallback;

create table targeting_rules (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    offering_id text not null,
    -- In the text form of customer filters, by name.
    conditions json not null,
    is_active boolean not null,
    -- The first rule that matches counts.
    position integer not null,
    revision integer not null,
    created_at bigint not null,
    primary key (project_id, id),
    foreign key (project_id, offering_id) references offerings (project_id, id)
);
create index targeting_rules_of_offering on targeting_rules (offering_id, project_id);

create table product_entitlements (
    project_id text not null,
    product_id text not null,
    entitlement_id text not null,
    primary key (project_id, product_id, entitlement_id),
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade,
    foreign key (project_id, entitlement_id) references entitlements (project_id, id) on delete cascade
);

create table former_product_entitlements (
    project_id text not null,
    product_id text not null,
    entitlement_id text not null,
    detached_at bigint not null,
    detached_on_clocks json not null,
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
    project_id text not null,
    id bigint generated by default as identity,
    app_user_id text not null,
    test_clock_id text,
    -- The whole customer as the rules see it: reading or writing a customer is reading or writing one row.
    state json not null,
    -- Raised with each new state. Who read a customer without a lock writes it only if nobody raised it meanwhile.
    revision bigint not null default 1,
    -- When this customer next changes by itself; null when it never will.
    next_due_at bigint,
    first_seen_at bigint not null,
    last_seen_at bigint not null,
    last_seen_platform text,
    last_seen_platform_version text,
    last_seen_app_version text,
    last_seen_country text,
    -- What was told first; charts are broken down by it.
    first_platform text,
    first_app_version text,
    first_country text,
    -- The transaction that last changed what charts may show of the customer.
    changed_xid bigint not null default pg_current_xact_id()::text::bigint,
    foreign key (project_id, test_clock_id) references test_clocks (project_id, id)
) with (fillfactor = 80);
create index customers_changed on customers (project_id, changed_xid);
-- After that index: while the table is empty, both look equally good for a lookup by the key, and the newer one is taken.
alter table customers add primary key (project_id, id);
create index customers_due on customers (next_due_at) where test_clock_id is null and next_due_at is not null;
create index customers_due_on_clock on customers (project_id, test_clock_id, next_due_at) where test_clock_id is not null;

-- No foreign keys to customers here and below: PostgreSQL checks them with a plan made while the tables are empty, which
-- scans a whole index for every row until the first ANALYZE (measured: 430 purchases a second instead of 3,800). One
-- transaction writes a customer with its rows, and the query `delete_customer` deletes them together.
create table aliases (
    project_id text not null,
    app_user_id text not null,
    customer_id bigint not null,
    created_at bigint not null,
    primary key (project_id, app_user_id) include (customer_id)
);
create index aliases_of_customer on aliases (customer_id, project_id);
-- For searches by the prefix of an id, in any case. One expression, so that a search scans only its own project's ids.
-- Ids contain no control characters, so the separator is in none of them.
create index aliases_searched on aliases ((project_id || E'\x1f' || lower(app_user_id collate "C")) collate "C");

-- The SHA-256 of an app user id, in hex. The Android SDK names a purchase's owner to Google Play in this form.
create function app_user_id_digest(app_user_id text) returns text language sql immutable parallel safe as $$
    select encode(sha256(convert_to(app_user_id, 'UTF8')), 'hex')
$$;
create index aliases_by_digest on aliases (project_id, app_user_id_digest(app_user_id));

-- The attribute $email of each customer that has one, in lower case as the C locale folds it. Its own table, not an index
-- on the state: every purchase would update that index, but this row changes only when the address does.
create table customer_emails (
    project_id text not null,
    email text collate "C" not null,
    customer_id bigint not null,
    primary key (project_id, email, customer_id)
);
create index customer_emails_of_customer on customer_emails (customer_id, project_id);

-- Customers that were merged into another. Their events keep the old key.
create table absorbed_customers (
    project_id text not null,
    customer_id bigint not null,
    absorbed_id bigint not null,
    primary key (project_id, customer_id, absorbed_id)
);

-- Which customer a store's purchase, or a promotional grant, belongs to. The row of an erased customer stays without an
-- owner, so that a purchase restored afterwards is known to have had its events already.
create table purchase_owners (
    project_id text not null,
    store text not null,
    store_id text not null,
    customer_id bigint,
    primary key (project_id, store, store_id)
);
create index purchase_owners_of_customer on purchase_owners (customer_id, project_id);

-- How the transactions of a purchase ended whose customer was erased. A receipt that was signed before stays valid for
-- ever, and must not bring the access back. No person is named here.
create table purchase_endings (
    project_id text not null,
    store text not null,
    store_id text not null,
    transaction_id text not null,
    ended_by text not null check (ended_by in ('refund', 'revocation')),
    ended_at bigint not null,
    told_at bigint not null,
    primary key (project_id, store, store_id, transaction_id)
);

create table offering_overrides (
    project_id text not null,
    customer_id bigint not null,
    offering_id text not null,
    primary key (project_id, customer_id),
    foreign key (project_id, offering_id) references offerings (project_id, id) on delete cascade
);
create index offering_overrides_of_offering on offering_overrides (offering_id, project_id);

-- Which subscription a period belongs to, where its id does not say so. With several items it belongs to one for each.
create table purchase_transactions (
    project_id text not null,
    store text not null,
    transaction_id text not null,
    store_id text not null,
    primary key (project_id, store, transaction_id, store_id)
);

create table currency_transactions (
    project_id text not null,
    customer_id bigint not null,
    idempotency_key text not null,
    code text not null,
    amount bigint not null,
    balance bigint not null,
    at bigint not null,
    reference text,
    primary key (project_id, customer_id, idempotency_key, code)
);
-- Finds who was credited by a purchase that has changed owners since, by the key of the transaction.
create index currency_transactions_by_key on currency_transactions (idempotency_key, project_id);

create table events (
    project_id text not null,
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
    partition integer not null default 0
    -- Each partition has three unique keys, which `open_partition` creates: (project_id, position), (id, project_id) and
    -- (customer_id, project_id, sequence). docs/architecture/database.md says what keeps them unique over all partitions.
) partition by range (partition);
-- For erasure: the ids of an erased customer are also in the TRANSFER events of those who received its purchases.
create index events_of_transfers on events (project_id, customer_id) where type = 'TRANSFER';

-- Requests of the last minute for each key, as runs of (bucket, count). Unlogged: after a crash a new minute starts.
create unlogged table rate_windows (
    key_id text primary key,
    buckets bigint[] not null,
    counts integer[] not null,
    total integer not null default 0,
    -- The run whose leases are out, and how many requests they have together.
    leased_until bigint not null default 0,
    leased_out integer not null default 0
) with (fillfactor = 50);

-- Takes up to `wanted` requests from a key's last 60 seconds. Returns how many were granted and, if some were not, after
-- how many microseconds the next one can be. Refused requests are not counted.
-- Callers queue on the row lock: the clock is read after it is held, so instants only grow. A run is (instant, count) and
-- leaves the window after 60 seconds. Up to 600 requests a minute every batch is its own run and the limit is exact. Above
-- that a run spans 500 ms and has the instant of its end: the limit is never exceeded, and capacity returns at most 500 ms
-- late. `used` is the number of requests in the window afterwards. `at_us` replaces the clock in tests.
-- A lease: above 600 requests a minute, while less than half of the limit is used, a process can take requests ahead. It
-- names how many it expects in 500 ms (`ahead`), and gets `leased` requests, counted in the run `leased_at`, to be used
-- within `leased_us`. Later it hands the lease back: its size (`settled`), the unused rest (`back`) and the run (`back_at`).
-- A lease that nobody hands back counts as used. `open_us`: when the leases of others, for which requests are refused, end.
create function take_requests(
    of_key text, wanted integer, allowed integer, at_us bigint default null,
    ahead integer default 0, back integer default 0, settled integer default 0, back_at bigint default null,
    out granted integer, out retry_after_us bigint, out used integer,
    out leased integer, out leased_at bigint, out leased_us bigint, out open_us bigint
) language plpgsql as $$
declare
    window_us constant bigint := 60000000;
    grain constant bigint := case when allowed <= 600 then 1 else 500000 end;
    -- How long after its end a lease may still be handed back before a refusal counts all of it as used.
    patience_us constant bigint := 250000;
    now_us bigint;
    stamp bigint;
    instants bigint[];
    runs integer[];
    out_until bigint;
    out_now integer;
    oldest integer := 1;
    newest integer;
    missing integer;
begin
    leased := 0;
    -- An unlogged row is lost in a crash anyway; nobody waits for the disk here.
    perform set_config('synchronous_commit', 'off', true);
    loop
        select w.buckets, w.counts, w.total, w.leased_until, w.leased_out
        into instants, runs, used, out_until, out_now
        from rate_windows w where w.key_id = of_key for update;
        exit when found;
        insert into rate_windows (key_id, buckets, counts) values (of_key, '{}', '{}') on conflict do nothing;
    end loop;
    now_us := coalesce(at_us, (date_part('epoch', clock_timestamp()) * 1000000)::bigint);
    stamp := (now_us + grain - 1) / grain * grain;

    if settled > 0 then
        oldest := array_position(instants, back_at);
        -- A run that has left the window, or was moved because the clock was set back, keeps what it counts.
        if oldest is not null then
            back := least(back, runs[oldest]);
            runs[oldest] := runs[oldest] - back;
            used := used - back;
        end if;
        if out_until = back_at then
            out_now := greatest(out_now - settled, 0);
        end if;
        oldest := 1;
    end if;
    newest := cardinality(instants);

    -- A clock that was set back by more than a second must not lock a key out until it has caught up.
    if newest > 0 and instants[newest] > stamp + 1000000 then
        instants := array(
            select least(instant, stamp) from unnest(instants) with ordinality as run (instant, place) order by place
        );
        out_now := 0;
    end if;

    while oldest <= newest and instants[oldest] <= now_us - window_us loop
        used := used - runs[oldest];
        oldest := oldest + 1;
    end loop;

    granted := greatest(least(wanted, allowed - used), 0);
    if ahead > 0 and grain > 1 and granted = wanted then
        leased := least((ahead * (stamp - now_us) + grain - 1) / grain, allowed / 2 - used - granted);
        if leased < 5 then
            leased := 0;
        end if;
    end if;
    if granted > 0 or settled > 0 then
        if oldest > 1 then
            instants := instants[oldest:];
            runs := runs[oldest:];
            newest := newest - oldest + 1;
            oldest := 1;
        end if;
        if newest > 0 and instants[newest] >= stamp then
            runs[newest] := runs[newest] + granted + leased;
        elsif granted > 0 then
            newest := newest + 1;
            instants[newest] := stamp;
            runs[newest] := granted + leased;
        end if;
        used := used + granted;
        if leased > 0 then
            leased_at := instants[newest];
            leased_us := stamp - now_us;
            out_now := case when out_until = leased_at then out_now else 0 end + leased;
            out_until := leased_at;
        end if;
        update rate_windows
        set buckets = instants, counts = runs, total = used + leased, leased_until = out_until, leased_out = out_now
        where key_id = of_key;
    end if;

    if granted < wanted then
        if out_now > 0 and out_until > now_us - patience_us then
            open_us := out_until + patience_us - now_us;
        end if;
        missing := used - allowed + 1;
        loop
            missing := missing - runs[oldest];
            exit when missing <= 0;
            oldest := oldest + 1;
        end loop;
        retry_after_us := instants[oldest] + window_us - now_us;
    end if;
end $$;

-- Webhooks and their queue. Tables with many rows have no foreign keys: a check for each row would lock the webhook's row
-- again and again. A deleted webhook keeps its row until its data was deleted, a batch at a time.

create table webhooks (
    -- Short key inside the queue; users and the API use the webhook's id.
    key bigint generated always as identity unique,
    project_id text not null references projects (id) on delete cascade,
    id text not null unique,
    name text not null,
    url text not null,
    -- AES-GCM; null if the receiver needs no Authorization header.
    authorization_sealed bytea,
    -- Preset and settings of a destination, as JSON.
    destination_sealed bytea,
    -- Null means both.
    environment text check (environment in ('production', 'sandbox')),
    -- Empty means all.
    event_types text[] not null default '{}',
    app_id text,
    retry_seconds integer[] not null,
    in_flight_limit integer not null check (in_flight_limit between 1 and 1000),
    enabled boolean not null default true,
    secret_sealed bytea not null,
    -- The secret before the last rotation also signs until this time.
    previous_secret_sealed bytea,
    previous_secret_until bigint,
    -- Incremented by every change of the above, so that a worker knows when its copy is old.
    version integer not null default 1,
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint,
    -- Health. Consecutive failures, over all workers; the circuit is open until open_until.
    failures integer not null default 0,
    open_until bigint,
    -- Since when every attempt failed; null when the last attempt succeeded.
    failing_since bigint,
    announced_at bigint,
    -- Paused automatically after days of failures, or by hand: deliveries are queued and nothing is sent.
    paused_at bigint,
    dialect text not null default 'latchkey' check (dialect in ('latchkey', 'revenuecat')),
    primary key (project_id, id)
) with (fillfactor = 70);

-- One event for one webhook. The delivery's public id is the event's id, within its webhook.
create table deliveries (
    project_id text not null,
    customer_id bigint not null,
    webhook_key bigint not null,
    sequence bigint not null,
    event_id text not null,
    event_type text not null,
    status text not null default 'waiting' check (status in ('waiting', 'delivered', 'failed')),
    -- No longer in its customer's lane: after two minutes of retries, or because it was resent by hand.
    aside boolean not null default false,
    attempts integer not null default 0,
    created_at bigint not null,
    finished_at bigint,
    response_status integer,
    error text,
    replay_id text,
    -- Of the webhook when the delivery was queued, so that all its attempts send the same body. Null is the default.
    dialect text,
    -- Never higher than that of its event.
    partition integer not null default 0
    -- Each partition has the primary key (project_id, customer_id, webhook_key, sequence). status is in no index, so that
    -- recording an outcome is a HOT update within the row's page.
) partition by list (partition);
create index deliveries_listed on deliveries (webhook_key, created_at, customer_id, sequence);
create index deliveries_of_replay on deliveries (replay_id) where replay_id is not null;

-- A lane: deliveries sent one after the other. Either all that are pending for one customer at one webhook (aside = 0),
-- or a single one that left that lane (aside = its sequence). Exists only while something is pending. Both queueing and
-- recording an outcome lock this row, so that neither misses the other.
create table lanes (
    project_id text not null,
    customer_id bigint not null,
    webhook_key bigint not null,
    aside bigint not null default 0,
    waiting integer not null,
    -- The first pending delivery after this sequence is the one to send.
    done bigint not null,
    next_at bigint not null,
    -- How often that delivery was tried in this round of its retry schedule, and when first.
    tries integer not null default 0,
    tried_at bigint,
    -- Fencing: only the holder of the token may record; after lease_until another worker may claim the lane.
    lease_until bigint not null default 0,
    token bigint not null default 0,
    -- No delivery that waits here has a lower one.
    partition integer not null default 0,
    primary key (project_id, customer_id, webhook_key, aside)
    -- lease_until and token are in no index, so that a claim is a HOT update within the row's page.
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index lanes_due on lanes (webhook_key, next_at);

create table attempts (
    project_id text not null,
    customer_id bigint not null,
    webhook_key bigint not null,
    sequence bigint not null,
    number integer not null,
    at bigint not null,
    took_ms integer not null,
    error text,
    status integer,
    request_headers json not null,
    response_headers json,
    response_body bytea,
    -- That of its delivery. Each partition has the primary key (project_id, customer_id, webhook_key, sequence, number).
    partition integer not null default 0
) partition by list (partition);

-- webhook.failing, webhook.paused, webhook.recovered: kept for the log and sent to the operations URL if one is set.
create table operational_events (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    webhook_id text not null,
    type text not null,
    at bigint not null,
    body json not null,
    attempts integer not null default 0,
    next_at bigint,
    delivered_at bigint,
    error text,
    primary key (project_id, id)
);
create index operational_events_listed on operational_events (project_id, at);
create index operational_events_due on operational_events (next_at) where next_at is not null;

-- "Send everything that failed since ...": processed in batches by the delivery role.
create table replays (
    id text primary key,
    project_id text not null references projects (id) on delete cascade,
    webhook_key bigint not null,
    since_ms bigint not null,
    until_ms bigint not null,
    status text not null check (status in ('failed', 'all')),
    event_types text[] not null default '{}',
    created_at bigint not null,
    position bigint not null,
    last_position bigint not null,
    scheduled bigint not null default 0,
    -- Deliveries that had failed and waited for a retry: they were sent at once.
    hurried bigint not null default 0,
    finished_at bigint,
    stopped_at bigint,
    first_position bigint not null default 0
);
create index replays_unfinished on replays (created_at) where finished_at is null;

-- What charts count: one row for each period of a subscription and for each one-time purchase, with what is known of it
-- alone (domain/charts/period_rows.py). DuckDB computes what follows from several (subjects/charts/storage/facts/).
create table chart_periods (
    project_id text not null,
    -- Pseudonyms: a customer who is erased leaves the sales behind, but no store's ids.
    purchase uuid not null,
    period bigint not null,
    customer_id bigint not null,
    place integer not null,
    type text not null,
    sandbox boolean not null,
    purchased_at bigint not null,
    starts_at bigint not null,
    ends_at bigint,
    access_ends_at bigint,
    refunded_at bigint,
    told_at bigint,
    micros bigint not null,
    usd bigint,
    monthly_micros bigint not null,
    monthly_usd bigint,
    tax double precision,
    commission double precision,
    standing smallint,
    -- 0: counts as a sale and for its customer. After its owner was erased: 1 is the sale, which may get another owner; 2 is
    -- a copy that counts for the erased customer only.
    side smallint not null default 0,
    cause text,
    store text not null,
    product text not null,
    duration text,
    currency text,
    country text,
    offering text,
    offer_code text,
    back json,
    -- A renewal that failed, and until when the store kept access open. Told by an event, not by the state.
    failed_at bigint,
    grace_ends_at bigint,
    platform text,
    app_version text,
    seen_country text,
    primary key (project_id, purchase, period)
) with (fillfactor = 90);
create index chart_periods_of_customer on chart_periods (customer_id, project_id);
create index chart_periods_offer_codes on chart_periods (project_id, offer_code) where offer_code is not null;

-- Customers who were erased, as charts count them.
create table chart_customers (
    project_id text not null,
    customer_id bigint not null,
    first_seen_at bigint not null,
    test_clock_id text,
    first_platform text,
    first_app_version text,
    first_country text,
    enrollments text,
    attributes text,
    primary key (project_id, customer_id)
);

create table accounts (
    id text primary key,
    -- In lower case, so that one person has one spelling.
    email text not null unique,
    name text not null default '',
    -- Argon2id; null for an account without a password yet, or one that signs in only with OpenID Connect.
    password_hash text,
    -- Who was shown the link by which the password was chosen, and may have chosen it; null: nobody but its owner.
    password_from text,
    -- Issuer and subject, joined by a space, after the first OpenID sign-in.
    openid text unique,
    created_at bigint not null,
    -- Since when it may see what concerns the whole deployment and not one project. Granted by `latchkey user operator`.
    operator_since bigint
);

create table memberships (
    account_id text not null references accounts (id) on delete cascade,
    project_id text not null references projects (id) on delete cascade,
    role text not null check (role in ('owner', 'developer', 'support', 'viewer')),
    created_at bigint not null,
    primary key (account_id, project_id)
);
create index memberships_of_project on memberships (project_id, created_at);

-- Only a hash of the cookie is stored: reading the database does not allow taking over a session.
create table sessions (
    token_hash bytea primary key,
    account_id text not null references accounts (id) on delete cascade,
    created_at bigint not null,
    last_seen_at bigint not null,
    address text not null,
    agent text not null,
    notice text,
    notice_kind text,
    -- How somebody signed in: 'openid', or null for a password or a link.
    through text
);
create index sessions_of_account on sessions (account_id);

-- The second factor of accounts: time-based codes of an app, and recovery codes.
create table second_factors (
    account_id text primary key references accounts (id) on delete cascade,
    secret_sealed bytea not null,
    created_at bigint not null,
    -- Null until the first code was right: until then it is not asked for.
    confirmed_at bigint,
    -- The time step of the last code that was accepted. Only later ones are.
    last_step bigint not null default 0,
    -- Hashes. Each works once: using one removes it.
    recovery_codes bytea[] not null default '{}'
);

-- Tokens that work once: links to choose a password, and sign-ins that wait for the second factor, which open nothing.
create table account_tokens (
    token_hash bytea primary key,
    account_id text not null references accounts (id) on delete cascade,
    purpose text not null check (purpose in ('password', 'second_factor')),
    created_at bigint not null,
    expires_at bigint not null,
    -- The account that was shown the link; null: it was mailed, or made on the command line.
    shown_to text
);
create index account_tokens_of_account on account_tokens (account_id);

-- What a member wants to be told of. Who leaves the project, or wants nothing, has no row, and gets no message that waits.
create table alert_subscriptions (
    account_id text not null,
    project_id text not null,
    -- Of problems.
    kinds text[] not null,
    report text not null check (report in ('never', 'daily', 'weekly')),
    -- The address of an incoming webhook, encrypted; null: by mail.
    slack bytea,
    report_at bigint,
    primary key (account_id, project_id),
    foreign key (account_id, project_id) references memberships (account_id, project_id) on delete cascade
);
create index alert_subscriptions_of_project on alert_subscriptions (project_id);
create index alert_subscriptions_due on alert_subscriptions (report_at) where report_at is not null;

-- Projects with members who want to be told of problems. `look_at` is also a lease: whoever looks moves it on, and saves
-- what is found only if nobody else has moved it since.
create table alert_watches (
    project_id text primary key references projects (id) on delete cascade,
    look_at bigint not null
);
create index alert_watches_due on alert_watches (look_at);

-- Problems after the last look: since when, to whom told, gone since when.
create table alerts (
    project_id text not null references alert_watches (project_id) on delete cascade,
    id text not null,
    state json not null,
    primary key (project_id, id)
);

-- Mails and other messages that are to be sent. The link in a mail is made when it is sent, so no token is stored here.
-- Mails to an address go before messages to members; of those to one member the first is sent first.
create table outgoing_mails (
    id bigint generated always as identity primary key,
    kind text not null,
    -- As it was typed: whether there is such an account is found out when the mail is sent. Null: of the member.
    email text,
    created_at bigint not null,
    due_at bigint not null,
    expires_at bigint not null,
    attempts integer not null default 0,
    -- What it is about; null for the accounts of this service.
    about text,
    account_id text,
    project_id text,
    foreign key (account_id, project_id) references alert_subscriptions (account_id, project_id) on delete cascade
);
create index outgoing_mails_due on outgoing_mails (due_at);
create index outgoing_mails_in_order on outgoing_mails ((account_id is not null), due_at);
create index outgoing_mails_of_member on outgoing_mails (account_id, project_id, id);

-- Wrong passwords of the last day. Unlogged: after a database crash counting starts again.
create unlogged table failed_sign_ins (
    subject text not null,
    at bigint not null
);
create index failed_sign_ins_of_subject on failed_sign_ins (subject, at);
create index failed_sign_ins_old on failed_sign_ins (at);

-- Every change made in the dashboard, written before it is made: after a crash the entry still says 'begun'.
create table audit_entries (
    position bigint generated always as identity primary key,
    project_id text,
    at bigint not null,
    account_id text,
    -- Their e-mail address at that time; the entry is kept after the account is gone.
    actor text not null,
    action text not null,
    subject text not null default '',
    outcome text not null default 'begun' check (outcome in ('begun', 'done', 'refused', 'failed')),
    detail json not null,
    address text not null default ''
);
create index audit_entries_listed on audit_entries (project_id, position);
create index audit_entries_of_account on audit_entries (account_id, position);

-- What connects an app to its store. The credentials are encrypted; `shown` is what may be shown of them.
create table store_connections (
    project_id text not null,
    app_id text not null,
    store text not null,
    -- Counts the changes; a process that knows an older version loads the row again.
    version bigint not null,
    credentials bytea,
    shown json,
    saved_at bigint,
    check_result text not null default 'unknown' check (check_result in ('ok', 'refused', 'unknown')),
    check_message text not null default '',
    checked_at bigint,
    -- The secret part of the notification URL: encrypted to be shown, hashed (SHA-256) to be looked up.
    url_token bytea not null,
    url_token_hash bytea not null unique,
    first_notified_at bigint,
    last_notified_at bigint,
    -- UTC days in a row with notifications, up to the last one.
    notified_days integer not null default 0,
    history_read_to bigint,
    primary key (project_id, app_id),
    foreign key (project_id, app_id) references apps (project_id, id) on delete cascade
);

-- The journal: every authentic notification and receipt, as it came, with what was checked and what became of it.
create table store_notifications (
    id bigint generated always as identity primary key,
    project_id text not null references projects (id) on delete cascade,
    app_id text not null,
    store text not null,
    source text not null check (source in ('notification', 'receipt', 'history')),
    -- The store's own id. The same again changes nothing.
    external_id text not null,
    kind text not null,
    environment text,
    subject text,
    occurred_at bigint not null,
    received_at bigint not null,
    checked json not null,
    payload text not null,
    status text not null default 'waiting' check (status in ('waiting', 'applied', 'ignored', 'failed')),
    attempts integer not null default 0,
    -- When a waiting one is processed next. A worker that takes one moves it on, as a lease.
    next_at bigint not null,
    finished_at bigint,
    message text not null default '',
    app_user_id text,
    event_ids text[] not null default '{}'
);
-- What stores sign is base64 and does not get smaller. Trying took two thirds of the time that filing one takes.
alter table store_notifications alter column payload set storage external;
create unique index store_notifications_by_external_id on store_notifications (external_id, app_id, project_id);
create index store_notifications_waiting on store_notifications (next_at) where status = 'waiting';
create index store_notifications_kept on store_notifications (app_id, project_id)
    where status = 'waiting' and source = 'receipt';
create index store_notifications_of_project on store_notifications (project_id, id desc);
create index store_notifications_failed on store_notifications (project_id, id desc) where status = 'failed';
create index store_notifications_of_subject on store_notifications (subject, project_id) where subject is not null;
create index store_notifications_of_user on store_notifications (app_user_id, project_id) where app_user_id is not null;
create index store_notifications_old on store_notifications (received_at);

-- What a store can be asked about: one row for each purchase token or original transaction.
create table store_handles (
    project_id text not null references projects (id) on delete cascade,
    store text not null,
    -- SHA-256 of the handle: tokens can be longer than an index entry may be.
    handle_hash bytea not null,
    handle text not null,
    app_id text not null,
    environment text not null,
    store_id text not null,
    kind text not null check (kind in ('subscription', 'one_time')),
    product_id text not null,
    first_seen_at bigint not null,
    last_told_at bigint not null,
    -- When to read it again because the store should have spoken by then; null when nothing more is expected.
    check_at bigint,
    checks integer not null default 0,
    -- When to tell the store again that the purchase was received; null when it knows.
    acknowledge_at bigint,
    acknowledge_attempts integer not null default 0,
    primary key (project_id, store, handle_hash)
);
create index store_handles_of_purchase on store_handles (store_id, store, project_id);
create index store_handles_to_check on store_handles (check_at) where check_at is not null;
create index store_handles_to_acknowledge on store_handles (acknowledge_at) where acknowledge_at is not null;

-- A purchase that a web page has begun at a payment provider. Deleted some time after it expired.
create table checkouts (
    id_hash bytea primary key,
    project_id text not null references projects (id) on delete cascade,
    app_id text not null,
    app_user_id text not null,
    product_id text not null,
    price_micros bigint not null,
    currency text not null,
    -- Null: no free trial.
    trial_days integer,
    handle text,
    status text not null check (status in ('open', 'succeeded', 'failed')),
    transaction_id text,
    purchased_at bigint,
    created_at bigint not null,
    expires_at bigint not null,
    -- When to ask the provider about a payment that it tells of to nobody; null if it need not be asked.
    check_at bigint,
    offering text,
    -- Sold by a purchase link that named no user: the user is a new anonymous one, and whoever shows the signed link of the
    -- mail takes the purchase over. Such a row is kept until then.
    redeemable boolean not null default false,
    -- Of a redeemable purchase that was paid: where the link is sent, and what the store calls the purchase.
    email text,
    purchase_id text,
    -- Who took it over. The first one counts.
    redeemed_by text,
    redeemed_at bigint
);
create index checkouts_to_check on checkouts (check_at) where check_at is not null;
create index checkouts_of_user on checkouts (app_user_id, project_id);
create index checkouts_by_expiry on checkouts (expires_at);
create index checkouts_redeemed on checkouts (redeemed_by, project_id) where redeemed_by is not null;

-- Links that sell products on a web page. Whoever has the id can buy; it cannot be guessed.
create table purchase_links (
    id text primary key,
    project_id text not null references projects (id) on delete cascade,
    -- The app at a payment provider that sells.
    app_id text not null,
    -- One of the two.
    product_id text,
    offering_id text,
    created_at bigint not null,
    -- It sells nothing any more. The page of an earlier purchase works on.
    archived_at bigint,
    check ((product_id is null) <> (offering_id is null))
);
create index purchase_links_by_age on purchase_links (project_id, created_at, id);

-- How often the safety net found what no notification had told, by day (UTC, as days since 1970).
create table store_healings (
    project_id text not null references projects (id) on delete cascade,
    app_id text not null,
    day integer not null,
    checks bigint not null default 0,
    healed bigint not null default 0,
    primary key (project_id, app_id, day)
);

-- Temporary grants given while a store could not be asked, by app and hour (hours since 1970): the cap counts them.
create table temporary_grants (
    project_id text not null,
    app_id text not null,
    hour integer not null,
    granted integer not null,
    primary key (project_id, app_id, hour),
    foreign key (project_id, app_id) references apps (project_id, id) on delete cascade
);

-- Notification URLs that were rotated away and still work for a while.
create table former_notification_tokens (
    token_hash bytea primary key,
    project_id text not null,
    app_id text not null,
    until bigint not null,
    foreign key (project_id, app_id) references store_connections (project_id, app_id) on delete cascade
);
create index former_notification_tokens_of_app on former_notification_tokens (project_id, app_id);

-- The public keys of deleted apps, by SHA-256. A phone that still has one drops a purchase if its key is called unknown.
create table former_public_keys (
    hash bytea primary key,
    store text not null
);

-- What one unit of a currency was worth in USD on a day (UTC, in days since 1970), as the operator gave it.
create table exchange_rates (
    currency text not null,
    day integer not null,
    usd numeric not null check (usd > 0),
    source text not null,
    learned_at bigint not null,
    -- The version of all rates when this one was written: a process loads only what is newer than what it has.
    version bigint not null,
    primary key (currency, day)
);
create index exchange_rates_by_version on exchange_rates (version);

-- One row: the version of all rates, and how the operator's setting was last read.
create table exchange_rate_readings (
    id smallint primary key default 1 check (id = 1),
    version bigint not null default 0,
    read_at bigint,
    source text,
    problem text
);

insert into exchange_rate_readings default values;

create table imports (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    -- SHA-256 of the files, with the format and the options that change the result.
    fingerprint text not null,
    status text not null check (status in ('staging', 'applying', 'done')),
    -- Rows that wait in import_rows. After a crash of the database they are gone, and the files are read again.
    staged bigint not null default 0,
    -- Customers up to this one are written. In the order of bytes.
    cursor text collate "C" not null default '',
    counts json not null,
    started_at bigint not null,
    finished_at bigint,
    primary key (project_id, id)
);

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
    n bigint generated by default as identity,
    file text not null,
    line bigint not null,
    reason text not null,
    primary key (project_id, import_id, n),
    foreign key (project_id, import_id) references imports (project_id, id) on delete cascade
);

-- Customers that were erased, or merged into another, by the transaction `xid`. An export that did not see it reports them.
create table gone_customers (
    project_id text not null,
    customer_id bigint not null,
    xid bigint not null default pg_current_xact_id()::text::bigint,
    primary key (project_id, customer_id)
);
create index gone_customers_since on gone_customers (xid, project_id);

-- Events whose body was changed afterwards, which only an erasure does.
create table rewritten_events (
    project_id text not null references projects (id) on delete cascade,
    position bigint not null,
    xid bigint not null default pg_current_xact_id()::text::bigint,
    primary key (project_id, position)
);
create index rewritten_events_since on rewritten_events (xid, project_id);

create table exports (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
    what text[] not null,
    format text not null check (format in ('csv', 'jsonl', 'parquet')),
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
    next_at bigint,
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
    kind text,
    folder text,
    rows bigint not null default 0,
    bytes bigint not null default 0,
    files integer not null default 0,
    error text,
    primary key (project_id, export_id, id),
    foreign key (project_id, export_id) references exports (project_id, id) on delete cascade
);

-- Currencies and days (UTC, in days since 1970) of payments in production for which no exchange rate was known.
create table missing_rates (
    project_id text not null references projects (id) on delete cascade,
    currency text not null,
    day integer not null,
    primary key (project_id, currency, day)
);

-- Requests with API keys, for the dashboard: a sample of those that succeeded, and all others. No customer is named here.
create unlogged table request_log (
    project_id text not null,
    id bigint generated always as identity,
    key_id text not null,
    at bigint not null,
    method text not null default '',
    -- The template, not the path: paths hold ids of users.
    route text not null default '',
    status integer not null default 0,
    took_us integer not null default 0,
    bytes integer not null default 0,
    request_id text not null default '',
    address text not null default '',
    agent text not null default '',
    -- Further requests with this key in the same second that were not kept.
    left_out integer not null default 0,
    primary key (project_id, id)
);
create index request_log_of_key on request_log (key_id, id);
create index request_log_old on request_log (at);

-- Requests with an Idempotency-Key. `id_hash` is SHA-256 of both keys, `fingerprint` of the path and the body.
-- Without a status it is under way, or its process has died. Without a reply it failed, and may be carried out again.
create table idempotent_requests (
    id_hash bytea primary key,
    project_id text not null references projects (id) on delete cascade,
    fingerprint bytea not null,
    created_at bigint not null,
    started_at bigint not null,
    status integer,
    -- Encrypted: a reply may show a new secret.
    reply bytea
);
create index idempotent_requests_by_age on idempotent_requests (created_at);

create table key_uses (
    key_id text primary key,
    used_at bigint not null
);

-- The last key of a customer in each project of a distributed database (see next_customer_keys); elsewhere it is empty.
create table customer_keys (
    project_id text primary key,
    last bigint not null
) with (fillfactor = 50);

-- Which trace an event belongs to, while traces are on: its delivery continues that trace. Kept for a day.
create unlogged table event_traces (
    project_id text not null,
    event_id text not null,
    traceparent text not null,
    at bigint not null,
    primary key (project_id, event_id)
);
create index event_traces_old on event_traces (at);

-- Which server this database is on, as Latchkey last saw it. One row. If it differs, the database may have been restored.
create table server_identity (
    id smallint primary key default 1 check (id = 1),
    system_identifier text not null,
    database_oid bigint not null,
    timeline integer not null,
    -- Whether commits waited for a standby there. If not, one that is promoted may lack the last of them.
    waits_for_standby boolean not null,
    noted_at bigint not null,
    -- When the server before this one was last noted, if commits waited for a standby there.
    before_waited_at bigint,
    -- A standby took over, or it was restored: the history could not be read, and `after-restore` has not run since.
    is_unclear boolean not null default false
);

-- One row for each restore: what `latchkey admin after-restore` did. And one for each failover that may have lost commits.
create table restores (
    system_identifier text not null,
    database_oid bigint not null,
    timeline integer not null,
    -- When sequences, positions and keys were moved on; null while that is not done.
    moved_at bigint,
    finished_at bigint,
    primary key (system_identifier, database_oid, timeline)
);

-- Customer lists: the last event of a project's feed that is in the facets, and how far its customers were walked through.
create table facet_rolls (
    project_id text primary key references projects (id) on delete cascade,
    position bigint not null default 0,
    counted bigint not null default 0,
    mark_id bigint,
    mark_xid bigint,
    marked_at bigint
) with (fillfactor = 50);

-- Customers who changed without an event: seen after an hour, or in another country, silently changed, or gone.
create table facet_marks (
    project_id text not null,
    id bigint generated by default as identity,
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
    billing_issue_until bigint,
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
create index customer_facets_last_seen on customer_facets (project_id, last_seen_at, customer_id);
create index customer_facets_first_seen on customer_facets (project_id, first_seen_at, customer_id);
create index customer_facets_spent on customer_facets (project_id, spent_usd, customer_id);
create index customer_facets_country on customer_facets (project_id, country, last_seen_at, customer_id);
create index customer_facets_trial on customer_facets (project_id, trial_until) where trial_until is not null;
create index customer_facets_granted on customer_facets (project_id, granted_until) where granted_until is not null;
create index customer_facets_issue on customer_facets (project_id, billing_issue_until) where billing_issue_until is not null;
create index customer_facets_bought on customer_facets using gin (products, stores);

create table customer_segments (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    name text not null,
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
    skip_holders boolean not null,
    source text not null,
    actor text not null,
    created_at bigint not null,
    started_at bigint,
    finished_at bigint,
    total integer not null,
    holders integer not null,
    unknown_ids text[] not null,
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
    outcome text,
    error text,
    primary key (project_id, grant_id, number)
);
-- For erasure: the ids of an erased customer are also in the bulk grants that it was part of.
create index bulk_grant_customers_named on bulk_grant_customers (app_user_id);

-- Functions that storage/distribution/setup.sql replaces in a distributed database. Keys for new customers of a project.
create function next_customer_keys(of_project text, amount bigint) returns setof bigint language sql as $$
    select nextval('customers_id_seq') from generate_series(1, amount)
$$;

-- Tells the workers that these webhooks have something to send. Too many to name means all.
create function wake_deliveries(webhook_keys bigint[]) returns void language sql as $$
    select pg_notify(
        'latchkey_delivery', case when cardinality(webhook_keys) <= 300 then array_to_string(webhook_keys, ',') else '' end
    )
$$;

-- Transaction ids can be compared with those of an earlier export if this is the same as then. A dump that is loaded into
-- the same database creates its tables anew, with other oids.
create function export_epoch() returns text language sql as $$
    select (select system_identifier from pg_control_system())::text
        || '-' || (select d.oid from pg_database d where d.datname = current_database())
        || '-' || 'server_identity'::regclass::oid
        || '-' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)
$$;

-- Everything that a change to customers of one project writes, in one statement. A call outside a transaction is a
-- transaction of its own, so a purchase is written and committed in one round trip.
-- `changes` has an array of rows for each table that is written. JSON documents that are stored as they are come beside it,
-- and the rows name them by their place: inside `changes` PostgreSQL would read them three times, a quarter of the time.
-- `saved`: customers that exist, sorted by key. `revision` is the one that was read, or null where the caller holds the
-- row's lock. A customer that has changed since raises LK001, and nothing is written.
-- `created`: customers to create. Other rows name them by negative numbers: -1 is the first. Their keys are returned.
-- An id that is taken, a purchase that has an owner, or an event that exists raise `unique_violation`.
-- `delivers`: the caller wakes its own worker with the webhooks that are returned as `woken`, instead of a notification to
-- all workers. With `lease_until` and `token` it also gets the lease of new lanes, and sends what is returned as `leased`.
create function write_changes(of_project text, at_ms bigint, changes json, documents json[])
returns json language plpgsql as $$
declare
    given record;
    made bigint[] := '{}';
    one record;
    woken bigint[];
    leased json;
    event_ids text[];
    head bigint;
    current_partition integer;
    feed_partition integer;
begin
    select * into given from json_to_record(changes) as n (
        saved json, created json, owned json, transactions json, coins json, handles json, periods json, failures json,
        marked bigint[], events json, delivers boolean, lease_until bigint, token bigint
    );
    -- One at a time: joined, the plan of an empty table would read all customers of the project for each of them. They
    -- are sorted by key, so rows are locked in the same order everywhere.
    for one in
        select * from json_to_recordset(given.saved) as n (
            key bigint, revision bigint, app_user_id text, state integer, due_at bigint, first_seen_at bigint,
            seen_at bigint, platform text, platform_version text, app_version text, country text
        )
    loop
        update customers c
        set app_user_id = one.app_user_id,
            state = documents[one.state],
            revision = c.revision + 1,
            next_due_at = one.due_at,
            first_seen_at = one.first_seen_at,
            last_seen_at = greatest(c.last_seen_at, one.seen_at),
            last_seen_platform = coalesce(one.platform, c.last_seen_platform),
            last_seen_platform_version = case
                when one.seen_at is null then c.last_seen_platform_version else one.platform_version
            end,
            last_seen_app_version = coalesce(one.app_version, c.last_seen_app_version),
            last_seen_country = coalesce(one.country, c.last_seen_country),
            first_platform = coalesce(c.first_platform, one.platform),
            first_app_version = coalesce(c.first_app_version, one.app_version),
            first_country = coalesce(c.first_country, one.country),
            changed_xid = default
        where c.project_id = of_project and c.id = one.key and (one.revision is null or c.revision = one.revision);
        if not found then
            raise exception 'a customer has changed meanwhile' using errcode = 'LK001';
        end if;
    end loop;

    if given.created is not null then
        made := array(
            select next_customer_keys(of_project, json_array_length(given.created))
        );
        with customer as materialized (
            select * from rows from (
                json_to_recordset(given.created) as (
                    app_user_id text, state integer, due_at bigint, first_seen_at bigint, seen_at bigint, platform text,
                    platform_version text, app_version text, country text
                ),
                unnest(made)
            ) as n (
                app_user_id, state, due_at, first_seen_at, seen_at, platform, platform_version, app_version, country, key
            )
        ),
        named as (
            insert into aliases (project_id, app_user_id, customer_id, created_at)
            select of_project, app_user_id, key, first_seen_at from customer order by app_user_id
        )
        insert into customers (
            project_id, id, app_user_id, state, next_due_at, first_seen_at, last_seen_at, last_seen_platform,
            last_seen_platform_version, last_seen_app_version, last_seen_country, first_platform, first_app_version,
            first_country
        )
        select of_project, key, app_user_id, documents[state], due_at, first_seen_at,
            coalesce(seen_at, first_seen_at), platform, platform_version, app_version, country, platform, app_version,
            country
        from customer;
    end if;

    if given.owned is not null then
        insert into purchase_owners (project_id, store, store_id, customer_id)
        select of_project, n.store, n.id, coalesce(made[greatest(-n.who, 0)], n.who)
        from json_to_recordset(given.owned) as n (who bigint, store text, id text);
    end if;
    if given.transactions is not null then
        insert into purchase_transactions (project_id, store, transaction_id, store_id)
        select of_project, n.store, n.id, n.purchase_id
        from json_to_recordset(given.transactions) as n (store text, id text, purchase_id text)
        on conflict do nothing;
    end if;
    if given.coins is not null then
        insert into currency_transactions (project_id, customer_id, idempotency_key, code, amount, balance, at)
        select of_project, coalesce(made[greatest(-n.who, 0)], n.who), n.id, n.code, n.amount, n.balance, n.at
        from json_to_recordset(given.coins) as n (
            who bigint, id text, code text, amount bigint, balance bigint, at bigint
        );
    end if;
    if given.handles is not null then
        insert into store_handles as h (
            project_id, store, handle_hash, handle, app_id, environment, store_id, kind, product_id, first_seen_at,
            last_told_at, check_at, acknowledge_at
        )
        select of_project, n.store, sha256(convert_to(n.handle, 'UTF8')), n.handle, n.app_id, n.environment, n.store_id,
            n.kind, n.product_id, at_ms, at_ms, n.check_at, n.acknowledge_at
        from json_to_recordset(given.handles) as n (
            store text, handle text, app_id text, environment text, store_id text, kind text, product_id text,
            check_at bigint, acknowledge_at bigint
        )
        -- Two transactions that write in different orders could wait for each other.
        order by 2, 3
        on conflict (project_id, store, handle_hash) do update
        set app_id = excluded.app_id, product_id = excluded.product_id, store_id = excluded.store_id,
            last_told_at = excluded.last_told_at, check_at = excluded.check_at,
            checks = case when h.check_at is distinct from excluded.check_at then 0 else h.checks end,
            acknowledge_at = case
                when excluded.acknowledge_at is null then null
                else coalesce(h.acknowledge_at, excluded.acknowledge_at)
            end;
    end if;
    if given.periods is not null then
        insert into chart_periods as k (
            project_id, purchase, period, customer_id, place, type, sandbox, purchased_at, starts_at, ends_at,
            access_ends_at, refunded_at, told_at, micros, usd, monthly_micros, monthly_usd, tax, commission, standing,
            cause, store, product, duration, currency, country, offering, offer_code, back, platform, app_version,
            seen_country
        )
        select
            of_project, n.purchase, n.period, n.customer_id, n.place, n.type, coalesce(n.sandbox, false),
            n.purchased_at, n.starts_at, n.ends_at, n.access_ends_at, n.refunded_at, n.told_at, coalesce(n.micros, 0),
            n.usd, coalesce(n.monthly_micros, 0), n.monthly_usd, n.tax, n.commission, n.standing, n.cause, n.store,
            n.product, n.duration, n.currency, n.country, n.offering, n.offer_code, n.back, seen.platform,
            seen.app_version, seen.country
        from (
            select coalesce(made[greatest(-r.who, 0)], r.who) as customer_id, r.* from json_to_recordset(given.periods) as r (
                who bigint, purchase uuid, period bigint, place integer, type text, sandbox boolean,
                purchased_at bigint, starts_at bigint, ends_at bigint, access_ends_at bigint, refunded_at bigint,
                told_at bigint, micros bigint, usd bigint, monthly_micros bigint, monthly_usd bigint,
                tax double precision, commission double precision, standing smallint, cause text, store text,
                product text, duration text, currency text, country text, offering text, offer_code text,
                back json
            )
        ) as n
        left join lateral (
            select c.last_seen_platform as platform, c.last_seen_app_version as app_version,
                c.last_seen_country as country
            from customers c
            where n.place = 0 and c.project_id = of_project and c.id = n.customer_id
            limit 1
        ) as seen on true
        order by n.purchase, n.period
        on conflict (project_id, purchase, period) do update set
            customer_id = excluded.customer_id, place = excluded.place, type = excluded.type,
            sandbox = excluded.sandbox, purchased_at = excluded.purchased_at, starts_at = excluded.starts_at,
            ends_at = excluded.ends_at, access_ends_at = excluded.access_ends_at, refunded_at = excluded.refunded_at,
            told_at = excluded.told_at, micros = excluded.micros, usd = excluded.usd,
            monthly_micros = excluded.monthly_micros, monthly_usd = excluded.monthly_usd, tax = excluded.tax,
            commission = excluded.commission, standing = excluded.standing, cause = excluded.cause,
            store = excluded.store, product = excluded.product, duration = excluded.duration,
            currency = excluded.currency, country = excluded.country, offering = excluded.offering,
            offer_code = excluded.offer_code, back = excluded.back, platform = coalesce(k.platform, excluded.platform),
            app_version = coalesce(k.app_version, excluded.app_version),
            seen_country = coalesce(k.seen_country, excluded.seen_country);
    end if;
    if given.failures is not null then
        -- Of several reports about one failure the first says when it was; a later one may add a grace period.
        update chart_periods k
        set failed_at = least(k.failed_at, n.at), grace_ends_at = greatest(k.grace_ends_at, n.grace_ends_at)
        from (
            select r.purchase, r.period, min(r.at) as at, max(r.grace_ends_at) as grace_ends_at
            from json_to_recordset(given.failures) as r (purchase uuid, period bigint, at bigint, grace_ends_at bigint)
            group by r.purchase, r.period
        ) as n
        where k.project_id = of_project and k.purchase = n.purchase and k.period = n.period;
    end if;
    if given.marked is not null then
        insert into facet_marks (project_id, id, customer_id)
        select of_project, nextval('facet_marks_id_seq'), coalesce(made[greatest(-n.who, 0)], n.who) from unnest(given.marked) as n (who);
    end if;
    if given.events is null then
        return json_build_object('made', made);
    end if;

    current_partition := (select max(p.partition) from partitions p);
    -- Before the feed's lock: this may wait for a lane whose outcome is being recorded.
    with event as materialized (
        select * from json_to_recordset(given.events) as n (
            who bigint, id text, sequence bigint, type text, environment text, app_id text, vendor_selectors text[]
        )
    ),
    matching as (
        select w.key, w.version, nullif(w.dialect, 'latchkey') as dialect, n.id, n.sequence, n.type,
            coalesce(made[greatest(-n.who, 0)], n.who) as customer_id,
            -- The caller sends it at once, where few wait at a webhook without failures. Several processes may do so at
            -- the same time and each add a few, so such a webhook must allow more than these.
            case
                when given.lease_until is null or w.in_flight_limit < 64 then false
                when w.paused_at is not null or w.failing_since is not null or w.open_until is not null then false
                else not exists (select from lanes l where l.webhook_key = w.key offset 31)
            end as is_leased
        from webhooks w
        cross join event n
        where w.project_id = of_project and w.enabled and w.deleted_at is null
            and (w.environment is null or w.environment = lower(n.environment))
            and (
                w.event_types = '{}'
                -- See domain/events/customer_event.py.
                or w.event_types && case when w.dialect = 'latchkey' then array[n.type] else n.vendor_selectors end
            )
            and (w.app_id is null or w.app_id = n.app_id)
    ),
    stored as (
        insert into deliveries (
            project_id, customer_id, webhook_key, sequence, event_id, event_type, created_at, dialect, partition
        )
        select of_project, customer_id, key, sequence, id, type, at_ms, dialect, current_partition
        from matching
    ),
    queued as (
        insert into lanes as l (
            project_id, customer_id, webhook_key, waiting, done, next_at, partition, lease_until, token
        )
        select of_project, customer_id, key, count(*), min(sequence) - 1, at_ms, current_partition,
            case when bool_and(is_leased) then given.lease_until else 0 end,
            case when bool_and(is_leased) then given.token else 0 end
        from matching
        group by customer_id, key
        order by customer_id, key
        on conflict (project_id, customer_id, webhook_key, aside) do update
        set waiting = l.waiting + excluded.waiting, partition = least(l.partition, excluded.partition)
        returning webhook_key, customer_id, waiting, done, token
    )
    select
        -- A lane that was there before keeps its token.
        (select array_agg(distinct webhook_key) from queued where token is distinct from given.token),
        (
            select json_agg(json_build_array(
                m.key, m.version, m.customer_id, q.waiting, m.sequence, m.id, m.dialect, current_partition
            ))
            from queued q
            join matching m on m.key = q.webhook_key and m.customer_id = q.customer_id and m.sequence = q.done + 1
            where q.token = given.token
        ),
        array(select id from event)
    into woken, leased, event_ids;
    if woken is not null and given.delivers is not true then
        perform wake_deliveries(woken);
    end if;

    -- Last: the feed's lock is held until the commit, so positions are in the order of commits.
    -- A project's partitions never go back, so no partition after this one has an event of the project.
    update feeds set position = position + cardinality(event_ids), partition = greatest(partition, current_partition)
    where project_id = of_project
    returning position - cardinality(event_ids), partition into head, feed_partition;
    -- The index of a partition knows only the ids in that partition. Under the feed's lock nobody adds one meanwhile.
    if feed_partition >= 1000 and exists (
        select from events e
        where e.partition < feed_partition / 1000 * 1000 and e.project_id = of_project and e.id = any(event_ids)
    ) then
        raise unique_violation using message = 'an event with this id exists already';
    end if;
    insert into events (
        project_id, position, id, customer_id, sequence, type, environment, app_id, occurred_at, committed_at, body,
        partition
    )
    select of_project, head + n.place, n.id, coalesce(made[greatest(-n.who, 0)], n.who), n.sequence, n.type, n.environment, n.app_id,
        n.occurred_at, at_ms, documents[n.body], feed_partition
    from rows from (
        json_to_recordset(given.events) as (
            who bigint, id text, sequence bigint, type text, environment text, app_id text, occurred_at bigint,
            body integer
        )
    ) with ordinality as n (who, id, sequence, type, environment, app_id, occurred_at, body, place);
    return json_build_object('made', made, 'woken', woken, 'leased', leased);
end $$;

-- Creates the partitions of deliveries and attempts with a number, and that of the events if the number is the first in it:
-- 0 to 999 share one, 1000 to 1999 the next. From then on new rows have this number. Attaching a table does not wait for
-- those who use its parent.
create function open_partition(new_partition integer, at_ms bigint) returns void language plpgsql as $$
declare
    of_events constant text := new_partition / 1000;
    named constant text := case when new_partition = -1 then 'kept' else new_partition::text end;
begin
    -- Number -1 is opened with the second: with one partition a statement is planned as for a plain table.
    if new_partition > 0 and not exists (select from partitions where partition = -1) then
        perform open_partition(-1, at_ms);
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
            of_events, new_partition / 1000 * 1000, (new_partition / 1000 + 1) * 1000
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
    execute format('alter table deliveries attach partition deliveries_%s for values in (%s)', named, new_partition);
    execute format('create table attempts_%s (like attempts including all)', named);
    execute format(
        'alter table attempts_%s add primary key (project_id, customer_id, webhook_key, sequence, number)', named
    );
    execute format('alter table attempts attach partition attempts_%s for values in (%s)', named, new_partition);
    insert into partitions (partition, opened_at) values (new_partition, at_ms);
end $$;

-- Drops the deliveries and attempts of a partition. Waits until the two tables are unused: call it with a short lock_timeout.
-- The tables before their partitions, as all statements lock them.
create function drop_partition(old_partition integer, at_ms bigint) returns void language plpgsql as $$
begin
    lock table only deliveries, only attempts in access exclusive mode;
    execute format('alter table deliveries detach partition deliveries_%s', old_partition);
    execute format('alter table attempts detach partition attempts_%s', old_partition);
    execute format('drop table deliveries_%1$s, attempts_%1$s', old_partition);
    update partitions set dropped_at = at_ms where partition = old_partition;
end $$;

select open_partition(0, 0);
