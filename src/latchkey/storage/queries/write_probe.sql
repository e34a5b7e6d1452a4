-- name: write_probe
-- write a megabyte to a temporary file and one record to the write-ahead log: fails if the disk is full. The first checks
-- that tables can grow, the second that commits work; neither leaves anything behind. Returns whether the database is
-- read-only
with room as materialized (select repeat('x', 4000) as page from generate_series(1, 256))
select
    current_setting('transaction_read_only')::boolean, count(page), pg_logical_emit_message(true, 'latchkey', 'write probe')
from room;
