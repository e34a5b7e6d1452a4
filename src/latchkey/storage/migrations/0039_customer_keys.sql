-- The last key of a customer in each project of a distributed database. There, identity values are made on several nodes
-- and are in no order of time. On plain PostgreSQL this table stays empty.
create table customer_keys (
    project_id text primary key,
    last bigint not null
) with (fillfactor = 50);
