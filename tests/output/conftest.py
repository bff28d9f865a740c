"""What tests of consoles share."""

import pytest
from following import piped


@pytest.fixture
def console():
    with piped() as (console, viewer):
        console.viewer = viewer
        yield console
