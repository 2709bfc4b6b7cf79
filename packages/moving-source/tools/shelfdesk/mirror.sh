# Settings, then its commands. It needs nothing else.
export HELPDESK_BASE_URL="$SOURCE_URL" HELPDESK_TOKEN="$SOURCE_TOKEN" DATABASE_URL="$WAREHOUSE"
export HELPDESK_PERIOD_SECONDS="$PERIOD" HELPDESK_REQUESTS_PER_SECOND="$REQUESTS_PER_SECOND" HELPDESK_RESERVE=0
export HELPDESK_LOOKBACK_SECONDS="$LOOKBACK"
program="${SHELFDESK:-node $PWD/../../../../src/main.ts}"
case "$1" in
  version) echo "shelfdesk $($program --version) $(git rev-parse --short HEAD 2>/dev/null)" ;;
  nightly) cd "$STATE" && $program sweep && exec $program sync ;;
  *) cd "$STATE" && exec $program sync ;;
esac
