"""Airflow: a run for each certificate of Shelfdesk, and none without one. docs/how-to/hand-off.md says what it needs."""

import os
import subprocess
from datetime import datetime, timezone

from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.sdk import PokeReturnValue, Variable, dag, task

ACCOUNT = "default"
# All that the build reads.
STREAMS = ["helpdesk.tickets", "helpdesk.messages", "helpdesk.users"]
BUILD = "dbt build --profiles-dir ."
# The variable of Airflow that holds the id of the last certificate that a run took.
TAKEN = f"shelfdesk_taken_{ACCOUNT}"

CERTIFICATE = """
select h.certificate ->> 'id' as id, h.certificate #>> '{data,complete_through}' as complete_through
from sync.hand_offs h
where h.account_id = %s and h.issued_at is not null
  and jsonb_path_query_array(h.certificate, '$.data.streams[*].stream') @> to_jsonb(cast(%s as text[]))
  and h.id > coalesce((select b.id from sync.hand_offs b where b.certificate ->> 'id' = %s), 0)
order by h.id desc limit 1
"""

# A gap that was found since raises an error, which names it. So does a certificate that is gone or lacks a stream.
STILL_COMPLETE = """
select sync.require_complete(h.account_id, s ->> 'stream', cast(s ->> 'complete_through' as timestamptz),
  cast(s ->> 'open_rejects' as bigint), cast(s ->> 'complete_from' as timestamptz))
from (select cast(%s as text) as id, cast(%s as text[]) as streams) asked cross join unnest(asked.streams) needed
left join sync.hand_offs h on h.certificate ->> 'id' = asked.id
left join lateral jsonb_array_elements(h.certificate #> '{data,streams}') s on s ->> 'stream' = needed
"""


# The next run waits as soon as the last one has ended: a day of the calendar is no night.
@dag(schedule="@continuous", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False, max_active_runs=1)
def after_a_hand_off():
    @task.sensor(mode="reschedule", poke_interval=60, timeout=24 * 3600)
    def hand_off():
        asked = (ACCOUNT, STREAMS, Variable.get(TAKEN, default=None))
        found = PostgresHook("shelfdesk").get_first(CERTIFICATE, parameters=asked)
        return PokeReturnValue(is_done=found is not None, xcom_value=found and list(found))

    @task
    def build(handed):
        [id, through] = handed
        # First: a build that fails is not begun again each minute. Clear the task to repeat it.
        Variable.set(TAKEN, id)
        PostgresHook("shelfdesk").get_records(STILL_COMPLETE, parameters=(id, STREAMS))
        subprocess.run(BUILD, shell=True, check=True, env={**os.environ, "COMPLETE_THROUGH": through})

    build(hand_off())


after_a_hand_off()
