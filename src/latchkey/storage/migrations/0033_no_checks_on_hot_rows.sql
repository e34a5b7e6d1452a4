-- These tables get a row or more with every purchase. Each check of the foreign key was a statement of its own, which also
-- locked the project's row. Projects are never deleted, and whatever writes these rows has read the project.
alter table customers drop constraint customers_project_id_fkey;
alter table purchase_owners drop constraint purchase_owners_project_id_fkey;
alter table purchase_transactions drop constraint purchase_transactions_project_id_fkey;
alter table events drop constraint events_project_id_fkey;
alter table figure_lines drop constraint figure_lines_project_id_fkey;
alter table figure_days drop constraint figure_days_project_id_fkey;
alter table figure_marks drop constraint figure_marks_project_id_fkey;
