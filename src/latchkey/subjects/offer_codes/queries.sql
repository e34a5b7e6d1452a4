-- name: list_offer_codes
-- the offer codes that were redeemed last, each with its use
-- A code for several periods is one use of its purchase. Copies that count for an erased customer are none (side 2).
select k.store || case when k.sandbox then '.sandbox.' else '.production.' end || k.offer_code as id, k.offer_code,
    k.store, case when k.sandbox then 'sandbox' else 'production' end as environment,
    array_agg(distinct k.product) as product_ids, count(distinct k.purchase) as uses,
    count(distinct k.customer_id) as customers, min(k.purchased_at) as first_used_at, max(k.purchased_at) as last_used_at
from chart_periods k
where k.project_id = $1 and k.offer_code is not null and k.side < 2
group by k.offer_code, k.store, k.sandbox
order by last_used_at desc, k.offer_code, k.store, k.sandbox
limit $2;

-- name: list_offer_code_uses
-- the latest purchases with an offer code, and by whom; nobody for an erased customer
select u.product, u.used_at, c.app_user_id
from (
    select k.purchase, min(k.product) as product, min(k.customer_id) as customer_id, min(k.purchased_at) as used_at
    from chart_periods k
    where k.project_id = $1 and k.offer_code = $2 and k.store = $3 and k.sandbox = $4 and k.side < 2
    group by k.purchase
    order by used_at desc
    limit $5
) as u
left join customers c on c.project_id = $1 and c.id = u.customer_id
order by u.used_at desc;
