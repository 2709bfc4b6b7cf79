"""Airflow: waits each day for the certificate of a load that began on that day. docs/how-to/hand-off.md says what it needs."""

import os
import subprocess
from datetime import datetime, timezone

from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.sdk import PokeReturnValue, dag, task

ACCOUNT = "default"
BUILD = "dbt build --profiles-dir ."

CERTIFICATE = """
select h.certificate ->> 'id' as id, h.certificate #>> '{data,complete_through}' as complete_through
from sync.hand_offs h
where h.account_id = %s and h.issued_at is not null and h.started_at >= %s
order by h.id desc limit 1
"""

# A gap that was found since raises an error, which names it.
STILL_COMPLETE = """
select sync.require_complete(h.account_id, s ->> 'stream', cast(s ->> 'complete_through' as timestamptz),
  cast(s ->> 'open_rejects' as bigint), cast(s ->> 'complete_from' as timestamptz))
from sync.hand_offs h cross join jsonb_array_elements(h.certificate #> '{data,streams}') s
where h.certificate ->> 'id' = %s
"""


@dag(schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), catchup=False, max_active_runs=1)
def after_a_hand_off():
    @task.sensor(mode="reschedule", poke_interval=60, timeout=24 * 3600)
    def hand_off(logical_date=None):
        found = PostgresHook("shelfdesk").get_first(CERTIFICATE, parameters=(ACCOUNT, logical_date))
        return PokeReturnValue(is_done=found is not None, xcom_value=found and list(found))

    @task
    def build(handed):
        [id, through] = handed
        PostgresHook("shelfdesk").get_records(STILL_COMPLETE, parameters=(id,))
        subprocess.run(BUILD, shell=True, check=True, env={**os.environ, "COMPLETE_THROUGH": through})

    build(hand_off())


after_a_hand_off()
