#!/bin/sh
# Request Tracker 5 of Debian, with all its data in FOLDER: sh start.sh FOLDER [PORT]. Ctrl-C stops it.
port=${2:-8711}
. "$(dirname "$0")/../with-postgres.sh"
export RT_SITE_CONFIG="$folder/config/RT_SiteConfig.pm" RT_SITE_CONFIG_DIR="$folder/config/more"

decline request-tracker5 dbconfig-install initialise-superuser handle-siteconfig-permissions
install request-tracker5 rt5-db-postgresql rt5-standalone starman postgresql curl
postgres

mkdir -p "$folder/config/more" "$folder/log"
cat >"$RT_SITE_CONFIG" <<END
Set(\$rtname, 'example'); Set(\$Organization, 'example.com'); Set(\$Timezone, 'UTC');
Set(\$WebDomain, '127.0.0.1'); Set(\$WebPort, $port);
Set(\$DatabaseType, 'Pg'); Set(\$DatabaseHost, '127.0.0.1'); Set(\$DatabasePort, $PGPORT); Set(\$DatabaseName, 'rt5');
Set(\$DatabaseAdmin, 'postgres'); Set(\$DatabaseUser, 'postgres'); Set(\$DatabasePassword, 'none');
Set(\$MailCommand, 'testfile'); Set(\$LogToSyslog, ''); Set(\$LogToSTDERR, 'warning');
\$RT::VarPath = '$folder'; \$RT::MasonDataDir = '$folder/mason'; 1;
END
psql -lqt | grep -q '^ rt5 ' || rt-setup-database-5 --action init --dba postgres --dba-password none >"$folder/log/setup.log" 2>&1
key=$(perl -I/usr/share/request-tracker5/lib -MRT=-init -MRT::AuthTokens -e '
  my $owner = RT::User->new(RT->SystemUser); $owner->Load("root");
  print((RT::AuthToken->new(RT->SystemUser)->Create(Owner => $owner->id, Description => "mirror"))[2]);')

/usr/share/request-tracker5/libexec/rt-server --server Starman --workers 4 --host 127.0.0.1 --port "$port" >"$folder/log/server.log" 2>&1 &
server=$!
ready "http://127.0.0.1:$port/REST/2.0/rt"
umask 077
cat >"$folder/env" <<END
RT_BASE_URL=http://127.0.0.1:$port/REST/2.0
RT_KEY=$key
RT_SITE_CONFIG=$RT_SITE_CONFIG
RT_SITE_CONFIG_DIR=$RT_SITE_CONFIG_DIR
RT_DATABASE=postgres://postgres@127.0.0.1:$PGPORT/rt5
END
# The key stays in the file.
sed 's/_KEY=.*/_KEY=…/' "$folder/env"
wait "$server"
