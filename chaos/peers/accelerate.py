"""accelerate's launcher, which calls torchrun's."""

from __future__ import annotations

import dataclasses

from chaos.peers import torchrun
from chaos.peers.peer import RANK, Peer, beside, lacks_module

_PAGE = "https://huggingface.co/docs/accelerate/basic_tutorials/launch"

PEER = Peer(
    name="accelerate",
    shown="`accelerate launch`",
    # Without a GPU it starts several ranks only when it is told that there are some.
    argv=lambda work, ranks: [
        *(beside("accelerate"), "launch", "--multi_gpu", "--num_machines", "1"),
        *("--num_processes", str(ranks), "--mixed_precision", "no", "--dynamo_backend", "no"),
        *("--tee", "3", "--log_dir", str(work / "logs"), RANK),
    ],
    named=torchrun.named,
    lacks=lambda: lacks_module("accelerate", "accelerate") or torchrun.PEER.lacks(),
    env={"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3"},
    promises={
        kind: dataclasses.replace(
            promise,
            words=f"It runs torchrun, which promises: {promise.words}",
            source=_PAGE,
        )
        if promise.words
        else promise
        for kind, promise in torchrun.PROMISES.items()
    },
)
