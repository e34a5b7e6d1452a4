-- name: list_customers
-- a page of a project's customers, by their id
select c.app_user_id, c.first_seen_at, {last_seen}
from aliases a
join customers c on c.project_id = a.project_id and c.id = a.customer_id and c.app_user_id = a.app_user_id
where a.project_id = $1 and a.app_user_id > coalesce($2::text, '')
order by a.app_user_id
limit $3;

-- name: list_customers_by_email
-- the same for the customers with this e-mail address, in lower case
select c.app_user_id, c.first_seen_at, {last_seen}
from customer_emails e
join customers c on c.project_id = e.project_id and c.id = e.customer_id
where e.project_id = $1 and e.email = $4 and c.app_user_id > coalesce($2::text, '')
order by c.app_user_id
limit $3;
