"""What tests use of the devices' inside."""

from seams import lazily

__getattr__ = lazily(
    {
        "procession": "devices",
        "procession.devices": "topology",
        "procession.devices.kinds": "KINDS",
        "procession.devices.seat": "Seat",
        "procession.devices.topology": (
            "Topology find_topology make_topology topology_from_metadata topology_from_variables"
        ),
    }
)
