-- The stored sums of retention are by duration in every cuboid, because retention is always of one duration. Those
-- without it go, and the sums are computed anew from the stored facts, in the background. No release has had them.
delete from chart_blocks;
update chart_rolls set rebuilding = 'clearing', summed_to = null;
