-- Every delivery is rewritten once, when its outcome is recorded: half a page of room keeps that inside the page, and
-- the two indexes untouched. At 65 a third of the updates moved to other pages.
alter table deliveries set (fillfactor = 50);
