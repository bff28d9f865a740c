"""Tasks of one step of srun: who they are to each other, by MUNGE."""

import os
import subprocess

import pytest

from seams.jobs import EngineError
from seams.rendezvous import Munge


def sent(munge, job):
    """Give the secret of a connection, and the credential that is sent on it."""
    secret, words = munge.introduce(job)
    return secret, words[words.index(b"MUNGE:") :]


def test_a_credential_is_for_one_job_and_serves_once(slurm):
    """What was heard on the wire is of no use on another connection."""
    munge = Munge()
    secret, credential = sent(munge, "slurm_7.0")
    assert munge.admit(credential, "slurm_7.0") == secret
    with pytest.raises(EngineError, match="Replayed"):
        munge.admit(credential, "slurm_7.0")
    with pytest.raises(EngineError, match="a credential of another job"):
        munge.admit(sent(munge, "slurm_7.1")[1], "slurm_7.0")
    with pytest.raises(EngineError):
        munge.admit(b"MUNGE:garbage:", "slurm_7.0")


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
            munge.open(made.stdout.strip())
