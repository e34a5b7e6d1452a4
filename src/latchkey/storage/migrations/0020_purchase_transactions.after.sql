-- What processes of the release before wrote meanwhile: they know neither table's new rows.
insert into purchase_transactions (project_id, store, transaction_id, store_id)
select c.project_id, s ->> 'store', p ->> 'id', s ->> 'id'
from customers c
cross join lateral json_array_elements(c.state -> 'subscriptions') as s
cross join lateral json_array_elements(s -> 'periods') as p
where p ->> 'id' <> s ->> 'id' and rtrim(regexp_replace(p ->> 'id', '\.[^.]*$', ''), '.') <> s ->> 'id'
on conflict do nothing;

insert into purchase_owners as o (project_id, store, store_id, customer_id)
select c.project_id, g ->> 'store', g ->> 'id', c.id
from customers c
cross join lateral json_array_elements(c.state -> 'purchases') as g
where g ->> 'kind' = 'promotional'
on conflict (project_id, store, store_id) do update
set customer_id = excluded.customer_id
where o.customer_id is distinct from excluded.customer_id;
