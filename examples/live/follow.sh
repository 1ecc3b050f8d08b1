#!/usr/bin/env bash
# A producer appends vehicles to a file, and the app prints what is true now. Ends after DEMO_SECONDS.
set -eu
cd "$(dirname "$0")/../.."
seconds=${DEMO_SECONDS:-30}
rm -rf examples/live/data
.venv/bin/python examples/live/append.py &
producer=$!
trap 'kill "$producer" 2>/dev/null || true' EXIT
printf '$ kigen run examples/live/follow.cql --duration %ss\n' "$seconds"
.venv/bin/kigen run examples/live/follow.cql --duration "${seconds}s"
