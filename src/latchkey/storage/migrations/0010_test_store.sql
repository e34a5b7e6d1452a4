-- Whether the project's test store sells and renews. Open by default, as it always was.
alter table projects add column test_store text not null default 'open' check (test_store in ('open', 'closed'));
