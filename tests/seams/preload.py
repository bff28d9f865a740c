"""What tests use of reading programs for what they import."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.preload": "find later read safe",
        "procession.preload.find": "Found Kind Search",
        "procession.preload.function": "plan_function",
        "procession.preload.plan": "StoppedAt explain",
    }
)
