-- Charts (decision 100): a purchase of an erased customer may be given to another customer. Its payments up to this instant
-- stay those of the erased customer in the charts of customers, so that they count once.
alter table chart_subjects add column erased_to bigint;
