-- People who use the dashboard: who they are, in which projects they are what, and what they did.

create table accounts (
    id text primary key,
    -- In lower case: one person, one spelling.
    email text not null unique,
    name text not null default '',
    -- Argon2id; null for who has not chosen a password yet, or signs in through OpenID Connect only.
    password_hash text,
    -- Issuer and subject, joined by a space, once they have signed in that way.
    openid text unique,
    created_at bigint not null
);

create table memberships (
    account_id text not null references accounts (id) on delete cascade,
    project_id text not null references projects (id) on delete cascade,
    role text not null check (role in ('owner', 'developer', 'support', 'viewer')),
    created_at bigint not null,
    primary key (account_id, project_id)
);
create index memberships_of_project on memberships (project_id, created_at);

-- Of the cookie only a hash is kept: who reads the database cannot become anybody.
create table sessions (
    token_hash bytea primary key,
    account_id text not null references accounts (id) on delete cascade,
    created_at bigint not null,
    last_seen_at bigint not null,
    address text not null,
    agent text not null,
    -- What to tell on the next page, and whether it is good news.
    notice text,
    notice_kind text
);
create index sessions_of_account on sessions (account_id);

-- A link with which somebody chooses a password; works once.
create table invitations (
    token_hash bytea primary key,
    account_id text not null references accounts (id) on delete cascade,
    created_at bigint not null,
    expires_at bigint not null
);

-- Wrong passwords of the last quarter of an hour. Unlogged: after a crash of the database guessing starts anew.
create unlogged table failed_sign_ins (
    subject text not null,
    at bigint not null
);
create index failed_sign_ins_of_subject on failed_sign_ins (subject, at);

-- Every change somebody made in the dashboard. Written before the change is made, and again with how it went: a crash
-- in between leaves 'begun', never nothing.
create table audit_entries (
    position bigint generated always as identity primary key,
    -- Null for what concerns an account and no project.
    project_id text,
    at bigint not null,
    account_id text,
    -- Their e-mail address at that time; the entry outlives the account.
    actor text not null,
    action text not null,
    subject text not null default '',
    outcome text not null default 'begun' check (outcome in ('begun', 'done', 'refused', 'failed')),
    detail json not null,
    address text not null default ''
);
create index audit_entries_listed on audit_entries (project_id, position);
create index audit_entries_of_account on audit_entries (account_id, position);
