-- name: list_customers
-- a page of a project's customers, by their id
select app_user_id, first_seen_at, last_seen_at, last_seen_app_version, last_seen_country,
    last_seen_platform, last_seen_platform_version
from customers
where project_id = $1 and ($2::text is null or app_user_id > $2)
order by app_user_id
limit $3;
