#!/usr/bin/env bash
# Creates ./.venv with Kigen, the lab and everything that they need, and installs Java 17 if there is no Java.
# It is safe to run again: it does nothing when nothing has changed.
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/.kigen-setup
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1; then sudo "$@"; else return 1; fi
}

packages_ready=no
install_packages() { # installs the first of the named packages that the system has
  command -v apt-get >/dev/null 2>&1 || return 1
  if [ "$packages_ready" = no ]; then as_root apt-get update -qq >/dev/null 2>&1 || true; packages_ready=yes; fi
  for name in "$@"; do
    if DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq "$name" >/dev/null 2>&1; then say "installed $name"; return 0; fi
  done
  return 1
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  say "Kigen needs Python 3.11 or later, and '$python' is older or missing. Install it, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1
fi

if ! command -v java >/dev/null 2>&1 && [ ! -x "${JAVA_HOME:-/nonexistent}/bin/java" ]; then
  say "no java found; installing one"
  install_packages openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless || {
    say "Kigen needs Java 17, which could not be installed. Install OpenJDK 17 (Debian: apt-get install openjdk-17-jdk-headless) and run this again." >&2; exit 1; }
fi

if ! command -v initdb >/dev/null 2>&1 && ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
  if command -v apt-get >/dev/null 2>&1 && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    # The tests start servers of their own; the package need not.
    as_root mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null || true
  fi
  install_packages postgresql || say "no PostgreSQL server found: the tests of INTO postgres need one (Debian: apt-get install postgresql)"
fi

if ! command -v mosquitto >/dev/null 2>&1 && [ ! -x /usr/sbin/mosquitto ]; then
  install_packages mosquitto || say "no MQTT broker: the tests of FROM mqtt need mosquitto (Debian: apt-get install mosquitto)"
fi

wanted=$(cat pyproject.toml lab/pyproject.toml constraints.txt scripts/setup.sh scripts/kafka-broker.sh | cksum)
if [ -x .venv/bin/kigen ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

if [ ! -x .venv/bin/python ]; then
  say "creating .venv"
  "$python" -m venv .venv 2>/dev/null || { rm -rf .venv; install_packages python3-venv python3.11-venv && "$python" -m venv .venv; } || {
    say "could not create a virtual environment. Install python3-venv (Debian: apt-get install python3-venv) and run this again." >&2; exit 1; }
fi
say "installing packages (a few minutes the first time: Spark is large)"
.venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[delta,dev,docs,kafka,mqtt,nodes,picture,postgres,web]' -e 'lab[connectors]'
.venv/bin/python -m compileall -q src lab/src || true
bash scripts/kafka-broker.sh fetch || say "no Kafka for the tests: tests/kafka will fail, everything else works"
say "warming up Spark (once, half a minute)"
.venv/bin/kigen warm >/dev/null || say "no class archive was written: Spark starts more slowly, everything else works"
printf '%s' "$wanted" > "$stamp"
say "done: .venv/bin/kigen"
