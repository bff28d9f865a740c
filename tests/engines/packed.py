"""A message as the bytes of its frames."""

from seams.wire import Parcel


def pack(wire, kind, fields, blob=b""):
    parcel, found = Parcel(kind, fields, blob), []
    while not parcel.done:
        found += wire.frame(parcel)
    return b"".join(found)
