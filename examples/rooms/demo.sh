#!/usr/bin/env bash
# The demo: make a day of data, run the app on it, show some results and draw the lifetimes.
set -eu
cd "$(dirname "$0")/../.."
out=out/demo
.venv/bin/python examples/rooms/make_data.py
printf '\n$ kigen run examples/rooms/rooms.cql --drain --output %s --report %s/report.json\n' "$out" "$out"
mkdir -p "$out"
.venv/bin/kigen run examples/rooms/rooms.cql --drain --output "$out" --report "$out/report.json"
for query in alarms hot silent report; do
  printf '\n%s/%s.csv\n' "$out" "$query"
  head -5 "$out/$query.csv" | sed 's/^/  /'
done
printf '\n$ kigen picture %s --out %s/lifetimes.png\n' "$out" "$out"
.venv/bin/kigen picture "$out" --out "$out/lifetimes.png" --query climate --query hot --query alarms --query wasted --query silent
