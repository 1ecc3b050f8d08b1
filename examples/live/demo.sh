#!/usr/bin/env bash
# The live demo: a Kafka broker of its own, a producer of vehicles, the app, and a reader of its alarms.
# Ends after DEMO_SECONDS, with all that it started.
set -eu
cd "$(dirname "$0")/../.."
seconds=${DEMO_SECONDS:-30}
state=$(mktemp -d)
started=()
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${started[@]}"; do while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done; done
  rm -rf "$state"
}
trap finish EXIT
# The broker takes this port and the next one.
port=$(.venv/bin/python -c 'from kigen_lab.servers.ports import free_ports; print(free_ports(2)[0])')
started+=("$(bash scripts/kafka-broker.sh start "$state/broker" "$port")")
brokers=127.0.0.1:$port
printf 'A Kafka broker answers at %s, with its data in %s.\n' "$brokers" "$state/broker"
.venv/bin/python examples/live/produce.py "$brokers" &
started+=($!)
sleep 2
.venv/bin/python examples/live/alarms.py "$brokers" &
started+=($!)
printf '$ kigen run examples/live/vehicles.cql --set brokers=%s --duration %ss\n' "$brokers" "$seconds"
.venv/bin/kigen run examples/live/vehicles.cql --set "brokers=$brokers" --duration "${seconds}s" --checkpoint "$state/checkpoint"
printf '\nThe same from Python: .venv/bin/python examples/live/live.py\n'
