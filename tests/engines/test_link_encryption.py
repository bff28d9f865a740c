"""Links between a driver and its node processes: encrypted where both can, or it is said."""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
import tblib

import procession
from engines.localengine import LocalEngine
from engines.packed import pack
from procession import SpecError
from seams.system import free_port
from seams.wire import MAGIC, PART, Message, Wire, WireError, tunnel
from seams.wire import wire as wire_module
from support import run_program, write

KEY = b"k" * 32
CAN, CANNOT = b"\1", b"\0"
here_only = pytest.mark.skipif(not tunnel.possible(), reason="this Python has no TLS-PSK")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Give the search path of another Python: of what is installed here, only what suits any."""
    pure = tmp_path_factory.mktemp("pure")
    for package in (cloudpickle, tblib):
        folder = Path(package.__file__).parent
        (pure / folder.name).symlink_to(folder)
    tests, source = Path(__file__).parents[1], Path(procession.__file__).parents[1]
    return os.pathsep.join(map(str, (tests, source, pure)))


@pytest.fixture(scope="module")
def python(path):
    """Give a Python that can encrypt."""
    found = [shutil.which(f"python3.{n}") for n in (14, 13)]
    found += sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.1[3-9]*/bin/python")))
    code = "import sys; from procession.engines.tunnel import possible; sys.exit(not possible())"
    env = {**os.environ, "PYTHONPATH": path}
    for each in filter(None, found):
        if subprocess.run([each, "-c", code], env=env).returncode == 0:
            return each
    return pytest.skip("there is no Python that can encrypt")


def ends(driver=True, node=True):
    return Wire(KEY, "driver", encrypts=driver), Wire(KEY, "agent", encrypts=node)


def test_who_takes_the_ability_out_of_an_opening_is_found_out(monkeypatch):
    """Nobody in between can make two ends that can encrypt go without."""
    monkeypatch.setattr(wire_module, "Tunnel", None)  # it must not come that far
    driver, node = ends()
    at = len(MAGIC)
    for one, other in ((driver, node), (node, driver)):
        assert other.opening[at : at + 1] == CAN
        one.feed(other.opening[:at] + CANNOT + other.opening[at + 1 :])
    with pytest.raises(WireError, match="does not have the key"):
        driver.feed(pack(node, "hello", {}))


def test_one_end_that_cannot():
    driver, node = ends(driver=False)
    driver.feed(node.opening)
    node.feed(driver.opening)
    assert driver.feed(pack(node, "hello", {})) == [Message("hello", {})]
    assert driver.encryption == node.encryption == ""


@here_only
def test_both_can():
    driver, node = ends()
    driver.feed(node.opening)
    node.feed(driver.opening)
    while not (driver.ready and node.ready):
        driver.feed(node.out())
        node.feed(driver.out())
    sent = pack(node, "hello", {"host": "n1"})
    assert b"n1" not in sent
    assert driver.feed(sent) == [Message("hello", {"host": "n1"})]
    large = pack(node, "value", {}, b"secret " * PART)
    assert b"secret" not in large
    assert driver.feed(large) == [Message("value", {}, b"secret " * PART)]
    assert driver.encryption.startswith("TLSv1.3 ")


@pytest.mark.skipif(tunnel.possible(), reason="this Python can")
def test_required_where_it_cannot_be():
    engine = LocalEngine(1)
    with pytest.raises(SpecError, match=r"cannot be required: .* needs Python 3\.13"):
        procession.start_on(engine, ["true"], link_encryption="required")
    assert engine.processes == {}


def of_newer(python, path, folder, nodes, how):
    """Run a job whose driver has a newer Python, and its node processes another one."""
    script = write(
        folder / "main.py",
        f"""
        import procession
        from engines.otherpython import OtherPython
        said = set()
        job = procession.start_on(
            OtherPython(2, {nodes!r}), ["true"], link_encryption={how!r},
            on_event=lambda e: e.kind == "joined" and said.add(e.detail),
        )
        job.wait(60)
        print(*said, sep="\\n")
        """,
    )
    env = {**os.environ, "PYTHONPATH": path}
    return run_program(python, script, env=env, timeout=60)


def test_both_ends_newer_and_node_processes_that_cannot(python, path, tmp_path):
    done = of_newer(python, path, tmp_path, python, "required")
    assert done.stdout.startswith("the link is encrypted (TLSv1.3 "), done.stderr
    assert done.stdout.count("\n") == 1
    if tunnel.possible():
        return
    done = of_newer(python, path, tmp_path, sys.executable, "auto")
    assert done.stdout == "the link is authenticated, not encrypted\n", done.stderr
    assert "is not encrypted: its Python 3." in done.stderr
    done = of_newer(python, path, tmp_path, sys.executable, "required")
    assert done.returncode != 0
    assert "links must be encrypted (--link-encryption required)" in done.stderr
    assert "0 of 2 node processes came" in done.stderr


@pytest.mark.skipif(tunnel.possible(), reason="this Python can encrypt")
def test_a_launcher_may_join_only_where_links_are_encrypted(python, path):
    at = {"endpoint": f"127.0.0.1:{free_port()}", "join_timeout": 50}
    code = "import procession; procession.run(['true'], nproc=1, nnodes=2, "
    hosts, joins = ({**at, "is_host": each} for each in (True, False))
    host = f"{code} rendezvous={hosts})"
    other = f"{code} rendezvous={joins}, link_encryption='required')"
    options = {"env": {**os.environ, "PYTHONPATH": path}, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", host], **options) as first:
        done = subprocess.run([python, "-c", other], timeout=60, check=False, **options)
        first.terminate()
    assert done.returncode != 0
    assert "links must be encrypted (--link-encryption required)" in done.stderr
