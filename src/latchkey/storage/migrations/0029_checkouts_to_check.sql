create index concurrently checkouts_to_check on checkouts (check_at) where check_at is not null;
