"""The shape of a TPU slice: which chips, in which hosts, and which of the hosts this is.

Pure but for `find_topology`, which asks the metadata service of a TPU's machine; nothing else in
`devices` uses the network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from procession.values.base import is_count
from procession.values.errors import SpecError

Shape = tuple[int, ...]  # three counts

# How the chips of a slice lie, by generation and the number in the accelerator's type, which counts
# cores up to v5p, and chips for v5e and v6e. Only where there is one shape for the number.
_V5E = {
    1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1), 16: (4, 4, 1), 32: (4, 8, 1), 64: (8, 8, 1),
    128: (8, 16, 1), 256: (16, 16, 1),
}  # fmt: skip
SHAPES: dict[str, dict[int, Shape]] = {
    "v4": {8: (2, 2, 1), 16: (2, 2, 2), 32: (2, 2, 4), 64: (2, 4, 4), 128: (4, 4, 4)},
    "v5litepod": _V5E,
    "v6e": _V5E,
}  # fmt: skip

BOUNDS = (("TPU_HOST_BOUNDS", "TPU_CHIPS_PER_HOST_BOUNDS"),
          ("TPU_PROCESS_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS"))  # fmt: skip
METADATA_BOUNDS = (("TPU_PROCESS_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS"),
                   ("HOST_BOUNDS", "CHIPS_PER_HOST_BOUNDS"))  # fmt: skip

HOST = "metadata.google.internal"
ATTRIBUTES = "/computeMetadata/v1/instance/attributes"
SECONDS = 3.0  # the service is on the machine itself, or it is not there


@dataclass(frozen=True)
class Topology:
    """A TPU slice, seen from one of its hosts.

    accelerator: its type, such as `v4-16`. chips: how the chips of the whole slice lie.
    worker: the number of this host. hosts: the addresses of all, in order of their numbers.
    """

    accelerator: str
    chips: Shape
    worker: int = 0
    hosts: tuple[str, ...] = ("localhost",)

    @property
    def generation(self) -> int:
        """Which generation of TPU it is: 4 for `v4-16`, 5 for `v5litepod-8`."""
        return int(_type_of(self.accelerator)[2])

    @property
    def chips_per_host(self) -> int:
        """How many chips each host has."""
        return math.prod(self.chips) // len(self.hosts)


def find_topology(env: Mapping[str, str]) -> Topology:
    """Learn the topology: from variables if TPU_SKIP_MDS_QUERY is set, else from the service.

    GCE_METADATA_HOST or GCE_METADATA_IP name another address of it, as for Google's own libraries.
    Raises SpecError, within seconds, where the service does not answer.
    """
    import http.client

    if env.get("TPU_SKIP_MDS_QUERY"):
        return topology_from_variables(env)
    host = env.get("GCE_METADATA_HOST") or env.get("GCE_METADATA_IP") or HOST
    try:
        return topology_from_metadata(_get(host, "tpu-env"), _get(host, "worker-network-endpoints"))
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as e:
        raise SpecError(
            f"the TPU's topology cannot be learnt from http://{host}{ATTRIBUTES}: {e}; without a "
            "metadata service set TPU_SKIP_MDS_QUERY=1, TPU_ACCELERATOR_TYPE, TPU_WORKER_ID and "
            "TPU_WORKER_HOSTNAMES"
        ) from e


def _get(host: str, attribute: str) -> str:
    import http.client

    with closing(http.client.HTTPConnection(host, timeout=SECONDS)) as connection:
        headers = {"Metadata-Flavor": "Google"}
        connection.request("GET", f"{ATTRIBUTES}/{attribute}", headers=headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"{answer.status} {answer.reason}")
        return said.decode()


def topology_from_variables(env: Mapping[str, str]) -> Topology:
    """Read what variables say, as with TPU_SKIP_MDS_QUERY. Raises SpecError."""
    kind = env.get("TPU_ACCELERATOR_TYPE", "")
    if not kind:
        raise SpecError("the TPU's topology is not known: TPU_ACCELERATOR_TYPE is not set")
    hosts = [h.strip() for h in env.get("TPU_WORKER_HOSTNAMES", "").split(",") if h.strip()]
    worker = env.get("CLOUD_TPU_TASK_ID") or env.get("TPU_WORKER_ID") or "0"
    return make_topology(kind, _bounds(env, BOUNDS), worker, hosts)


def topology_from_metadata(tpu_env: str, endpoints: str) -> Topology:
    """Read the attributes `tpu-env` and `worker-network-endpoints`. Raises SpecError."""
    attributes: dict[str, str] = {}
    for line in tpu_env.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            attributes[name.strip()] = value.strip().strip("'\"")
    kind = attributes.get("ACCELERATOR_TYPE", "")
    if not kind:
        raise SpecError("the TPU's metadata does not tell its ACCELERATOR_TYPE")
    # Each is a host's name, or its name, an identity and its address.
    hosts = [e.split(":")[-1].strip() for e in endpoints.split(",") if e.strip()]
    bounds = _bounds(attributes, METADATA_BOUNDS)
    return make_topology(kind, bounds, attributes.get("WORKER_ID", "0"), hosts)


def make_topology(
    accelerator: str, bounds: tuple[Shape, Shape] | None, worker: str, hosts: list[str]
) -> Topology:
    """Put a topology together. Raises SpecError where the parts do not fit.

    bounds: how the hosts lie, and how the chips of a host; None: not known.
    """
    family, size, _ = _type_of(accelerator)
    chips = SHAPES.get(family, {}).get(int(size))
    if bounds is not None:
        chips = tuple(a * b for a, b in zip(*bounds, strict=True))
    if chips is None:
        raise SpecError(
            f"the shape of a TPU {accelerator} is not known: set TPU_HOST_BOUNDS and "
            "TPU_CHIPS_PER_HOST_BOUNDS"
        )
    named = tuple(hosts) if len(hosts) > 1 else ("localhost",)
    if not is_count(worker) or (len(named) > 1 and int(worker) >= len(named)):
        raise SpecError(f"TPU worker {worker!r}: the workers are 0 to {len(named) - 1}")
    if math.prod(chips) % len(named):
        raise SpecError(
            f"a TPU {accelerator} has {math.prod(chips)} chips, which {len(named)} hosts "
            "cannot share evenly"
        )
    return Topology(accelerator, chips, int(worker), named)


def _type_of(accelerator: str) -> tuple[str, str, str]:
    """Give family, size and generation: `v5litepod-16` is v5litepod, 16, 5. Raises SpecError."""
    match = re.fullmatch(r"((?:v|tpu)(\d+)[a-z]*)-(\d+)", accelerator, re.ASCII | re.IGNORECASE)
    if match is None:
        raise SpecError(f"{accelerator!r} is not a type of TPU, such as v4-16 or v5litepod-8")
    return match[1].lower(), match[3], match[2]


def _bounds(
    attributes: Mapping[str, str], names: tuple[tuple[str, str], ...]
) -> tuple[Shape, Shape] | None:
    for outer, inner in names:
        if attributes.get(outer) and attributes.get(inner):
            return read_shape(outer, attributes[outer]), read_shape(inner, attributes[inner])
    return None


def read_shape(name: str, text: str) -> Shape:
    """Read three counts such as `2,2,1`. Raises SpecError."""
    parts = [p.strip() for p in text.split(",")]
    if len(parts) != 3 or not all(is_count(p) and int(p) for p in parts):
        raise SpecError(f"{name}={text!r} is not three counts, such as 2,2,1")
    return tuple(map(int, parts))
