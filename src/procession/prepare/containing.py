"""Where ranks live, if that is left to the machine that they start on: contain="auto"."""

from __future__ import annotations

import os

from procession.values.spec import Spec


def contained_here(spec: Spec) -> Spec:
    """Give a spec with what "auto" comes to here.

    That is a cgroup where this user may make one, unless something else was asked for that does not
    go with it: a limit of memory, `warm`, or forks of this process.
    """
    return spec.__replace__(contain="cgroup" if _may_have_cgroup(spec) else "forkserver")


def _may_have_cgroup(spec: Spec) -> bool:
    limited = spec.placement.memory_limit is not None
    if limited or spec.warm is not None or spec.start_method == "fork":
        return False
    from procession.system import killgroup
    from procession.system.cgroups import own_place
    from procession.system.identity import own_mark

    try:
        os.close(os.pidfd_open(os.getpid()))  # by which it watches its launcher
        return not killgroup.obstacle(own_place(), own_mark())
    except OSError:
        return False
