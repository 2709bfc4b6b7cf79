-- What do the credits go into?
select d.month_start as month, c.source, sum(c.fresh)::int as fresh, sum(c.backfill)::int as history, sum(c.sweep)::int as sweep,
  sum(c.interactive)::int as interactive, sum(c.refused)::int as refused, round(sum(c.waited_seconds)::numeric(18, 6) / 60)::int as waited_minutes
from analytics.fact_credits c
join analytics.dim_date d using (date_key)
group by d.month_start, c.source
order by month, c.source;
