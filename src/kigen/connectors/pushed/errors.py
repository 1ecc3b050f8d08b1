"""Errors of pushed batches. Each one says what was required, what was found and what the sender can do."""

from __future__ import annotations


class PushRefused(ValueError):
    """A batch was not taken. Nothing of it is in the queue."""


class IngestFull(PushRefused):
    """The stream's BUFFER or its queue has no room now. The sender may try again after `retry_s` seconds."""

    def __init__(self, message: str, retry_s: int = 1) -> None:
        super().__init__(message, retry_s)
        self.message, self.retry_s = message, retry_s

    def __str__(self) -> str:
        return self.message


class BatchTooLarge(PushRefused):
    """A batch can never fit. The sender must cut it into smaller ones."""


class KeyReused(PushRefused):
    """The idempotency key belongs to another batch."""


class UnknownContentType(PushRefused):
    """The batch is in a format that a stream does not take."""
