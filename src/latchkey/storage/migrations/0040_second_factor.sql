-- The second factor of dashboard accounts: time-based codes of an app, and recovery codes. Processes of the release before do not
-- ask for it.
create table second_factors (
    account_id text primary key references accounts (id) on delete cascade,
    -- Encrypted with LATCHKEY_SECRET_KEY.
    secret_sealed bytea not null,
    created_at bigint not null,
    -- Null until the first code was right: until then it is not asked for.
    confirmed_at bigint,
    -- The time step of the last code that was accepted. Only later ones are.
    last_step bigint not null default 0
);

-- Each works once: using one deletes it.
create table recovery_codes (
    account_id text not null references accounts (id) on delete cascade,
    code_hash bytea not null,
    primary key (account_id, code_hash)
);

-- Somebody whose password was right and whose code is still to come. It is no session and opens nothing.
create table half_sign_ins (
    token_hash bytea primary key,
    account_id text not null references accounts (id) on delete cascade,
    expires_at bigint not null
);
create index half_sign_ins_of_account on half_sign_ins (account_id);

alter table sessions
    -- How somebody signed in: 'openid', or null for a password or a link.
    add column through text;
