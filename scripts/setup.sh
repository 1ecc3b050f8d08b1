#!/usr/bin/env bash
# Make ./.venv with Kigen and everything it needs, and see that a Java 17 (or later) is there. Safe to run again: does nothing when nothing changed.
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/.kigen-setup
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*"; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1; then sudo "$@"; else return 1; fi
}

packages_ready=no
install_packages() { # the first of the named packages that the system has
  command -v apt-get >/dev/null 2>&1 || return 1
  if [ "$packages_ready" = no ]; then as_root apt-get update -qq >/dev/null 2>&1 || true; packages_ready=yes; fi
  for name in "$@"; do
    if DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq "$name" >/dev/null 2>&1; then say "installed $name"; return 0; fi
  done
  return 1
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  say "Python 3.11 or later is needed; '$python' is not one. Install it, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1
fi

if ! command -v java >/dev/null 2>&1 && [ ! -x "${JAVA_HOME:-/nonexistent}/bin/java" ]; then
  say "no java found; installing one"
  install_packages openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless || {
    say "Java 17 is needed and could not be installed: install OpenJDK 17 (Debian: apt-get install openjdk-17-jdk-headless) and run this again." >&2; exit 1; }
fi

wanted=$(cat pyproject.toml lab/pyproject.toml constraints.txt scripts/setup.sh | cksum)
if [ -x .venv/bin/kigen ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then exit 0; fi

if [ ! -x .venv/bin/python ]; then
  say "making .venv"
  "$python" -m venv .venv 2>/dev/null || { rm -rf .venv; install_packages python3-venv python3.11-venv && "$python" -m venv .venv; } || {
    say "could not make a virtual environment: install python3-venv (Debian: apt-get install python3-venv) and run this again." >&2; exit 1; }
fi
say "installing packages (the first time takes a few minutes: Spark is large)"
.venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,docs,nodes,picture]' -e lab
.venv/bin/python -m compileall -q src lab/src || true
say "warming up Spark (half a minute, once)"
.venv/bin/kigen warm >/dev/null || say "Spark will start more slowly than it could; everything works"
printf '%s' "$wanted" > "$stamp"
say "done: .venv/bin/kigen"
