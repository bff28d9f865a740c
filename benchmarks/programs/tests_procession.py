"""Tests in ranks with procession's plugin."""

import pytest
from tests_body import COUNT, GLOO, RANKS, body


@pytest.mark.ranks(RANKS)
@pytest.mark.usefixtures(*["process_group"] * GLOO)
@pytest.mark.parametrize("number", range(COUNT))
def test_sum(rank, number):
    body(rank)
