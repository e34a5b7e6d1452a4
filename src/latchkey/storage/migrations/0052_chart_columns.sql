-- Blocks of sums are stored column by column, so that a chart reads only what it needs of them. No release has had the
-- blocks that go. The sums are computed anew from the stored facts, in the background.
delete from chart_blocks;
-- What is where in the data; see storage/charts/layout.py.
alter table chart_blocks add column header bytea not null;
update chart_rolls set rebuilding = 'clearing', summed_to = null;
