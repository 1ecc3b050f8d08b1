"""Decides which tasks go on in another lane, from the time that each task took in the last epoch.

Lanes are processors: the most loaded one misses deadlines first. Invariant: a move makes the larger of the two loads
smaller. Only lanes that differ by more than a tenth of the epoch are evened out, since a moved task loads its state
anew. Cost: a few passes over the tasks, once per epoch.
"""

from __future__ import annotations

LEAST_DIFFERENCE = 0.1  # of the epoch's length
_AT_ONCE = 3

Move = tuple[str, int, int]  # task, its lane, its next lane


def plan_moves(work_us: list[dict[str, float]], epoch_us: float) -> list[Move]:
    """Returns the moves after an epoch of this length. `work_us` has the time per task of each lane."""
    lanes = [dict(tasks) for tasks in work_us]
    moves: list[Move] = []
    while len(lanes) > 1 and len(moves) < _AT_ONCE:
        loads = [sum(tasks.values()) for tasks in lanes]
        full, empty = loads.index(max(loads)), loads.index(min(loads))
        difference = loads[full] - loads[empty]
        moved = {task for task, *_ in moves}
        possible = {
            task: took_us for task, took_us in lanes[full].items() if 0 < took_us < difference and task not in moved
        }
        if difference < LEAST_DIFFERENCE * epoch_us or len(lanes[full]) < 2 or not possible:
            break
        task = min(possible, key=lambda name: (abs(possible[name] - difference / 2), name))
        lanes[empty][task] = lanes[full].pop(task)
        moves.append((task, full, empty))
    return moves
