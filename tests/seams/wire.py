"""What tests use of the connection between a driver and its node processes."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession.engines": "tunnel wire",
        "procession.engines.tunnel": "CHOICES",
        "procession.engines.wire": "MAGIC Message PART Parcel SMALL Wire WireError",
    }
)
