-- Secret keys may expire, and may be bound to networks. Processes of the release before ignore both, so a rule holds everywhere
-- once they have stopped. Null: the key does not expire, and works from everywhere.
alter table api_keys
    add column expires_at bigint,
    add column allowed_networks text[];
