-- A deleted product stays, so that those who hold it keep what it grants; it is shown and sold no more.
alter table products add column deleted_at bigint;
