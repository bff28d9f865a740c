"""What tests use of the connection between a driver and its agents."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines": "tunnel wire",
        "procession.engines.tunnel": "CHOICES Tunnel TunnelError",
        "procession.engines.wire": "LARGEST MAGIC Message PART Parcel SMALL Wire WireError",
    }
)
