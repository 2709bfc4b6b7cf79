#!/bin/sh
# Redmine 5 of Debian, with all its data in FOLDER: sh start.sh FOLDER [PORT]. Ctrl-C stops it.
port=${2:-8701}
. "$(dirname "$0")/../with-postgres.sh"
export REDMINE_INSTANCE=shelfdesk BUNDLE_SILENCE_ROOT_WARNING=1 REDMINE_LANG=en RAILS_ENV=production SCHEMA=/dev/null

decline redmine instances/default/dbconfig-install
install redmine redmine-pgsql ruby-webrick postgresql curl
postgres

mkdir -p "$folder/config" "$folder/log" "$folder/tmp" "$folder/files"
cat >"$folder/config/database.yml" <<END
production: { adapter: postgresql, host: 127.0.0.1, port: $PGPORT, username: postgres, database: redmine }
END
[ -s "$folder/config/secret_key.txt" ] || od -An -N 16 -tx1 /dev/urandom | tr -d ' \n' >"$folder/config/secret_key.txt"
ln -sfn "$folder" /var/lib/redmine/shelfdesk
cd /usr/share/redmine
psql -lqt | grep -q '^ redmine ' || {
  createdb redmine
  { bundle install --local && bundle exec rake db:migrate && bundle exec rake redmine:load_default_data; } >"$folder/log/setup.log"
}
key=$(bundle exec rails runner '
  Setting.rest_api_enabled = 1
  admin = User.find_by_login("admin")
  admin.update_columns(must_change_passwd: false)
  IssueCustomField.find_or_create_by!(name: "Colour", field_format: "string") { |f| f.is_for_all = true; f.trackers = Tracker.all }
  puts admin.api_key' | tail -1)

# Puma writes no header Date, without which a reply proves nothing of its time.
rackup -r webrick -E production -s webrick -o 127.0.0.1 -p "$port" >"$folder/log/server.log" 2>&1 &
server=$!
ready "http://127.0.0.1:$port/"
umask 077
cat >"$folder/env" <<END
REDMINE_BASE_URL=http://127.0.0.1:$port
REDMINE_KEY=$key
REDMINE_DATABASE=postgres://postgres@127.0.0.1:$PGPORT/redmine
END
# The key stays in the file.
sed 's/_KEY=.*/_KEY=…/' "$folder/env"
wait "$server"
