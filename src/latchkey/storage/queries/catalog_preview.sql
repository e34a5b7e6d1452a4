-- name: next_stretch_of_customers
-- where a range of so many customers ends, how many it has, and the last customer of all; for reading range by range
select
    max(s.id) as ends_at,
    count(*) as customers,
    (select c.id from customers c where c.project_id = $1 order by c.id desc limit 1) as last
from (
    select id from customers where project_id = $1 and id > $2 order by id limit $3
) s;

-- name: customers_mentioning
-- the customers of a range whose state contains one of these words; with the time of their test clock
select c.state, t.now_ms
from customers c
left join test_clocks t on t.project_id = c.project_id and t.id = c.test_clock_id
where c.project_id = $1 and c.id > $2 and c.id <= $3
  and exists (select from unnest($4::text[]) as word where strpos(c.state::text, word) > 0);
