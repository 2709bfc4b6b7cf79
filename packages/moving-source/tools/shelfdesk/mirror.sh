# Settings, then its commands. It needs nothing else.
export HELPDESK_BASE_URL="$SOURCE_URL" HELPDESK_TOKEN="$SOURCE_TOKEN" DATABASE_URL="$WAREHOUSE"
export HELPDESK_PERIOD_SECONDS="$PERIOD" HELPDESK_REQUESTS_PER_SECOND="$REQUESTS_PER_SECOND" HELPDESK_RESERVE=0
export HELPDESK_CREDITS="$CREDITS" SCHEDULE_FRESH='*/4 * * * * *'
export HELPDESK_LOOKBACK_SECONDS="$LOOKBACK"
program="${SHELFDESK:-node $PWD/../../../../src/main.ts}"
cd_state() { cd "$STATE" || exit 1; }
# A worker day and night. By itself it reads cheap lists again after a quarter of an hour, by a clock that no setting hastens: here
# `sweep` does so after 30 s.
work() {
  $program start &
  worker=$!
  trap 'kill $worker $pause 2>/dev/null; wait $worker; exit $?' TERM
  while kill -0 $worker; do
    $program sweep
    sleep 30 &
    pause=$!
    wait $pause
  done
}
case "$1-$STAYS" in
  version-*) echo "shelfdesk $($program --version) $(git rev-parse --short HEAD 2>/dev/null)" ;;
  nightly-*) cd_state; $program sweep && exec $program sync ;;
  again-yes) cd_state; work ;;
  *) cd_state; exec $program sync ;;
esac
