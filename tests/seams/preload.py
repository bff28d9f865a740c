"""What tests use of reading programs for what they import."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.preload": "find read safe source",
        "procession.preload.find": "Found ModuleKind Search",
        "procession.preload.read": "plan_function",
        "procession.preload.plan": "StoppedAt explain",
    }
)
