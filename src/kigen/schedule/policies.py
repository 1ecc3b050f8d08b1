"""All policies by name, and the function that makes them."""

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
    """The policy does not exist, or one of its settings is invalid."""


@dataclass(frozen=True)
class PolicySettings:
    """Settings of all policies. Times are in microseconds."""

    phi_us: float = 100_000.0  # length of a slot; tuples of one slot share a deadline
    k: int = 1  # bts, bts1: basic batches per scheduling batch; ats, ats1: initial k
    kp: float = 1.0
    ki: float = 10.0
    reading: str = DEFAULT_SDMR_READING  # which SDMR the adaptivity controller uses
    window_us: float = 1_000_000.0  # window of the SDMR monitor
    rule: str = "edf"  # priority of the paper's policies: edf, muf, or fifo (oldest first, ignoring deadlines)
    fixed_us: float = 200_000.0  # first guess of a batch's fixed cost; rounds inside an epoch: about 2,000
    task_us: float | None = None  # first guess of what a task costs a batch; None: half of `fixed_us`, at most 1 ms
    doubt: float = 3.0  # relative error that the first guesses of tuple costs may have
    learning: bool = True  # the cost model learns from measurements
    overload: str = "product"  # what pack prefers in overload
    protected: float = PROTECTED_LOAD
    beta: float = 0.05  # mandf: load from which FIFO is used; admandf: initial value
    period_us: float = 500_000.0  # mandf, admandf, salvage: how often they measure
    ahead: float | None = None  # how far to look ahead: mandf, admandf 1 period, salvage 1.2 buffers
    length_us: float | None = None  # length of a round of slices; None: what its costs demand
    may_drop: bool = True  # False (--drain): nothing is dropped, not even under FIRM


def make_policy(name: str, tasks: Sequence[ScheduledTask], settings: PolicySettings | None = None) -> Policy:
    """Makes the policy of that name. The index of a task in the list is its number in events and decisions."""
    settings = settings or PolicySettings()
    if name not in POLICY_NAMES:
        raise PolicyError(f"there is no policy '{name}': write one of {', '.join(POLICY_NAMES)}")
    if settings.phi_us <= 0:
        raise PolicyError(f"phi must be above 0, got {settings.phi_us} us: write the length of a slot, such as 100ms")
    if not settings.may_drop:
        tasks = [replace(task, firm=False) for task in tasks]
    costs = CostModel(tasks, settings.fixed_us, settings.learning, settings.doubt, settings.task_us)
    if name == "all":
        return AdmitAll(name, tasks, costs, settings.phi_us)
    if name == "fifo":
        return FifoPacking(name, tasks, costs, settings.phi_us)
    if name == "edf":
        return EdfPacking(name, tasks, costs, settings.phi_us)
    if name == "pack":
        return Pack(name, tasks, costs, settings.phi_us, settings.overload, settings.protected)
    return _paper_policy(name, tasks, costs, settings)


def _paper_policy(
    name: str, tasks: Sequence[ScheduledTask], costs: CostModel, settings: PolicySettings
) -> BatchScheduler:
    if settings.rule == "fifo":  # the same mechanism with arrivals as deadlines, so nothing can be overdue
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
