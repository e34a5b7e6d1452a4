-- name: find_alert_subscription
-- what a member wants to be told of, and where it goes
select s.*, a.email, p.name as project
from alert_subscriptions s join accounts a on a.id = s.account_id join projects p on p.id = s.project_id
where s.account_id = $1 and s.project_id = $2;

-- name: lock_alert_subscription
-- whether a member wants to be told of anything; locked, so that of several tests at once one is sent
select account_id from alert_subscriptions where account_id = $1 and project_id = $2 for no key update;

-- name: find_waiting_test
-- a test message to a member that was not sent yet
select id from outgoing_mails where account_id = $1 and project_id = $2 and about::json ->> 'what' = 'test';

-- name: save_alert_subscription
-- the same, from now on
insert into alert_subscriptions (account_id, project_id, kinds, report, slack, report_at) values ($1, $2, $3, $4, $5, $6)
on conflict (account_id, project_id) do update set kinds = $3, report = $4, slack = $5, report_at = $6;

-- name: remove_alert_subscription
-- a member wants nothing any more; messages that wait go too
delete from alert_subscriptions where account_id = $1 and project_id = $2 returning account_id;

-- name: alert_subscribers
-- who wants to be told of problems of a project
select * from alert_subscriptions where project_id = $1 and kinds <> '{}' order by account_id;

-- name: watch_project
-- look at a project from now on; waits for a look that ends because nobody wanted one
insert into alert_watches (project_id, look_at) values ($1, $2) on conflict (project_id) do update set look_at = $2;

-- name: claim_alert_watch
-- the project that has waited longest for a look; nobody else looks until the next one is due ($2)
update alert_watches set look_at = $2
where project_id = (select project_id from alert_watches where look_at <= $1 order by look_at limit 1 for update skip locked)
returning project_id;

-- name: lock_alert_watch
-- whether nobody else has begun a look since
select project_id from alert_watches where project_id = $1 and look_at = $2 for update;

-- name: remove_alert_watch
-- nobody wants to be told of problems of a project any more
delete from alert_watches where project_id = $1
    and not exists (select from alert_subscriptions s where s.project_id = $1 and s.kinds <> '{}');

-- name: known_alerts
-- the problems after the last look
select state from alerts where project_id = $1;

-- name: replace_alerts
-- the problems after this look
with gone as (delete from alerts where project_id = $1 and id <> all($2::text[]))
insert into alerts (project_id, id, state) select $1, id, state::json from unnest($2::text[], $3::text[]) as new (id, state)
on conflict (project_id, id) do update set state = excluded.state;

-- name: claim_report
-- the report that has waited longest, locked
select * from alert_subscriptions where report_at <= $1
order by report_at limit 1 for update skip locked;

-- name: postpone_report
-- when the next report is due
update alert_subscriptions set report_at = $3 where account_id = $1 and project_id = $2;
