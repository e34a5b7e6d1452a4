-- New customers by environment, and trial conversion by the trials that have ended.

alter table figure_lines add column newcomers smallint not null default 0;
alter table figure_days add column newcomers bigint not null default 0;

-- Lines are made by new rules: those of everybody who bought in the sandbox or tried something are made again.
insert into figure_marks (project_id, customer_id)
select distinct project_id, customer_id from events where environment = 'SANDBOX' or type = 'TRIAL_STARTED';
