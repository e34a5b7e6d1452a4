-- Customer lists (decision 104): how long a store can still retry a failed payment, in place of since when it does. All
-- facets are made anew.
alter table customer_facets rename column billing_issue_at to billing_issue_until;
delete from customer_facets;
update facet_rolls set counted = 0, mark_id = null, mark_xid = null, marked_at = null;
