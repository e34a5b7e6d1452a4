-- Finding customers as people type: the beginning of any of their ids in any case, and of their e-mail address.
-- Letters are folded as in the C locale, on every machine alike.

-- One expression, so that a search walks its own project's ids and nobody else's; lookups by the whole id cannot mistake it
-- for the primary key. Ids hold no control characters, so the separator is in none of them.
create index aliases_searched on aliases ((project_id || E'\x1f' || lower(app_user_id collate "C")) collate "C");

-- The attribute $email of each customer that has one, in lower case. Beside the state and not an index into it: an index
-- over the state would be touched by every purchase, this row only when the address changes.
create table customer_emails (
    project_id text not null,
    email text collate "C" not null,
    customer_id bigint not null,
    primary key (project_id, email, customer_id)
);
create index customer_emails_of_customer on customer_emails (customer_id, project_id);

insert into customer_emails (project_id, email, customer_id)
select project_id, lower((state #>> '{attributes,$email,value}') collate "C"), id
from customers
where state #>> '{attributes,$email,value}' <> '';
