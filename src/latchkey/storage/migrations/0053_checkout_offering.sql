-- Charts by offering (decision 100): the offering that the page showed, as lookup key.
alter table checkouts add column offering text;
