"""Asks the metadata service of a TPU's machine; nothing else in `devices` uses the network."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from contextlib import closing

from procession.devices.topology import (
    Topology,
    topology_from_metadata,
    topology_from_variables,
)
from procession.values.errors import SpecError

HOST = "metadata.google.internal"
ATTRIBUTES = "/computeMetadata/v1/instance/attributes"
SECONDS = 3.0  # the service is on the machine itself, or it is not there


def find_topology(env: Mapping[str, str]) -> Topology:
    """Learn the topology: from variables if TPU_SKIP_MDS_QUERY is set, else from the service.

    GCE_METADATA_HOST or GCE_METADATA_IP name another address of it, as for Google's own libraries.
    Raises SpecError, within seconds, where the service does not answer.
    """
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
    with closing(http.client.HTTPConnection(host, timeout=SECONDS)) as connection:
        headers = {"Metadata-Flavor": "Google"}
        connection.request("GET", f"{ATTRIBUTES}/{attribute}", headers=headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != http.client.OK:
            raise http.client.HTTPException(f"{answer.status} {answer.reason}")
        return said.decode()
