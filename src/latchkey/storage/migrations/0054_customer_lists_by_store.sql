-- Customer lists by a rare store (decision 104): one index finds both products and stores.
create index concurrently customer_facets_bought on customer_facets using gin (products, stores);
