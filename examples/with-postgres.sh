# What the examples share: a folder for all data, packages of Debian, and a PostgreSQL of their own that ends with the script.
set -eu
[ "$(id -u)" = 0 ] || { echo "run this as root: it installs packages" >&2; exit 2; }
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [PORT]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
export TZ=UTC LC_ALL=C.UTF-8 PGHOST=127.0.0.1 PGUSER=postgres PGPORT="${PGPORT:-$((port + 1))}"
chmod 755 "$folder"

# install PACKAGE…: none starts a service, and none asks
install() {
  # A package that was removed, and not purged, is still listed.
  states=$(dpkg-query -W -f '${db:Status-Status}\n' "$@" 2>/dev/null) && ! echo "$states" | grep -qvx installed && return
  apt-get update -qq
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$folder/apt.log"
}

# decline PACKAGE QUESTION…: its installation does none of these. A package that was purged leaves templates of questions that
# debconf-set-selections takes no answer to, so each question is made anew.
decline() {
  for question in $(shift; echo "$@"); do
    printf 'Template: %s\nType: boolean\nDescription: %s\n' "$1/$question" "$question" >"$folder/question"
    printf 'x_loadtemplatefile %s %s\nset %s false\nfset %s seen true\n' "$folder/question" "$1" "$1/$question" "$1/$question" |
      debconf-communicate "$1" >/dev/null
  done
}

# postgres: makes a database cluster in the folder, and starts it
postgres() {
  bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
  data="$folder/postgres"
  [ -d "$data" ] || {
    command install -d -o postgres "$data"
    runuser -u postgres -- "$bin/initdb" -D "$data" -A trust -E UTF8 >/dev/null
  }
  runuser -u postgres -- "$bin/pg_ctl" -D "$data" -w -l "$data/log" \
    -o "-p $PGPORT -k $data -c listen_addresses=127.0.0.1 -c max_connections=200" start >/dev/null
  trap 'kill "${server:-}" 2>/dev/null || :; wait; runuser -u postgres -- "$bin/pg_ctl" -D "$data" -m fast stop >/dev/null' EXIT
  trap 'exit 0' INT TERM
}

# ready URL: waits until it answers
ready() {
  until curl -s -o /dev/null "$1"; do
    kill -0 "$server" || { echo "the server has ended: see $folder" >&2; exit 1; }
    sleep 0.5
  done
}
