-- name: list_customers
-- a page of a project's customers, by their id
select c.app_user_id as id, c.project_id, c.first_seen_at, {last_seen}
from aliases a
join customers c on c.project_id = a.project_id and c.id = a.customer_id and c.app_user_id = a.app_user_id
where a.project_id = $1 and a.app_user_id > coalesce($2::text, '')
order by a.app_user_id
limit $3;

-- name: list_customers_by_email
-- the same for the customers with this e-mail address, in lower case
select c.app_user_id as id, c.project_id, c.first_seen_at, {last_seen}
from customer_emails e
join customers c on c.project_id = e.project_id and c.id = e.customer_id
where e.project_id = $1 and e.email = $4 and c.app_user_id > coalesce($2::text, '')
order by c.app_user_id
limit $3;

-- name: newest_events_of_customer
-- a customer's events, newest first, also of merged customers; $3 to $5 are the place of the last one seen
select e.id, e.customer_id as customer_key, e.sequence, e.type, e.environment, e.occurred_at, e.body
from unnest({customer_and_absorbed}) as mine (id)
cross join lateral (
    select *
    from events
    where customer_id = mine.id and project_id = $1 and position < $3
        and sequence < case when mine.id = $4 then $5 else 9223372036854775807 end
    order by sequence desc
    limit $6
) as e
order by e.position desc
limit $6;

-- name: deliveries_of_events
-- the deliveries of these events ($2 and $3: customer and sequence), with their status
select d.event_id, d.status, d.attempts, d.created_at, d.finished_at, d.response_status, d.error,
    w.id as webhook_id, w.name as webhook_name, w.deleted_at is not null as is_gone
from webhooks w
cross join unnest($2::bigint[], $3::bigint[]) as asked (customer_id, sequence)
cross join lateral (
    select * from deliveries
    where project_id = $1 and customer_id = asked.customer_id and webhook_key = w.key and sequence = asked.sequence
    limit 1
) as d
where w.project_id = $1
order by w.key;

-- name: movements_of_customer
-- a page of a customer's virtual currency transactions, newest first; $3 to $5 are the position of the last one seen
select idempotency_key as key, code, amount, balance, at, reference
from currency_transactions
where project_id = $1 and customer_id = $2 and (at, idempotency_key, code) < ($3::bigint, $4::text, $5::text)
order by at desc, idempotency_key desc, code desc
limit $6;
