"""Changes of a query that readers follow, and the relation that they add up to."""

from kigen.connectors.changes_log.log import ChangesLog, EventGone
from kigen.connectors.changes_log.relation import Relation

__all__ = ["ChangesLog", "EventGone", "Relation"]
