-- For erasure: the ids of an erased customer are also in the bulk grants that it was part of.
create index concurrently bulk_grant_customers_named on bulk_grant_customers (app_user_id);
