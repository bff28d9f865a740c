"""What tests use of the plugin for tests in ranks."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.pytest.place": "place_of",
        "procession.pytest.verdict": "merged",
    }
)
