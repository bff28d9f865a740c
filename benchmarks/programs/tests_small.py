"""Tests of 2 ranks that need nothing."""

import os

import pytest


@pytest.mark.ranks(2)
@pytest.mark.parametrize("number", range(int(os.environ["BENCHMARK_TESTS"])))
def test_ranks(rank, world_size, number):
    assert rank in range(world_size)
