-- Do we keep our service targets?
-- Tickets of the last 13 weeks that are here, by inbox. Percent of those that are decided.
-- uncertain: nobody can tell, because the resolution or a time on hold was seen too late, or a time is missing.
-- A ticket that was resolved when the mirror first saw it is left out of resolutions, and one whose messages are not all here
-- of replies: only a quick one could be decided. Of next_reply each wait counts.
-- Without a target (`npx shelfdesk warehouse target set`) there is no row.
select f.metric, coalesce(i.inbox_name, 'no inbox') as inbox, count(*) as tickets,
  count(*) filter (where f.outcome = 'met') as met, count(*) filter (where f.outcome = 'missed') as missed,
  count(*) filter (where f.outcome = 'uncertain') as uncertain, count(*) filter (where f.outcome in ('running', 'at_risk')) as running,
  round(100.0 * count(*) filter (where f.outcome = 'met') / nullif(count(*) filter (where f.outcome in ('met', 'missed')), 0), 1)::float8 as percent_met
from analytics.fact_targets f
left join analytics.dim_inbox i on i.inbox_key = f.inbox_key
where f.created_at >= (select max(complete_through) - 91 * interval '24 hours' from analytics.completeness where source = 'helpdesk' and stream = 'tickets')
  and f.is_counted
group by f.metric, i.inbox_key, i.inbox_name
order by f.metric, inbox, i.inbox_key;
