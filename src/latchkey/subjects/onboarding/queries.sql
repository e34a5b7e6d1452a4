-- name: load_onboarding
-- the first steps that a project has done, and whether the list was dismissed
select onboarding_done, onboarding_dismissed_at from projects where id = $1;

-- name: found_of_onboarding
-- the first steps that the data shows; a test event is looked for among the newest entries of the audit log
select
    exists (
        select from store_connections
        where project_id = $1 and credentials is not null and check_result <> 'refused'
    ) as store,
    exists (select from products where project_id = $1 and deleted_at is null) as product,
    exists (
        select from (
            select a.action, a.outcome from audit_entries a where a.project_id = $1 order by a.position desc limit 500
        ) as newest
        where newest.action = 'webhook.tested' and newest.outcome = 'done'
    ) as test_event;

-- name: keep_onboarding
-- remember the first steps that a project has done, or that nobody in it wants to see them any more
update projects set onboarding_done = coalesce($2, onboarding_done),
    onboarding_dismissed_at = coalesce($3, onboarding_dismissed_at)
where id = $1;

-- name: used_parts
-- which of the parts that not every project needs this one has
select
    exists (select from experiments where project_id = $1) as experiments,
    exists (select from virtual_currencies where project_id = $1) as currencies,
    exists (select from test_clocks where project_id = $1) as "test-clocks",
    exists (select from projects where id = $1 and fees::text <> '{}') as money;
