-- name: begin_charts_rebuild
-- compute a project's sums anew: first the old ones are cleared
update chart_rolls set rebuilding = 'clearing', summed_to = null where project_id = $1;

-- name: clear_charts
-- delete the next rows of a project's sums; how many there were
with blocks as (
    delete from chart_blocks s
    where s.ctid = any(array(select k.ctid from chart_blocks k where k.project_id = $1 order by k.project_id limit $2))
    returning 1
),
tail as (
    delete from chart_tail s
    where s.ctid = any(array(select k.ctid from chart_tail k where k.project_id = $1 order by k.project_id limit $2))
    returning 1
),
ahead as (
    delete from chart_ahead s
    where s.ctid = any(array(select k.ctid from chart_ahead k where k.project_id = $1 order by k.project_id limit $2))
    returning 1
)
select (select count(*) from blocks) + (select count(*) from tail) + (select count(*) from ahead);

-- name: begin_charts_summing
-- the old sums are gone: add the facts of all subjects again, and process the feed and the customers from the beginning
update chart_rolls set rebuilding = 'summing', summed_to = '00000000-0000-0000-0000-000000000000', tail = 0, position = 0,
    counted = 0, mark_id = null, mark_xid = null, marked_at = null
where project_id = $1;

-- name: next_chart_subjects
-- the next subjects of a project and their facts, in the order of their keys
select s.subject, s.facts from chart_subjects s
where s.project_id = $1 and s.subject > $2
order by s.project_id, s.subject
limit $3;

-- name: finish_charts_rebuild
-- the facts of all subjects are in the sums
update chart_rolls set rebuilding = null, summed_to = null where project_id = $1;

-- name: choose_chart_attributes
-- the customer attributes that charts can be filtered and broken down by
update projects set chart_attributes = $2::text[] where id = $1;

-- name: look_at_customers_again
-- process a project's feed and its customers from the beginning
update chart_rolls set position = 0, counted = 0, mark_id = null, mark_xid = null, marked_at = null where project_id = $1;
