-- name: insert_project
-- a project; nothing when the id is taken
insert into projects (id, name, created_at) values ($1, $2, $3)
on conflict (id) do nothing
returning id, name, restore_behavior, created_at, test_store, time_zone;

-- name: insert_feed
-- the head of a new project's event feed
insert into feeds (project_id) values ($1) on conflict do nothing;

-- name: load_project
-- one project by its id
select id, name, restore_behavior, created_at, test_store, time_zone from projects where id = $1;

-- name: list_projects
-- every project of this deployment, oldest first
select id, name, restore_behavior, created_at, test_store, time_zone from projects order by created_at, id;

-- name: update_project
-- change a project's settings, each if given; the test store's setting is part of the catalog, so its version changes
update projects
set name = coalesce($2, name),
    restore_behavior = coalesce($3, restore_behavior),
    test_store = coalesce($4, test_store),
    time_zone = coalesce($5, time_zone),
    catalog_version = catalog_version + case when $4 <> test_store then 1 else 0 end
where id = $1
returning id, name, restore_behavior, created_at, test_store, time_zone;

-- name: create_app
-- create an app of a project; nothing when the id is taken
insert into apps (project_id, id, name, store, created_at, details) values ($1, $2, $3, $4, $5, $6)
on conflict (project_id, id) do nothing;

-- name: update_app
-- an app's new name and details
update apps set name = $3, details = $4 where project_id = $1 and id = $2;

-- name: list_apps
-- a project's apps, oldest first, after a given one; or the one with an id
select project_id, id, name, store, created_at, details
from apps
where project_id = $1 and {page_by_age of apps};

-- name: delete_app
-- delete an app of a project, with its keys; the hashes of its public keys are kept, because phones still have them
with kept as (
    insert into former_public_keys (hash, store)
    select k.hash, a.store
    from apps a
    join api_keys k on k.project_id = a.project_id and k.app_id = a.id and k.kind = 'public'
    where a.project_id = $1 and a.id = $2
    on conflict do nothing
)
delete from apps where project_id = $1 and id = $2;
