-- name: create_clock
-- a new test clock
insert into test_clocks (project_id, id, name, now_ms, created_at) values ($1, $2, $3, $4, $5);

-- name: clocks_of_project
-- a page of a project's test clocks, oldest first; or the one with an id
select id, name, now_ms as now, created_at from test_clocks
where project_id = $1 and {page_by_age of test_clocks};

-- name: set_clock
-- set a test clock's time, or (with null) only lock it: writing what is there locks each copy in a distributed database
update test_clocks set now_ms = coalesce($3, now_ms) where project_id = $1 and id = $2 returning now_ms;

-- name: next_due_on_clock
-- when the next customer of a test clock falls due
select min(next_due_at) from customers where project_id = $1 and test_clock_id = $2 and next_due_at <= $3;

-- name: customers_due_on_clock
-- the customers of a test clock who fall due at one instant
select project_id, id, state from customers
where project_id = $1 and test_clock_id = $2 and next_due_at <= $3
order by id
limit $4
for update;

-- name: delete_clock
-- delete a test clock without customers
delete from test_clocks where project_id = $1 and id = $2;

-- name: newest_clocks
-- a page of a project's test clocks, newest first, with the number of customers (up to a hundred) and the next due time
select t.id, t.name, t.now_ms as now, t.created_at,
    (
        select count(*) from (
            select from customers where project_id = t.project_id and test_clock_id = t.id limit 100
        ) as counted
    ) as customers,
    (select min(next_due_at) from customers where project_id = t.project_id and test_clock_id = t.id) as next_due_at
from test_clocks t
where t.project_id = $1 and ($2::text is null or (t.created_at, t.id) < (
    select b.created_at, b.id from test_clocks b where b.project_id = $1 and b.id = $2
))
order by t.created_at desc, t.id desc
limit $3;

-- name: customers_on_clock
-- the customers of a test clock, those who fall due first
select next_due_at, state from customers
where project_id = $1 and test_clock_id = $2
order by next_due_at
limit $3;
