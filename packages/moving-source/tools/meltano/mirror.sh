# A project in the folder of the state, with the two programs as plugins that Meltano does not install.
bin=$1 tap=$PWD/../singer/tap.py
export TARGET_URL="postgresql+psycopg://${WAREHOUSE#*://}"
mkdir -p "$STATE/project"
cp meltano.yml "$STATE/project"
cd "$STATE/project" || exit 1
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "${bin%/bin}-tap/bin/python" "$tap" >tap-desk
printf '#!/bin/sh\nexec "%s" "$@"\n' "${bin%/bin}-target/bin/target-postgres" >target-postgres
chmod +x tap-desk target-postgres
case "$2" in
  nightly) exec "$bin/meltano" run tap-desk-night target-postgres ;;
  *) exec "$bin/meltano" run tap-desk target-postgres ;;
esac
