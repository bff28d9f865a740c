"""The metadata service of a TPU's machine, and what happens where there is none."""

import contextlib
import http.server
import socket
import threading

import pytest

from seams.devices import Topology, find_topology, topology
from seams.values import SpecError

TPU_ENV = "ACCELERATOR_TYPE: 'v4-16'\nTPU_PROCESS_BOUNDS: '1,1,2'\n" + (
    "TPU_CHIPS_PER_PROCESS_BOUNDS: '2,2,1'\nWORKER_ID: '1'\n"
)
ATTRIBUTES = {"tpu-env": TPU_ENV, "worker-network-endpoints": "a:1:10.0.0.1,b:2:10.0.0.2"}


@contextlib.contextmanager
def service(attributes):
    """Serve metadata on this machine; gives its address and the requests that came."""
    asked = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Metadata-Flavor")))
            body = attributes.get(self.path.rpartition("/")[2])
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write((body or "").encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", ["GCE_METADATA_HOST", "GCE_METADATA_IP"])
def test_it_is_asked(name):
    with service(ATTRIBUTES) as (address, asked):
        found = find_topology({name: address, "TPU_SKIP_MDS_QUERY": ""})
    assert found == Topology("v4-16", (2, 2, 2), 1, ("10.0.0.1", "10.0.0.2"))
    root = "/computeMetadata/v1/instance/attributes"
    assert asked == [
        (f"{root}/tpu-env", "Google"),
        (f"{root}/worker-network-endpoints", "Google"),
    ]


def test_it_is_not_asked_if_a_variable_says_so():
    with service(ATTRIBUTES) as (address, asked):
        told = {
            "GCE_METADATA_HOST": address,
            "TPU_SKIP_MDS_QUERY": "1",
            "TPU_ACCELERATOR_TYPE": "v4-8",
        }
        assert find_topology(told) == Topology("v4-8", (2, 2, 1))
    assert not asked


def refused(env):
    with pytest.raises(SpecError) as caught:
        find_topology(env)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_machine_that_is_no_tpu():
    with service({}) as (address, _):
        text = refused({"GCE_METADATA_HOST": address})
    assert "Not Found" in text
    assert "TPU_SKIP_MDS_QUERY=1" in text


def address_of(listener):
    return f"127.0.0.1:{listener.getsockname()[1]}"


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr(topology, "SECONDS", 0.2)
    with socket.socket() as listens:
        listens.bind(("127.0.0.1", 0))
        listens.listen()
        text = refused({"GCE_METADATA_HOST": address_of(listens)})
    assert "timed out" in text
