"""Tasks of one step of srun: who they are to each other, by MUNGE."""

import os
import socket
import subprocess
import time

import pytest

from seams.jobs import EngineError
from seams.rendezvous import Munge

SECRET = b"s" * 32


def received(munge, data, job):
    """Give what a launcher learns from these bytes, which others follow."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data + b"what follows")
        found = munge.receive(ours, job)
        assert ours.recv(99) == b"what follows"
        return found


def test_a_credential_is_for_one_job_and_serves_all_launchers_of_it(slurm):
    munge = Munge()
    words = munge.seal(SECRET, "slurm_7.0")
    assert [received(munge, words, "slurm_7.0") for _ in range(3)] == [SECRET] * 3
    assert SECRET.hex().encode() not in words
    with pytest.raises(EngineError, match="a credential of another job"):
        received(munge, words, "slurm_7.1")
    with pytest.raises(EngineError):
        munge.open(b"MUNGE:garbage:", "slurm_7.0")
    with pytest.raises(EngineError, match="does not know MUNGE"):
        received(munge, b"SSH-2.0-OpenSSH_9.2", "slurm_7.0")


def test_an_old_credential_serves(slurm):
    """The host has made it at its start; launchers may come much later."""
    munge = Munge()
    line = ["munge", *munge._options, f"--restrict-uid={os.getuid()}", "--ttl=1"]
    made = subprocess.run(
        line, input=b'["procession rendezvous 2", "J", "0a"]', stdout=subprocess.PIPE, check=True
    )
    time.sleep(2.5)
    assert munge.open(made.stdout.strip(), "J") == b"\n"


def test_a_credential_of_another_user_is_refused(slurm):
    if os.getuid():
        pytest.skip("only root can act as another user")
    munge = Munge()
    line = ["munge", *munge._options]
    for option, why in (["--restrict-uid=0"], "of another user"), (["--restrict-uid=7"], "nauth"):
        made = subprocess.run(
            [*line, *option], input=b"{}", stdout=subprocess.PIPE, user=65534, check=True
        )
        with pytest.raises(EngineError, match=why):
            munge.open(made.stdout.strip(), "J")
