-- The function also returns how many requests are in the window: V2 tells its callers. Running processes of the version
-- before name the two columns that they use.
drop function take_requests(text, integer, integer, bigint);

create function take_requests(
    of_key text, wanted integer, allowed integer, at_us bigint default null,
    out granted integer, out retry_after_us bigint, out used integer
) language plpgsql as $$
declare
    window_us constant bigint := 60000000;
    grain constant bigint := case when allowed <= 600 then 1 else 500000 end;
    now_us bigint;
    stamp bigint;
    instants bigint[];
    runs integer[];
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
