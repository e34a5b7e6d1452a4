-- customer_facets_bought has the products too.
drop index customer_facets_products;
