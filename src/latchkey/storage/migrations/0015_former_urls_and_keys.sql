-- Notification URLs that were rotated away before the last rotation and still work. The URL that the last rotation
-- replaced is in `store_connections`, where processes of the release before look for it.
create table former_notification_tokens (
    token_hash bytea primary key,
    project_id text not null,
    app_id text not null,
    until bigint not null,
    foreign key (project_id, app_id) references store_connections (project_id, app_id) on delete cascade
);
create index former_notification_tokens_of_app on former_notification_tokens (project_id, app_id);

-- The public keys of deleted apps, by SHA-256, with the app's store. Installed copies of the app still send receipts with
-- them, and a phone drops a purchase for good when its key is called unknown.
create table former_public_keys (
    hash bytea primary key,
    store text not null
);
