-- What is created once for each connection to DuckDB. Lines of dashes separate statements.
set memory_limit = '1GB';
----
set threads = 2;
----
-- The database in memory is written nowhere, so checkpoints of it are of no use. They took a tenth of the time of a build.
set checkpoint_threshold = '1TB';
----
-- The facts of customers that have changed since the file was built, as `facts/` derives them.
attach ':memory:' as recent (compress);
----
create table recent.tail (
    weight integer, kind varchar, environment varchar, customer bigint, moment bigint, day integer, month integer, n integer,
    currency varchar, shown varchar, quantity bigint, micros bigint, tax bigint, commission bigint, usd bigint,
    tax_usd bigint, commission_usd bigint, unconverted integer, product varchar, duration varchar, store varchar,
    country varchar, platform varchar, app_version varchar, offering varchar, variants varchar, attributes varchar
);
----
-- The first day of the month of a day.
create macro month_of(day) as
    date_diff('day', date '1970-01-01', date_trunc('month', date '1970-01-01' + day))::integer;
----
create macro is_paid(type) as type in ('normal', 'intro', 'prepaid');
----
create macro money(micros, usd, tax, commission) as {
    'micros': micros,
    'tax': round_even(micros * coalesce(tax, 0), 0)::bigint,
    'commission': round_even(micros * coalesce(commission, 0), 0)::bigint,
    'usd': coalesce(usd, 0),
    'tax_usd': coalesce(round_even(usd * tax, 0)::bigint, 0),
    'commission_usd': coalesce(round_even(usd * commission, 0)::bigint, 0),
    'unconverted': if(micros <> 0 and usd is null, 1, 0)
};
----
create macro no_money() as money(0::bigint, 0::bigint, 0, 0);
----
create macro minus(a, b) as {
    'micros': a.micros - b.micros, 'tax': a.tax - b.tax, 'commission': a.commission - b.commission, 'usd': a.usd - b.usd,
    'tax_usd': a.tax_usd - b.tax_usd, 'commission_usd': a.commission_usd - b.commission_usd,
    'unconverted': a.unconverted - b.unconverted
};
----
-- What was given back, as `periods.back` has it.
create macro given(back) as {
    'micros': back[3], 'tax': back[4], 'commission': back[5], 'usd': back[6], 'tax_usd': back[7],
    'commission_usd': back[8], 'unconverted': back[9]::integer
};
----
-- The part of a difference that is growth, in each amount that a chart can show; 0 where that amount became less. A price
-- can fall while the exchange rate rises: that is growth in USD and none in its own currency.
create macro growth(d) as {
    'micros': greatest(d.micros, 0),
    'tax': greatest(d.micros, 0) - greatest(d.micros - d.tax, 0),
    'commission': greatest(d.micros - d.tax, 0) - greatest(d.micros - d.tax - d.commission, 0),
    'usd': greatest(d.usd, 0),
    'tax_usd': greatest(d.usd, 0) - greatest(d.usd - d.tax_usd, 0),
    'commission_usd': greatest(d.usd - d.tax_usd, 0) - greatest(d.usd - d.tax_usd - d.commission_usd, 0),
    'unconverted': greatest(d.unconverted, 0)
};
----
create macro lifetime_of(days) as
    case
        when days <= 0 then 0 when days <= 7 then 1 when days <= 14 then 2 when days <= 30 then 3 when days <= 90 then 4
        when days <= 180 then 5 when days <= 365 then 6 when days <= 730 then 7 else 8
    end;
----
-- The place in `LIFETIMES` of an instant, counted from the day of another one.
create macro lifetime(moment, since) as lifetime_of(moment // 86400000 - since // 86400000);
----
create macro variants_until(enrollments, until) as coalesce(
    array_to_string(
        list_sort(list_transform(list_filter(enrollments, lambda e: e.moment <= until), lambda e: e.variant)), chr(31)
    ),
    ''
);
