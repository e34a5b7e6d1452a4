-- name: create_offering
-- a new offering; nothing when the lookup key is taken
insert into offerings (project_id, id, display_name, metadata, is_current, lookup_key, created_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (lookup_key, project_id) do nothing;

-- name: list_offerings
-- a page of a project's offerings, oldest first; or the one with an id
select id, lookup_key, display_name, metadata, is_current, created_at
from offerings
where project_id = $1 and {page_by_age of offerings};

-- name: update_offering
-- an offering's new name and metadata, and whether it is the current one
update offerings set display_name = $3, metadata = $4, is_current = $5 where project_id = $1 and id = $2;

-- name: clear_current_offering
-- no offering is the current one; before another becomes it, because there is only one at a time
update offerings set is_current = false where project_id = $1 and is_current;

-- name: delete_offering
-- delete an offering with its packages, and the overrides that name it
delete from offerings where project_id = $1 and id = $2;

-- name: uses_of_offering
-- the placements, experiments and targeting rules that name an offering
select
    array(select l.id from placements l where l.project_id = $1 and l.offering_id = $2 order by l.id) as placements,
    array(
        select x.name from experiments x
        where x.project_id = $1
            and exists (select from json_array_elements(x.variants) as v where v ->> 'offering_id' = $2)
        order by x.created_at, x.id
    ) as experiments,
    array(
        select r.name from targeting_rules r where r.project_id = $1 and r.offering_id = $2 order by r.position, r.id
    ) as rules;

-- name: create_package
-- a new package; nothing when the offering has the lookup key already
insert into packages (project_id, id, offering_id, lookup_key, display_name, position, created_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (offering_id, project_id, lookup_key) do nothing;

-- name: list_packages
-- every package of several offerings, in order; or the one with an id
select id, offering_id, lookup_key, display_name, position, created_at
from packages
where project_id = $1 and (offering_id = any($2::text[]) or id = $3)
order by position, id;

-- name: rename_package
-- a package's new name
update packages set display_name = $3 where project_id = $1 and id = $2;

-- name: order_packages
-- the positions of packages, in the order of the ids
update packages k
set position = n.position
from unnest($2::text[]) with ordinality as n (id, position)
where k.project_id = $1 and k.id = n.id and k.position <> n.position;

-- name: delete_package
-- delete a package; its products stay
delete from packages where project_id = $1 and id = $2;

-- name: products_of_packages
-- the products of several packages, also deleted ones, in the order of attaching
select i.package_id, i.eligibility_criteria,
    {product_columns}
from package_products i
join products p on p.project_id = i.project_id and p.id = i.product_id
where i.project_id = $1 and i.package_id = any($2::text[])
order by i.package_id, i.position, p.id;

-- name: attach_to_package
-- attach products to a package, after those it has; one that is attached already gets the new criteria
insert into package_products (project_id, package_id, product_id, eligibility_criteria, position)
select $1, $2, n.product_id, n.criteria, n.place + (
    select coalesce(max(i.position), 0) from package_products i where i.project_id = $1 and i.package_id = $2
)
from unnest($3::text[], $4::text[]) with ordinality as n (product_id, criteria, place)
on conflict (project_id, package_id, product_id) do update set eligibility_criteria = excluded.eligibility_criteria;

-- name: detach_from_package
-- detach products from a package
delete from package_products where project_id = $1 and package_id = $2 and product_id = any($3::text[]);

-- name: offering_choice
-- the version of the catalog, with what one customer's choice of offering depends on
select p.catalog_version, v.offering_id, {read_row}
from projects p
left join lateral (
    select a.project_id, a.customer_id from aliases a
    where a.project_id = p.id and a.app_user_id = $2
    limit 1
) as a on true
-- By the project of the alias: by $1, a plan made while the table was empty would scan the customers of the project.
left join customers c on c.project_id = a.project_id and c.id = a.customer_id
left join offering_overrides v on v.project_id = a.project_id and v.customer_id = a.customer_id
where p.id = $1;

-- name: offering_choices
-- what the choice of offering depends on, for these customers
select v.offering_id, {read_row}
from customers c
left join offering_overrides v on v.project_id = c.project_id and v.customer_id = c.id
where c.project_id = $1 and c.id = any($2::bigint[]);

-- name: create_placement
-- a new placement; nothing when the id is taken
insert into placements (project_id, id, display_name, offering_id, is_fallback, created_at)
values ($1, $2, $3, $4, $5, $6)
on conflict (project_id, id) do nothing;

-- name: list_placements
-- a page of a project's placements, by id; or the one with an id
select id, display_name, offering_id, is_fallback, created_at
from placements
where project_id = $1 and {page by id};

-- name: update_placement
-- a placement's new name and offering, and whether it is the fallback
update placements set display_name = $3, offering_id = $4, is_fallback = $5 where project_id = $1 and id = $2;

-- name: clear_fallback_placement
-- no placement is the fallback; before another becomes it, because there is only one at a time
update placements set is_fallback = false where project_id = $1 and is_fallback;

-- name: delete_placement
-- delete a placement
delete from placements where project_id = $1 and id = $2;

-- name: override_offering
-- assign an offering to a customer; the lock keeps the customer from being erased meanwhile. Nothing without a customer
insert into offering_overrides (project_id, customer_id, offering_id)
select c.project_id, c.id, $3
from (select project_id, customer_id from aliases where project_id = $1 and app_user_id = $2 limit 1) as a
join customers c on c.project_id = a.project_id and c.id = a.customer_id
for no key update of c
on conflict (project_id, customer_id) do update set offering_id = excluded.offering_id
returning customer_id;

-- name: clear_offering_override
-- let a customer see the current offering again
delete from offering_overrides v
using aliases a
where v.project_id = $1 and a.project_id = $1 and a.app_user_id = $2 and v.customer_id = a.customer_id;
