-- name: newest_clocks
-- a page of a project's test clocks, newest first, with the number of customers (up to a hundred) and the next due time
select t.id, t.name, t.now_ms, t.created_at,
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
