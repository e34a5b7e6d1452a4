-- When to ask the provider about a payment that it tells of to nobody; null if it need not be asked.
alter table checkouts add column check_at bigint;
