"""Settings of Python's garbage collector for a long-running program: fewer collections of long-lived objects."""

from __future__ import annotations

import gc

_YOUNG_MIN = 50_000
_spared = False


def spare_collections() -> None:
    """Freeze the present objects, and collect the youngest generation every 50,000 allocations instead of every 700.

    It works once per interpreter: a frozen cycle is never collected, and the objects of one start bound that. A
    collector that is off or has a higher threshold stays as it is. It gains 15 to 35 % of the throughput of a busy node
    or projector (``scripts/bench append``).
    """
    global _spared
    if _spared or not gc.isenabled():
        return
    _spared = True
    gc.freeze()
    young, *older = gc.get_threshold()
    if 0 < young < _YOUNG_MIN:
        gc.set_threshold(_YOUNG_MIN, *(max(one, 20) for one in older))
