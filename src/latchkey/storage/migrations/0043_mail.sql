-- Mails that are to be sent. A row says what is wanted and no more: the link in the mail is made when it is sent, so no token is
-- stored here. Processes of the release before neither write nor read it.
create table outgoing_mails (
    id bigint generated always as identity primary key,
    kind text not null,
    -- As it was typed: whether there is such an account is found out when the mail is sent.
    email text not null,
    created_at bigint not null,
    -- When to try next, and after which time to give up.
    due_at bigint not null,
    expires_at bigint not null,
    attempts integer not null default 0
);
create index outgoing_mails_due on outgoing_mails (due_at);
