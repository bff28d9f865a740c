"""Asks the metadata service of a TPU's machine; nothing else in `devices` uses the network."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping

from procession.devices.topology import (
    Topology,
    topology_from_metadata,
    topology_from_variables,
)
from procession.values.errors import SpecError

HOST = "metadata.google.internal"
SECONDS = 3.0  # the service is on the machine itself, or it is not there


def find_topology(env: Mapping[str, str]) -> Topology:
    """Learn the topology: from variables if TPU_SKIP_MDS_QUERY is set, else from the service.

    GCE_METADATA_HOST or GCE_METADATA_IP name another address of it, as for Google's own libraries.
    Raises SpecError, within seconds, where the service does not answer.
    """
    if env.get("TPU_SKIP_MDS_QUERY"):
        return topology_from_variables(env)
    host = env.get("GCE_METADATA_HOST") or env.get("GCE_METADATA_IP") or HOST
    root = f"http://{host}/computeMetadata/v1/instance/attributes"
    try:
        return topology_from_metadata(
            _get(f"{root}/tpu-env"), _get(f"{root}/worker-network-endpoints")
        )
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as e:
        reason = e.reason if isinstance(e, urllib.error.URLError) else e
        if isinstance(e, urllib.error.HTTPError):
            e.close()  # it is the answer, too
        raise SpecError(
            f"the TPU's topology cannot be learnt from {root}: {reason}; without a metadata "
            "service set TPU_SKIP_MDS_QUERY=1, TPU_ACCELERATOR_TYPE, TPU_WORKER_ID and "
            "TPU_WORKER_HOSTNAMES"
        ) from e


def _get(url: str) -> str:
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})  # noqa: S310 - http
    # Without proxies: the service answers on this machine only.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=SECONDS) as answer:
        return answer.read().decode()
