-- One of the five types of a product; null in rows of older releases, which knew only the kind.
alter table products add column type text check (
    type in ('subscription', 'one_time', 'consumable', 'non_consumable', 'non_renewing_subscription')
);

-- The apps in which a product is sold; no row means in every app. No foreign key to apps: with the last row of a product
-- gone, a product of a deleted app would be sold in all others.
create table product_apps (
    project_id text not null,
    product_id text not null,
    app_id text not null,
    added_at bigint not null,
    primary key (project_id, product_id, app_id),
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade
);

create table offerings (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    lookup_key text not null,
    display_name text not null,
    metadata json,
    is_current boolean not null default false,
    created_at bigint not null,
    primary key (project_id, id)
);
create unique index offerings_by_lookup_key on offerings (lookup_key, project_id);
create unique index offerings_current on offerings (project_id) where is_current;

create table packages (
    project_id text not null,
    id text not null,
    offering_id text not null,
    lookup_key text not null,
    display_name text not null,
    -- From 1, without gaps.
    position integer not null,
    created_at bigint not null,
    primary key (project_id, id),
    foreign key (project_id, offering_id) references offerings (project_id, id) on delete cascade
);
create unique index packages_by_lookup_key on packages (offering_id, project_id, lookup_key);

create table package_products (
    project_id text not null,
    package_id text not null,
    product_id text not null,
    eligibility_criteria text not null check (eligibility_criteria in ('all', 'google_sdk_lt_6', 'google_sdk_ge_6')),
    -- In the order in which they were attached.
    position integer not null,
    primary key (project_id, package_id, product_id),
    foreign key (project_id, package_id) references packages (project_id, id) on delete cascade,
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade
);
create index package_products_of_product on package_products (product_id, project_id);

create table placements (
    project_id text not null references projects (id) on delete cascade,
    id text not null,
    display_name text not null,
    -- Null: nothing is offered here.
    offering_id text,
    -- Its offering is also shown at places that have no placement of their own.
    is_fallback boolean not null default false,
    created_at bigint not null,
    primary key (project_id, id),
    foreign key (project_id, offering_id) references offerings (project_id, id)
);
create index placements_of_offering on placements (offering_id, project_id) where offering_id is not null;
create unique index placements_fallback on placements (project_id) where is_fallback;

-- The offering that one customer sees instead of the current one. `delete_customer` deletes it with the customer.
create table offering_overrides (
    project_id text not null,
    customer_id bigint not null,
    offering_id text not null,
    set_at bigint not null,
    primary key (project_id, customer_id),
    foreign key (project_id, offering_id) references offerings (project_id, id) on delete cascade
);
create index offering_overrides_of_offering on offering_overrides (offering_id, project_id);
