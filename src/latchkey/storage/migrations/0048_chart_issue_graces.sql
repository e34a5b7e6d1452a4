-- Charts (decision 100): until when the store kept access open after a failed payment, if it did. A customer's state knows
-- it of the newest period only.
alter table chart_issues add column grace_ends_at bigint;
