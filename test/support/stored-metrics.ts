/** SQL: a row for each difference between metrics and turns as analysts see them, as they are stored, and as they are defined. */
export const differingMetrics = `
  with seen as (
    select to_jsonb(m) - '{number,customer_id,inbox_id,user_id,state,type,spam,trash,created_at,updated_at,deleted_at,messages_complete}'::text[] as metrics
    from analytics.ticket_metrics m),
  defined as (select to_jsonb(d) as metrics from internal.ticket_metrics_defined d),
  stored as (select to_jsonb(s) as metrics from internal.stored_ticket_metrics s)
  select d.metrics::text from (
    (table seen except table defined) union all (table defined except table seen) union all (table stored except table defined)) d
  union all
  select r::text from (
    (table internal.stored_reply_turns except table internal.reply_turns_defined)
    union all (table internal.reply_turns_defined except table internal.stored_reply_turns)) r`;
