-- Where in the project's feed a replay began, so that its progress can be told.
alter table replays add column first_position bigint not null default 0;
