-- name: load_catalog
-- a project's products with what they grant, its entitlements, and whether its test store is open, as of one version
select
    p.catalog_version, p.test_store,
    array(select e.id from entitlements e where e.project_id = p.id) as entitlements,
    coalesce(
        (
            select json_agg(json_build_object(
                'id', r.id, 'display_name', r.display_name, 'kind', r.kind,
                'price_micros', r.price_micros, 'currency', r.currency,
                'duration', r.duration, 'trial_duration', r.trial_duration,
                'credits_code', r.credits_code, 'credits_amount', r.credits_amount, 'on_sale', r.deleted_at is null,
                'grants', array(
                    select g.entitlement_id from product_entitlements g
                    where g.project_id = r.project_id and g.product_id = r.id
                    order by g.entitlement_id
                )
            ))
            from products r
            where r.project_id = p.id
        ),
        '[]'
    ) as products,
    coalesce(
        (
            select json_agg(json_build_object(
                'product_id', f.product_id, 'entitlement_id', f.entitlement_id,
                'detached_at', f.detached_at, 'on_clocks', f.detached_on_clocks
            ))
            from former_product_entitlements f
            where f.project_id = p.id
        ),
        '[]'
    ) as former
from projects p
where p.id = $1;

-- name: project_settings
-- the settings of projects that a change needs
select id, catalog_version, restore_behavior from projects where id = any($1::text[]);
