-- What products granted until they were detached: whoever held it by then held it until that moment. Apart from what they
-- grant now, because every other query asks only for that.
create table former_product_entitlements (
    project_id text not null,
    product_id text not null,
    entitlement_id text not null,
    detached_at bigint not null,
    -- The time that each test clock of the project showed at that moment, by the clock's id.
    detached_on_clocks json not null,
    primary key (project_id, product_id, entitlement_id),
    foreign key (project_id, product_id) references products (project_id, id) on delete cascade,
    foreign key (project_id, entitlement_id) references entitlements (project_id, id) on delete cascade
);
