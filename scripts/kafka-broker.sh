#!/usr/bin/env bash
# Starts a Kafka broker (KRaft, one node) for tests and demos: scripts/kafka-broker.sh start DIR PORT
# Prints its process id when it answers. `fetch` only downloads Kafka; a broker ends by a signal to its process.
# Kafka comes from Maven Central, once, into the cache folder; Maven is installed if it is missing.
set -eu
version=4.3.1
home=${XDG_CACHE_HOME:-$HOME/.cache}/kigen/kafka-$version

say() { printf 'kafka-broker: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null 2>&1; then sudo "$@"; else return 1; fi
}

fetch() {
  [ -f "$home/complete" ] && return 0
  if ! command -v mvn >/dev/null 2>&1; then
    say "installing maven"
    as_root apt-get update -qq >/dev/null 2>&1 || true
    DEBIAN_FRONTEND=noninteractive as_root apt-get install -y -qq maven >/dev/null || {
      say "Maven is needed to download Kafka and could not be installed: install it and run this again"; exit 1; }
  fi
  mkdir -p "$home"
  work=$(mktemp -d "$home/download.XXXXXX")
  cat > "$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kigen</groupId><artifactId>broker</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$version</version></dependency>
</dependencies></project>
POM
  say "downloading Kafka $version (54 MB, once)"
  mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/libs" -DincludeScope=runtime >&2
  rm -rf "$home/libs"
  mv "$work/libs" "$home/libs"
  rm -rf "$work"
  touch "$home/complete"
}

start() {
  folder=$1 port=$2
  java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  mkdir -p "$folder"
  if [ ! -f "$folder/server.properties" ]; then
    cat > "$folder/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$folder/data
num.partitions=2
offsets.topic.num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
controller.quorum.election.timeout.ms=300
controller.quorum.election.backoff.max.ms=100
controller.quorum.fetch.timeout.ms=1000
CONF
    "$java" -Xmx256m -XX:TieredStopAtLevel=1 -cp "$home/libs/*" kafka.tools.StorageTool format \
      -t kigenkigenkigenkigenkA -c "$folder/server.properties" > "$folder/format.log" 2>&1 || { cat "$folder/format.log" >&2; exit 1; }
  fi
  nohup "$java" -Xmx384m -Xms128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$home/libs/*" kafka.Kafka "$folder/server.properties" \
    > "$folder/broker.log" 2>&1 < /dev/null &
  pid=$!
  for _ in $(seq 300); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then echo "$pid"; return 0; fi
    kill -0 "$pid" 2>/dev/null || { tail -20 "$folder/broker.log" >&2; say "the broker did not start"; exit 1; }
    sleep 0.2
  done
  kill "$pid"; say "the broker does not answer"; exit 1
}

case "${1:-}" in
  fetch) fetch ;;
  start) [ $# = 3 ] || { say "usage: kafka-broker.sh start DIR PORT"; exit 2; }; fetch; start "$2" "$3" ;;
  *) say "usage: kafka-broker.sh fetch | start DIR PORT"; exit 2 ;;
esac
