"""Writes rows to a topic in transactions, each of which records how many rows the output has in all.

The count is the offset of a consumer group of the output's own, committed inside the transaction. So after a kill it is
known which rows are in the topic, whether or not the run recorded it. A producer with the same transactional id that is
still alive somewhere is fenced when this one starts. Invariant: the committed rows of the topic are a prefix of the
rows that were given, each once. Cost: the rows of an open transaction are kept, to be sent again if it must be aborted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from kigen.connectors.kafka.client import Config, client_library, is_no_broker
from kigen.connectors.source_base import InputError

Messages = Callable[[], Iterator[list[tuple[bytes | None, bytes | None]]]]  # (key, value) pairs, in pieces
_WAIT_S, _WARN_S = 2.0, 10.0
_FIRST_S = 30.0
_STUCK_S = 10.0  # a call that should end after `_WAIT_S` and has not ended by then never will
_SETTINGS: Config = {
    "enable.idempotence": True,
    "linger.ms": 2,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 200,
    "partitioner": "murmur2_random",  # keys go to the same partitions as from Java
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 262_144,
}
_log = logging.getLogger("kigen")


class _Stuck(Exception):
    """A call of librdkafka does not return: it loses the answer if the coordinator is lost at a bad moment."""


class TransactionalOutput:
    """Rows in one topic. `name` is the transactional id and the group; `run_name` tells runs with one id apart."""

    def __init__(self, config: Config, owner: str, topic: str, name: str, run_name: str) -> None:
        self._library = client_library()
        self._config, self._owner, self._topic, self._name, self._run_name = config, owner, topic, name, run_name
        self._interrupted = threading.Event()
        self._producer: Any = None
        self._group: Any = None  # a consumer of the group, which never subscribes
        self._until: float | None = None  # when to give up waiting for a broker; None: never
        self._open: list[Messages] = []  # what the open transaction holds

    def interrupt(self) -> None:
        self._interrupted.set()

    def begin(self) -> int | None:
        """Connects at the start of a run; raises InputError if no broker answers for a while."""
        self._until = time.monotonic() + _FIRST_S
        found = self.connect()
        self._until = None
        return found

    def connect(self) -> int | None:
        """Fences other producers, and returns how many rows the topic has of this run; None if that is not known."""
        while True:
            try:
                return self._connect()
            except _Stuck:
                self._check_interrupted()
                self._open = []

    def _connect(self) -> int | None:
        self.close()
        own = {"transactional.id": self._name}
        self._producer = self._library.Producer({**_SETTINGS, **self._config, **own})
        self._group = self._library.Consumer({**self._config, "group.id": self._name, "enable.auto.commit": False})
        self._retry(lambda: self._producer.init_transactions(_WAIT_S))
        self._require_topic()
        found = self._retry(lambda: self._group.committed([self._place()], timeout=_WAIT_S))[0]
        return int(found.offset) if found.offset >= 0 and (found.metadata or "") == self._run_name else None

    def _place(self, rows: int | None = None) -> Any:
        if rows is None:
            return self._library.TopicPartition(self._topic, 0)
        return self._library.TopicPartition(self._topic, 0, rows, metadata=self._run_name)

    def _require_topic(self) -> None:
        until = time.monotonic() + 5.0  # a broker that creates topics by itself needs a moment
        while True:
            about = self._retry(lambda: self._producer.list_topics(self._topic, timeout=_WAIT_S)).topics[self._topic]
            if about.partitions:
                return
            if time.monotonic() > until:
                raise InputError(f"{self._owner}: topic '{self._topic}' does not exist: create it")
            time.sleep(0.2)

    def send(self, messages: Messages) -> None:
        """Adds messages to the open transaction; begins one if there is none."""
        if not self._open:
            self._begin()
        self._open.append(messages)
        with suppress(self._library.KafkaException):  # the commit sees the same error, and sends everything again
            self._produce(messages)

    def _begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except self._library.KafkaException as error:
            self._require_usable(error.args[0])
            self.connect()
            self._producer.begin_transaction()

    def _produce(self, messages: Messages) -> None:
        for piece in messages():
            for key, value in piece:
                while True:
                    try:
                        self._producer.produce(self._topic, value, key)
                        break
                    except BufferError:
                        self._producer.poll(0.05)
                        self._check_interrupted()
            self._producer.poll(0)

    def commit(self, rows: int) -> None:
        """Commits the open transaction, after which the topic has so many rows in all."""
        while self._open:
            try:
                self._retry(self._send_count(rows))
                self._retry(lambda: self._producer.commit_transaction(_WAIT_S))
                self._open = []
            except self._library.KafkaException as error:
                self._recover(error.args[0], rows)
            except _Stuck:
                again, self._open = self._open, []  # left to the broker, which aborts it when this one connects again
                self._send_again(again, rows)

    def _send_count(self, rows: int) -> Callable[[], Any]:
        member = self._group.consumer_group_metadata()
        return lambda: self._producer.send_offsets_to_transaction([self._place(rows)], member, _WAIT_S)

    def _recover(self, error: Any, rows: int) -> None:
        """Sends the open transaction again, unless it was committed after all."""
        self._require_usable(error)
        _log.warning("warning: %s: %s; the transaction is sent again", self._owner, error.str())
        again, self._open = self._open, []
        if not error.txn_requires_abort():
            self._send_again(again, rows)
            return
        try:
            self._retry(lambda: self._producer.abort_transaction(_WAIT_S))
        except (self._library.KafkaException, _Stuck):
            self._send_again(again, rows)
            return
        for messages in again:
            self.send(messages)

    def _send_again(self, again: list[Messages], rows: int) -> None:
        """Connects anew, and sends a transaction again unless it was committed before the error came."""
        if self.connect() != rows:
            for messages in again:
                self.send(messages)

    def _require_usable(self, error: Any) -> None:
        """Raises InputError for an error that another attempt would not mend."""
        codes = self._library.KafkaError
        if error.code() in (codes._FENCED, codes.PRODUCER_FENCED, codes.INVALID_PRODUCER_EPOCH):
            raise InputError(
                f"{self._owner}: another run writes with the transactional id '{self._name}' and has taken over. "
                "Stop one of them"
            )
        if error.code() in (codes.TOPIC_AUTHORIZATION_FAILED, codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED):
            raise InputError(f"{self._owner}: the broker refuses: {error.str()}")
        if error.code() in (codes.MSG_SIZE_TOO_LARGE, codes.INVALID_MSG_SIZE):
            raise InputError(f"{self._owner}: a message is too large for the topic: {error.str()}")

    def _retry(self, call: Callable[[], Any]) -> Any:
        """Repeats a call while the broker does not answer. Raises other errors, and InputError if the run must end."""
        began, warned = time.monotonic(), False
        while True:
            try:
                answer = _watched(call)
            except self._library.KafkaException as error:
                cause = error.args[0]
                if not (cause.retriable() or is_no_broker(cause)) or cause.fatal():
                    raise
                self._check_interrupted()
                if self._until is not None and time.monotonic() > self._until:
                    raise InputError(
                        f"{self._owner}: no broker answers for {_FIRST_S:g} s ({cause.str()}): check brokers, the "
                        "network and the options security, sasl_mechanism, ssl_ca"
                    ) from error
                if time.monotonic() - began > _WARN_S and not warned:
                    warned = True
                    _log.warning("warning: %s: no broker answers (%s); the run waits for it", self._owner, cause.str())
                time.sleep(0.02)
            else:
                if warned:
                    _log.warning("%s: the broker answers again", self._owner)
                return answer

    def _check_interrupted(self) -> None:
        if self._interrupted.is_set():
            raise InputError(f"{self._owner}: the run was stopped while it waited for a broker")

    def close(self) -> None:
        """Aborts what is not committed: an open transaction would hold up readers."""
        if self._producer is not None and self._open:
            producer = self._producer
            with suppress(self._library.KafkaException, _Stuck):  # the broker aborts it when its time is over
                _watched(lambda: producer.abort_transaction(_WAIT_S))
        if self._group is not None:
            self._group.close()
        self._producer, self._group, self._open = None, None, []


def _watched(call: Callable[[], Any]) -> Any:
    """Returns what the call returns, or raises what it raises; raises _Stuck if it never ends."""
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # raised again by the caller
            answers.put((None, error))

    threading.Thread(target=work, name="kafka call", daemon=True).start()
    try:
        value, error = answers.get(timeout=_STUCK_S)
    except queue.Empty:
        raise _Stuck from None
    if error is not None:
        raise error
    return value
