-- Leases of the rate limit. A process that sees a key often takes requests ahead: they are counted in the current run of
-- half a second, and what is not used is handed back. The functions' first three arguments and results are as before, so
-- processes of the release before count together with new ones.
alter table rate_windows
    -- The run whose leases are out, and how many requests they have together.
    add column leased_until bigint not null default 0,
    add column leased_out integer not null default 0;

drop function take_requests(text, integer, integer, bigint);

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
