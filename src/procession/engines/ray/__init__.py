"""Ray: nodes of a Ray cluster, with an actor for each node process."""

from procession.engines.ray.engine import RayEngine

__all__ = ["RayEngine"]
