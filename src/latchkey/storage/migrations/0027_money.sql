-- A project's programs and percentages for tax and commission. Part of the catalog: changing them increments catalog_version.
alter table projects add column fees json not null default '{}';

-- What of a line or a day could be converted to USD: payments and their amounts, and active subscriptions with their monthly
-- revenue. Zero in rows in USD, which need no conversion, and in rows of older releases, which converted nothing.
alter table figure_lines
    add column converted smallint not null default 0,
    add column paid_usd bigint not null default 0,
    add column refunded_usd bigint not null default 0,
    add column active_usd smallint not null default 0,
    add column mrr_usd bigint not null default 0;
alter table figure_days
    add column converted bigint not null default 0,
    add column paid_usd bigint not null default 0,
    add column refunded_usd bigint not null default 0,
    add column active_usd bigint not null default 0,
    add column mrr_usd bigint not null default 0;

-- Currencies and days (UTC, in days since 1970) of payments in production for which no exchange rate was known.
create table missing_rates (
    project_id text not null references projects (id) on delete cascade,
    currency text not null,
    day integer not null,
    noted_at bigint not null,
    primary key (project_id, currency, day)
);
