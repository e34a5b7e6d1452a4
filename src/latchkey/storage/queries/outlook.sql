-- part: due_at_home
    (select min(n.next_at) from store_notifications n where n.status = 'waiting') as notification_at,
    (select min(c.check_at) from checkouts c where c.check_at is not null) as checkout_at,
    (select min(greatest(e.next_at, e.lease_until)) from exports e where e.next_at is not null) as export_at,
    (select min(b.lease_until) from bulk_grants b where b.state = 'running') as bulk_grant_at,
    (select min(m.due_at) from outgoing_mails m) as mail_at

-- part: due_in_projects
    (
        select c.next_due_at from customers c
        where c.test_clock_id is null and c.next_due_at is not null
        order by c.next_due_at
        limit 1
    ) as customer_at,
    (select min(h.acknowledge_at) from store_handles h where h.acknowledge_at is not null) as acknowledgement_at,
    (select min(h.check_at) from store_handles h where h.check_at is not null) as check_at,
    heads.position > lists.position or exists (select from facet_marks) as behind,
    heads.projects > lists.projects as unstarted,
    -- One of the two counts the keys of customers, and the other stands still; see next_customer_keys.
    coalesce(pg_sequence_last_value('customers_id_seq'), 0)
        + (select coalesce(sum(k.last), 0) from customer_keys k)::bigint as newest
from (select coalesce(sum(position), 0) as position, count(*) as projects from feeds) as heads,
    (select coalesce(sum(position), 0) as position, count(*) as projects from facet_rolls) as lists

-- name: look_out
-- when background work of each kind is next due, and whether customer lists are behind their feeds
-- The only statement of the clock role while nothing happens. Each instant is the first entry of an index. Sums, because
-- lists are never ahead of their feed.
select
    {due_at_home},
    {due_in_projects};

-- name: look_out_at_home
-- for a distributed database: the part of look_out that is about tables of the coordinator
select
    {due_at_home};

-- name: look_out_in_projects
-- for a distributed database: the part of look_out that is about the tables of projects
select
    {due_in_projects};
