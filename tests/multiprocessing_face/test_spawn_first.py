"""The least that must work; see the other files of this folder."""

import pytest

import procession.multiprocessing as mp


def raise_in_one(i):
    if i == 1:
        raise ValueError("no such batch")


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_a_failure_is_raised(method):
    with pytest.raises(mp.ProcessRaisedException) as caught:
        mp.start_processes(raise_in_one, nprocs=2, start_method=method)
    assert caught.value.error_index == 1
