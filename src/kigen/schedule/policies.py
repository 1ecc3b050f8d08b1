"""All policies by name, and the one way to make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kigen.schedule.adaptive.adaptivity_controller import DEFAULT_SDMR_READING, AdaptivityController
from kigen.schedule.adaptive.scheduler import BatchScheduler
from kigen.schedule.adaptive.sdmr_monitor import SdmrMonitor
from kigen.schedule.cost_model import CostModel
from kigen.schedule.packing.pack import PROTECTED_LOAD, Pack
from kigen.schedule.packing.simple_policies import AdmitAll, EdfPacking, FifoPacking
from kigen.schedule.policy_interface import Policy, ScheduledTask

POLICY_NAMES = ("all", "fifo", "edf", "taat", "bts", "bts1", "ats", "ats1", "pack")
DEFAULT_POLICY = "pack"


class PolicyError(ValueError):
    """No such policy, or a setting that makes no sense."""


@dataclass(frozen=True)
class PolicySettings:
    """What can be set. Times in microseconds."""

    phi_us: float = 100_000.0  # length of a slot: tuples of one slot share a deadline
    k: int = 1  # bts, bts1: basic batches in a scheduling batch; ats, ats1: where k begins
    kp: float = 1.0
    ki: float = 10.0
    reading: str = DEFAULT_SDMR_READING  # of the adaptivity controller
    window_us: float = 1_000_000.0  # of the SDMR monitor
    rule: str = "edf"  # priority of the paper's policies: edf, muf, or fifo: oldest first, whatever the deadlines
    fixed_us: float = 200_000.0  # first guess of a micro-batch's fixed cost
    doubt: float = 3.0  # how far the first guesses of tuple costs may be off, relative
    learning: bool = True  # the cost model follows what is measured
    overload: str = "product"  # what pack prefers when not everything can be done
    protected: float = PROTECTED_LOAD
    beta: float = 0.05  # mandf: from which load on FIFO is in force; admandf: where it begins
    period_us: float = 500_000.0  # how often they measure
    ahead: float = 1.0  # how many periods ahead they look for what will be lost
    length_us: float | None = (
        None  # of a batch of slices; None: five fixed costs, within what the shortest deadline allows
    )
    may_drop: bool = True  # False (--drain): nothing is dropped, FIRM or not


def make_policy(name: str, tasks: Sequence[ScheduledTask], settings: PolicySettings | None = None) -> Policy:
    """The policy of that name over these tasks; the index of a task in the list is its number in events and
    decisions."""
    settings = settings or PolicySettings()
    if name not in POLICY_NAMES:
        raise PolicyError(f"no policy '{name}': write one of {', '.join(POLICY_NAMES)}")
    if settings.phi_us <= 0:
        raise PolicyError(f"phi must be above 0, got {settings.phi_us} us: write the length of a slot, such as 100000")
    if not settings.may_drop:
        tasks = [replace(task, firm=False) for task in tasks]
    costs = CostModel(tasks, settings.fixed_us, settings.learning, settings.doubt)
    if name == "all":
        return AdmitAll(name, tasks, costs, settings.phi_us)
    if name == "fifo":
        return FifoPacking(name, tasks, costs, settings.phi_us)
    if name == "edf":
        return EdfPacking(name, tasks, costs, settings.phi_us)
    if name == "pack":
        return Pack(name, tasks, costs, settings.phi_us, settings.overload, settings.protected)
    return _of_the_paper(name, tasks, costs, settings)


def _of_the_paper(
    name: str, tasks: Sequence[ScheduledTask], costs: CostModel, settings: PolicySettings
) -> BatchScheduler:
    if settings.rule == "fifo":  # the same mechanism, with arrivals for deadlines; so nothing can be overdue
        tasks = [replace(task, deadline_us=0.0, firm=False) for task in tasks]
    monitor = SdmrMonitor(settings.window_us)
    controller = None
    if name.startswith("ats"):
        controller = AdaptivityController(monitor, settings.kp, settings.ki, settings.reading, settings.k)
    return BatchScheduler(
        name,
        tasks,
        costs,
        phi_us=0.0 if name == "taat" else settings.phi_us,
        k=1 if name == "taat" else settings.k,
        predictive=name.endswith("1"),
        controller=controller,
        monitor=monitor,
        rule=settings.rule,
    )
