-- Finding a subscription by the id of any of its periods, and a promotional grant by its id.

-- Which subscription a period belongs to, where its id does not say so itself. A period of a purchase with several items
-- belongs to a subscription for each of them.
create table purchase_transactions (
    project_id text not null references projects (id) on delete cascade,
    store text not null,
    transaction_id text not null,
    store_id text not null,
    primary key (project_id, store, transaction_id, store_id)
);

insert into purchase_transactions (project_id, store, transaction_id, store_id)
select c.project_id, s ->> 'store', p ->> 'id', s ->> 'id'
from customers c
cross join lateral json_array_elements(c.state -> 'subscriptions') as s
cross join lateral json_array_elements(s -> 'periods') as p
where p ->> 'id' <> s ->> 'id' and rtrim(regexp_replace(p ->> 'id', '\.[^.]*$', ''), '.') <> s ->> 'id'
on conflict do nothing;

insert into purchase_owners (project_id, store, store_id, customer_id)
select c.project_id, g ->> 'store', g ->> 'id', c.id
from customers c
cross join lateral json_array_elements(c.state -> 'purchases') as g
where g ->> 'kind' = 'promotional'
on conflict do nothing;
