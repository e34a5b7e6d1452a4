-- name: load_catalog
-- a project's products with what they grant, its entitlements, whether its test store is open, and its offerings, as of
-- one version
select
    p.catalog_version, p.test_store, p.fees, p.sequence_floor, p.chart_attributes,
    exists (select from product_prices l where l.project_id = p.id) as lists_prices,
    array(select e.id from entitlements e where e.project_id = p.id) as entitlements,
    coalesce(
        (
            select json_agg(json_build_object(
                'id', r.id, 'display_name', r.display_name, 'kind', r.kind,
                'price_micros', r.price_micros, 'currency', r.currency,
                'duration', r.duration, 'trial_duration', r.trial_duration,
                'credits_code', r.credits_code, 'credits_amount', r.credits_amount, 'on_sale', r.deleted_at is null,
                'type', r.type,
                'apps', r.app_ids,
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
    ) as former,
    coalesce(
        (
            select json_agg(json_build_object(
                'id', o.id, 'lookup_key', o.lookup_key, 'display_name', o.display_name, 'metadata', o.metadata,
                'is_current', o.is_current,
                'packages', array(
                    select json_build_object(
                        'lookup_key', k.lookup_key,
                        'products', array(
                            select json_build_object('id', i.product_id, 'eligibility', i.eligibility_criteria)
                            from package_products i
                            where i.project_id = k.project_id and i.package_id = k.id
                            order by i.position, i.product_id
                        )
                    )
                    from packages k
                    where k.project_id = o.project_id and k.offering_id = o.id
                    order by k.position, k.id
                )
            ) order by o.created_at, o.id)
            from offerings o
            where o.project_id = p.id
        ),
        '[]'
    ) as offerings,
    coalesce(
        (
            select json_agg(json_build_object(
                'id', l.id, 'offering_id', l.offering_id, 'is_fallback', l.is_fallback
            ) order by l.id)
            from placements l
            where l.project_id = p.id
        ),
        '[]'
    ) as placements,
    coalesce(
        (
            select json_agg(json_build_object('experiment_id', x.id, 'variant_id', v ->> 'id', 'offering_id', v ->> 'offering_id'))
            from experiments x
            cross join lateral json_array_elements(x.variants) as v
            where x.project_id = p.id and v ->> 'offering_id' is not null
        ),
        '[]'
    ) as variants
from projects p
where p.id = $1;

-- name: project_settings
-- the settings of projects that a change needs, and the version of the exchange rates
select id, catalog_version, restore_behavior, (select version from exchange_rate_readings where id = 1) as rates_version
from projects where id = any($1::text[]);
