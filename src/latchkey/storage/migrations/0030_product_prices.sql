-- Prices of a product beside its own: for a store, a country, a currency. '' is any store, and any country.
create table product_prices (
    project_id text not null,
    product_id text not null,
    store text not null,
    country text not null,
    currency text not null,
    price_micros bigint not null check (price_micros >= 0),
    updated_at bigint not null,
    primary key (project_id, product_id, store, country, currency),
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade
);
