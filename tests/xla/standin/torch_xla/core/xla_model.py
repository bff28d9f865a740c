import os

from torch_xla import write_down


def get_xla_supported_devices():
    write_down("get_xla_supported_devices")
    return [f"xla:{i}" for i in range(int(os.environ.get("XLA_DEVICES", "1")))]


def xla_device():
    write_down("xla_device")
    return "xla:0"


def set_replication(device, devices):
    write_down("set_replication", device, devices)
