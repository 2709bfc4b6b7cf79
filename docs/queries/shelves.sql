-- What is on the shelves, and what would it cost?
select s.owner_id, s.title as shelf, count(*) as volumes, min(v.published_year) as oldest,
  round(sum(v.list_price) filter (where v.list_price_currency = 'EUR')::numeric(18, 6), 2)::float8 as list_price_eur
from analytics.fact_shelf_volumes x
join analytics.dim_shelf s using (shelf_key)
join analytics.dim_volume v using (volume_key)
where x.is_on_shelf and not s.is_deleted
group by s.shelf_key, s.owner_id, s.title
order by volumes desc, s.shelf_key collate "C"
limit 10;
