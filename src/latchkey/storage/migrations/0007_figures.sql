-- Figures: what the business looks like, kept up by a roller that follows each project's feed.

-- How far the roller has come in a project.
create table figure_rolls (
    project_id text primary key references projects (id) on delete cascade,
    -- The last event of the feed that is in the figures, and when it was committed.
    position bigint not null default 0,
    rolled_to bigint not null default 0,
    -- Customers up to this id are counted in figure_newcomers.
    counted bigint not null default 0,
    -- The next id to count up to. Ids become visible out of order: it is reached when every transaction that could have
    -- taken a lower one has ended, which is when all transaction ids below mark_xid have.
    mark_id bigint,
    mark_xid bigint,
    marked_at bigint
) with (fillfactor = 50);

-- Customers who changed without an event: one that received another's purchases by a merge, one who gave theirs away.
create table figure_marks (
    project_id text not null references projects (id) on delete cascade,
    id bigint generated always as identity,
    customer_id bigint not null,
    primary key (project_id, id)
);

-- What each purchase contributes: what changes at one instant, past or to come, in one currency. A purchase keeps its
-- lines whoever owns it. `purchase` is a hash of the store's id, so that nothing here leads to a person who was erased.
create table figure_lines (
    project_id text not null references projects (id) on delete cascade,
    purchase uuid not null,
    at bigint not null,
    currency text not null,
    environment text not null,
    active smallint not null, trials smallint not null, mrr bigint not null, payments smallint not null,
    paid bigint not null, refunds smallint not null, refunded bigint not null, expired smallint not null,
    resubscribed smallint not null, trials_started smallint not null, trials_kept smallint not null, trials_converted smallint not null,
    primary key (project_id, purchase, at, currency)
);
create index figure_lines_at on figure_lines (environment, project_id, at);

-- The sum of all lines of a day, UTC, days since 1970. Days to come hold what will end then if nothing happens.
create table figure_days (
    project_id text not null references projects (id) on delete cascade,
    environment text not null,
    day integer not null,
    currency text not null,
    active bigint not null, trials bigint not null, mrr bigint not null, payments bigint not null,
    paid bigint not null, refunds bigint not null, refunded bigint not null, expired bigint not null,
    resubscribed bigint not null, trials_started bigint not null, trials_kept bigint not null, trials_converted bigint not null,
    primary key (project_id, environment, day, currency)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

-- Customers by the day on which they were first seen, and by the 24 hours of that day.
create table figure_newcomers (
    project_id text not null references projects (id) on delete cascade,
    day integer not null,
    customers bigint not null,
    hours bigint[] not null,
    primary key (project_id, day)
) with (fillfactor = 50);

-- Events of merged customers bear keys that lead to nobody any more: whoever they became is looked at once.
insert into figure_marks (project_id, customer_id)
select distinct project_id, customer_id from absorbed_customers;
