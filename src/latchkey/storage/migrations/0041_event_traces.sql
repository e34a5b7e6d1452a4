-- Which trace an event belongs to, while traces are on: the process that delivers it continues that trace. Kept for a day.
-- Unlogged: a crash of the database may empty it, and then deliveries only have no trace.
create unlogged table event_traces (
    project_id text not null,
    event_id text not null,
    traceparent text not null,
    at bigint not null,
    primary key (project_id, event_id)
);
create index event_traces_old on event_traces (at);
