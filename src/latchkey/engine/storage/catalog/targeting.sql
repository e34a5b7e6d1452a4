-- name: list_targeting_rules
-- a page of a project's targeting rules in their order, after one; or the one with an id
select id, name, offering_id, conditions, is_active, position, revision, created_at
from targeting_rules
where project_id = $1 and ($4::text is null or id = $4)
    and ($2::text is null or position > (select r.position from targeting_rules r where r.project_id = $1 and r.id = $2))
order by position, id
limit $3;

-- name: create_targeting_rule
-- a new rule; nothing when the id is taken
insert into targeting_rules (project_id, id, name, offering_id, is_active, position, revision, created_at, conditions)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (project_id, id) do nothing;

-- name: update_targeting_rule
-- a rule as it is now
update targeting_rules
set name = $3, offering_id = $4, is_active = $5, position = $6, revision = $7, conditions = $8
where project_id = $1 and id = $2;

-- name: order_targeting_rules
-- the positions of rules, in the order of the ids
update targeting_rules r
set position = n.position
from unnest($2::text[]) with ordinality as n (id, position)
where r.project_id = $1 and r.id = n.id;

-- name: delete_targeting_rule
-- delete a rule
delete from targeting_rules where project_id = $1 and id = $2;
