-- name: create_experiment
-- a new experiment with its variants and their weights
insert into experiments (project_id, id, name, variants, created_at) values ($1, $2, $3, $4, $5);

-- name: update_experiment
-- an experiment's variants with other offerings
update experiments set variants = $3 where project_id = $1 and id = $2;

-- name: list_experiments
-- a page of a project's experiments, oldest first; or the one with an id
select id, name, variants, created_at
from experiments
where project_id = $1 and {page_by_age of experiments};
