-- The rate limit: at most `allowed` requests of one key in any 60 seconds, over every process that shares this database.

-- How many requests the runs hold together, so that a check need not add them up.
alter table rate_windows add column total integer not null default 0;

-- Takes up to `wanted` requests from a key's last 60 seconds and says how many were granted and, where some were not,
-- after how many microseconds the next one can be. Refused requests are not counted.
--
-- The row lock is the queue: the clock is read after it is held, so instants only grow. A run is (instant, count); a run
-- leaves the window 60 seconds after its instant. Up to 600 requests a minute every batch is its own run and the limit is
-- exact to the microsecond. Above that a run spans 500 ms and bears the instant of its end: never more than allowed, and
-- a place comes back at most 500 ms late. `at_us` replaces the clock in tests.
create function take_requests(
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
    now_us := coalesce(at_us, (date_part('epoch', clock_timestamp()) * 1000000)::bigint);
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
