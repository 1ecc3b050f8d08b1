"""Draws random placement problems of a given size.

Depth, fan-out and sharing vary. Sources, sinks and some operators are pinned. Deadlines leave every output at least
`laxity` times the work of its longest path. The CPU load is `load` of all nodes. Invariant: the same seed gives the
same problem.
"""

from __future__ import annotations

import random

from kigen.placement.problem import Problem, ProblemLink, ProblemNode, ProblemOperator, ProblemOutput, ProblemStream


def random_problem(
    nodes: int,
    operators: int,
    seed: int,
    load: float = 0.5,
    laxity: float = 6.0,
    sharing: float = 0.2,
    period_us: float = 1_000_000.0,
    delay_us: float = 500.0,
) -> Problem:
    """Draws a problem on a full mesh of nodes.

    Queries have a depth of 2-6 and read 1-3 streams. With probability `sharing`, a query begins at a stream that
    another query made.
    """
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(nodes)]
    places = tuple(ProblemNode(n, rng.choice((0.5, 1.0, 1.0, 2.0))) for n in names)
    links = tuple(ProblemLink(a, b, delay_us * rng.uniform(0.5, 1.5), 125e6) for a in names for b in names if a != b)
    streams: list[ProblemStream] = []
    ops: list[ProblemOperator] = []
    ends: list[str] = []
    while len(ops) < operators:
        made = [o.output for o in ops]
        inputs = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            if made and rng.random() < sharing:
                inputs.append(rng.choice(made))
            else:
                name = f"source{len(streams)}"
                streams.append(
                    ProblemStream(
                        name, (rng.choice(names),), rng.randint(10, 200), period_us, rng.choice((40, 100, 300))
                    )
                )
                inputs.append(name)
        ends += _query(rng, ops, streams, inputs, operators)
    unread = {o.output for o in ops} - {s for o in ops for s in o.inputs}
    scale = _scale(tuple(ops), tuple(streams), places, load, period_us)
    done = tuple(
        ProblemOperator(
            o.name,
            o.inputs,
            o.output,
            o.cost_us * scale,
            o.selectivity,
            (rng.choice(names),) if rng.random() < 0.05 else (),
        )
        for o in ops
    )
    wanted = list(dict.fromkeys(ends + sorted(unread)))
    sinks = {s: rng.choice(names) for s in wanted}
    draft = Problem(
        places,
        links,
        tuple(streams),
        done,
        tuple(ProblemOutput(f"out{i}", s, sinks[s], 1e12) for i, s in enumerate(wanted)),
    )
    slowest = min(n.speed for n in places)
    outputs = tuple(
        ProblemOutput(
            o.name,
            o.stream,
            o.sink,
            20 * delay_us + laxity * rng.uniform(1, 3) * sum(draft.work_us[x] for x in draft.needed[o.name]) / slowest,
        )
        for o in draft.outputs
    )
    return Problem(places, links, tuple(streams), done, outputs)


def _query(
    rng: random.Random, ops: list[ProblemOperator], streams: list[ProblemStream], inputs: list[str], limit: int
) -> list[str]:
    """Draws one query: its inputs pass one operator each, meet, and continue in 1-3 branches.

    Returns the streams in which its branches end.
    """
    heads = []
    for stream in inputs:
        heads.append(_add(rng, ops, streams, (stream,), rng.uniform(0.1, 1.0)))
    trunk = heads[0] if len(heads) == 1 else _add(rng, ops, streams, tuple(heads), rng.uniform(0.2, 1.0))
    ends = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = trunk
        for _ in range(rng.randint(1, 4)):
            if len(ops) < limit:
                at = _add(rng, ops, streams, (at,), rng.uniform(0.3, 1.2))
        ends.append(at)
    return ends


def _add(
    rng: random.Random,
    ops: list[ProblemOperator],
    streams: list[ProblemStream],
    inputs: tuple[str, ...],
    selectivity: float,
) -> str:
    name = f"o{len(ops)}"
    streams.append(ProblemStream(f"s{len(ops)}", bytes_per_tuple=rng.choice((40, 100, 300))))
    ops.append(ProblemOperator(name, inputs, f"s{len(ops)}", rng.uniform(1, 20), selectivity))
    return f"s{len(ops) - 1}"


def _scale(
    ops: tuple[ProblemOperator, ...],
    streams: tuple[ProblemStream, ...],
    places: tuple[ProblemNode, ...],
    load: float,
    period_us: float,
) -> float:
    """Returns the factor by which costs must grow to reach the load."""
    unread = sorted({o.output for o in ops} - {s for o in ops for s in o.inputs})
    problem = Problem(places, (), streams, ops, tuple(ProblemOutput(s, s, places[0].name, 1.0) for s in unread))
    return load * period_us * sum(n.speed for n in places) / sum(problem.work_us.values())
