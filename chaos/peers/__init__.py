"""Other launchers under the first faults of the table, each judged by what it promises itself.

A file for each launcher has a `PEER`. `peers.torchrun.fails` is the name of a row: CHAOS=peers runs
all, CHAOS=peers.torchrun those of one launcher. Nothing that a peer breaks is a failure of ours.
"""

from __future__ import annotations

from importlib import import_module

from chaos.peers.kinds import KINDS
from chaos.peers.peer import Peer
from chaos.peers.trial import strike_by
from chaos.row import SLOW, Row

PEERS = (
    "procession",
    "torchrun",
    "mp_spawn",
)


def peer_of(name: str) -> Peer:
    """Give a peer by its name. Raises ValueError for one that is not there."""
    if name not in PEERS:
        raise ValueError(f"there is no peer {name!r}; there are {', '.join(PEERS)}")
    peer = import_module(f"chaos.peers.{name}").PEER
    assert isinstance(peer, Peer)
    return peer


def names(wanted: str) -> list[str]:
    """Give the rows that a word names: peers, peers.PEER or peers.PEER.KIND."""
    _, *rest = wanted.split(".")
    if rest[1:] and (rest[1] not in KINDS or rest[2:]):
        raise ValueError(f"there is no row {wanted!r}; kinds are {', '.join(KINDS)}")
    peers = [rest[0]] if rest else PEERS
    return [
        f"peers.{peer_of(peer).name}.{kind}"
        for peer in peers
        for kind in KINDS
        if rest[1:] in ([], [kind])
    ]


def row_of(name: str) -> Row:
    """Give the row of a peer and a kind of fault."""
    _, peer_name, kind_name = name.split(".")
    peer, kind = peer_of(peer_name), KINDS[kind_name]
    return Row(
        fault=f"{peer.shown}: {kind.fault}",
        holds=peer.promises[kind_name].words,
        trials=2,
        full=10,
        short=1,
        strike=strike_by(peer, kind_name),
        limit=90 * SLOW,
        lacks=peer.lacks,
        around=peer.around,
    )
