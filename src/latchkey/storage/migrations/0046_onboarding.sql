-- The first steps in a project, for the list on the overview. Only remembered: the data says what is done.
create table onboarding (
    project_id text primary key,
    -- Steps that were done once: 'store', 'product', 'test_event', 'delivery'.
    done text[] not null default '{}',
    -- When somebody dismissed the list, for everybody.
    dismissed_at bigint
);
