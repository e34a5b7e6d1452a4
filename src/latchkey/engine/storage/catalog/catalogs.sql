-- name: load_catalog
-- what a catalog has beside its products and offerings, and its version
select p.catalog_version, p.test_store, p.fees, p.sequence_floor, p.chart_attributes,
    exists (select from product_prices l where l.project_id = p.id) as lists_prices,
    array(select e.id from entitlements e where e.project_id = p.id) as entitlements
from projects p
where p.id = $1;

-- name: former_grants
-- what products granted until it was detached
select product_id, entitlement_id, detached_at, detached_on_clocks
from former_product_entitlements where project_id = $1;

-- name: project_settings
-- the settings of projects that a change needs, and the version of the exchange rates
select id, catalog_version, restore_behavior, (select version from exchange_rate_readings where id = 1) as rates_version
from projects where id = any($1::text[]);

-- name: rates_since
-- the exchange rates that are newer than a version, by currency
select currency, array_agg(day order by day) as days, array_agg(usd::text order by day) as rates, max(version) as version
from exchange_rates
where version > $1
group by currency;

-- name: lock_rates
-- the next version of the exchange rates; whoever else writes rates waits
select version + 1 from exchange_rate_readings for update;

-- name: known_rates
-- those of these days and currencies that are known
select r.currency, r.day, r.usd::text as usd
from unnest($1::text[], $2::integer[]) as given (currency, day)
join exchange_rates r on r.currency = given.currency and r.day = given.day;

-- name: put_rates
-- store exchange rates; those that are known already are replaced
insert into exchange_rates (currency, day, usd, source, learned_at, version)
select given.currency, given.day, given.usd, $4, $5, $6
from unnest($1::text[], $2::integer[], $3::numeric[]) as given (currency, day, usd)
on conflict (currency, day) do update
set usd = excluded.usd, source = excluded.source, learned_at = excluded.learned_at, version = excluded.version;

-- name: save_rates_version
-- the new version of the exchange rates, after some were written
update exchange_rate_readings set version = $1;

-- name: save_rates_reading
-- how the operator's setting was last read
update exchange_rate_readings set read_at = $1, source = $2, problem = $3;

-- name: rates_reading
-- the version of all exchange rates, and how the operator's setting was last read
select version, read_at, source, problem from exchange_rate_readings;

-- name: list_rates
-- exchange rates of one currency or of all, newest day first
select currency, day, usd::text as usd, source, learned_at
from exchange_rates
where ($1::text is null or currency = $1) and day <= $2
order by day desc, currency
limit $3;

-- name: rate_currencies
-- the currencies with exchange rates: how many, the first and the last day
select currency, count(*) as rates, min(day) as first, max(day) as last
from exchange_rates
group by currency
order by currency;

-- name: save_fees
-- change a project's programs and percentages; they are part of the catalog
update projects set fees = $2, catalog_version = catalog_version + 1 where id = $1 returning id;

-- name: note_missing_rates
-- note currencies and days without an exchange rate; returns those that were not noted yet
insert into missing_rates (project_id, currency, day)
select * from unnest($1::text[], $2::text[], $3::integer[])
on conflict do nothing
returning project_id, currency, day;

-- name: prune_missing_rates
-- currencies without an exchange rate on days that are over for long
delete from missing_rates where day < $1;

-- name: list_missing_rates
-- currencies of a project, or of all, without an exchange rate since a day: how many days, and the last one
select currency, count(distinct day) as days, max(day) as last
from missing_rates
where ($1::text is null or project_id = $1) and day >= $2
group by currency
order by currency;
