-- What one unit of a currency was worth in USD on a day (UTC, in days since 1970), as the operator gave it. For the whole
-- deployment.
create table exchange_rates (
    currency text not null,
    day integer not null,
    usd numeric not null check (usd > 0),
    -- The file or address that it came from.
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
