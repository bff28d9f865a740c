"""What tests use of the engine for Ray."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines.ray": "RayEngine cluster",
        "procession.engines.ray.actor": "as_started",
        "procession.engines.ray.cluster": "asked said",
    }
)
