"""Dagster: a run for each certificate of Shelfdesk, and none without one. docs/how-to/hand-off.md says what it needs."""

import os
import subprocess

import dagster as dg
import psycopg2

ACCOUNT = "default"
# All that the build reads.
STREAMS = ["helpdesk.tickets", "helpdesk.messages", "helpdesk.users"]
BUILD = "dbt build --profiles-dir ."

CERTIFICATE = """
select h.certificate ->> 'id' as id, h.certificate #>> '{data,complete_through}' as complete_through
from sync.hand_offs h
where h.account_id = %s and h.issued_at is not null
  and jsonb_path_query_array(h.certificate, '$.data.streams[*].stream') @> to_jsonb(cast(%s as text[]))
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


def ask(sql, *values):
    connection = psycopg2.connect(os.environ["SHELFDESK_URL"])
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchall()
    finally:
        connection.close()


class HandOff(dg.Config):
    id: str
    complete_through: str


@dg.op
def build(config: HandOff):
    ask(STILL_COMPLETE, config.id, STREAMS)
    env = {**os.environ, "COMPLETE_THROUGH": config.complete_through}
    subprocess.run(BUILD, shell=True, check=True, env=env)


@dg.job
def after_a_hand_off():
    build()


@dg.sensor(job=after_a_hand_off, minimum_interval_seconds=60, default_status=dg.DefaultSensorStatus.RUNNING)
def hand_off():
    found = ask(CERTIFICATE, ACCOUNT, STREAMS)
    if not found:
        return dg.SkipReason("there is no certificate yet")
    [(id, through)] = found
    # Dagster runs a key once.
    return dg.RunRequest(run_key=id, run_config=dg.RunConfig(ops={"build": HandOff(id=id, complete_through=through)}))


defs = dg.Definitions(jobs=[after_a_hand_off], sensors=[hand_off])
