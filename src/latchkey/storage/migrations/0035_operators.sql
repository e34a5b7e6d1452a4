-- Accounts that may see what concerns the whole deployment and not one project. Granted by `latchkey user operator` only
-- (decision 91).
create table operators (
    account_id text primary key references accounts (id) on delete cascade,
    granted_at bigint not null
);
