-- name: feed_head
-- the position of a project's newest event
select position from feeds where project_id = $1;

-- part: event_row
position, id, customer_id as key, sequence, type, environment, occurred_at, committed_at,
        coalesce(body ->> 'app_user_id', '') as app_user_id, body ->> 'product_id' as product_id

-- part: event_owner
left join lateral (
    select customer_id from aliases where project_id = $1 and app_user_id = e.app_user_id limit 1
) as a on true
left join lateral (
    select id, test_clock_id from customers where project_id = $1 and id = a.customer_id limit 1
) as owner on true

-- name: listed_events
-- a project's events before a position, newest first; the lower bound limits how many are examined for a rare type
select e.*, owner.id as owner, owner.test_clock_id
from (
    select {event_row}
    from events
    where project_id = $1 and position < $2 and position >= $3
        and ($4::text is null or type = $4) and ($5::text is null or environment = $5)
    order by position desc
    limit $6
) as e
{event_owner}
order by e.position desc;

-- name: listed_events_of_customer
-- a customer's events before a position, newest first, including those of merged customers
select e.*, c.id as owner, c.test_clock_id
from (
    select {event_row}
    from events
    where project_id = $1 and position < $3 and customer_id = any({customer_and_absorbed})
        and ($4::text is null or type = $4) and ($5::text is null or environment = $5)
    order by position desc
    limit $6
) as e
join customers c on c.project_id = $1 and c.id = $2
order by e.position desc;

-- name: listed_events_of_clock
-- the events of a test clock's customers, newest first; examines so many customers, those who fall due first
select e.*
from (
    select id, test_clock_id from customers
    where project_id = $1 and test_clock_id = $2
    order by next_due_at
    limit $3
) as c
cross join lateral (
    select {event_row}, c.id as owner, c.test_clock_id
    from events
    where customer_id = c.id and project_id = $1 and position <= $4
    order by sequence desc
    limit $5
) as e
order by e.position desc
limit $5;

-- name: events_after
-- a project's events after a position, oldest first, for the live view
select e.*, owner.id as owner, owner.test_clock_id
from (
    select {event_row} from events where project_id = $1 and position > $2 order by position limit $3
) as e
{event_owner}
order by e.position;

-- name: shown_event
-- one event with its body, and its current owner
select e.*, owner.id as owner, owner.test_clock_id
from (select {event_row}, body from events where project_id = $1 and id = $2 limit 1) as e
{event_owner};
