-- name: create_purchase_link
-- a new link
insert into purchase_links (project_id, id, app_id, product_id, offering_id, created_at) values ($1, $2, $3, $4, $5, $6);

-- name: list_purchase_links
-- a project's links, oldest first, after a given one; or the one with an id
select id, project_id, app_id, product_id, offering_id, created_at, archived_at
from purchase_links
where project_id = $1 and {page_by_age of purchase_links};

-- name: open_purchase_link
-- the link that a buyer has, of any project
select id, project_id, app_id, product_id, offering_id, created_at, archived_at from purchase_links where id = $1;

-- name: archive_purchase_link
-- a link sells nothing any more; the first time counts
update purchase_links
set archived_at = coalesce(archived_at, $3)
where project_id = $1 and id = $2
returning id, project_id, app_id, product_id, offering_id, created_at, archived_at;
