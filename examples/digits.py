"""Learn handwritten digits on several ranks at once: data-parallel training in plain numpy.

    procession run -n 4 examples/digits.py                  # four ranks learn together
    procession run -n 4 examples/digits.py --fail-rank 2    # rank 2 finds a corrupt batch
    python examples/digits.py                               # alone, without a launcher

All ranks hold the same weights. Each works on its share of every batch, and the gradients of
all shares are added up before anybody takes a step: so the weights stay the same everywhere.
"""

import argparse
import hashlib
import os
import socket
import time

import numpy as np
from sklearn.datasets import load_digits

BATCH, RATE = 64, 0.5  # images in a batch (of all ranks together), learning rate
SHAPES = [(64, 64), (64,), (64, 10), (10,)]  # two layers: weights, bias, weights, bias
PATIENCE = 60  # seconds that a rank waits for another

# The launcher tells each rank who it is. Without a launcher, a rank is alone.
RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


class Star:
    """Connects all ranks: rank 0 listens at MASTER_ADDR:MASTER_PORT, the others call it."""

    def __init__(self):
        self.links = {}  # by rank: rank 0 is linked with every other rank, they with rank 0
        if WORLD_SIZE > 1:
            address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            self._listen(address) if RANK == 0 else self._call(address)

    def _listen(self, address):
        with socket.create_server(address, backlog=WORLD_SIZE) as server:  # sets SO_REUSEADDR
            server.settimeout(PATIENCE)
            try:
                while missing := set(range(1, WORLD_SIZE)) - set(self.links):
                    link = self._link(server.accept()[0])
                    if (caller := int.from_bytes(link.read(8), "big")) in missing:  # no stranger
                        self.links[caller] = link
            except TimeoutError:
                raise TimeoutError(f"ranks {missing} did not call {address}") from None

    def _call(self, address):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            sock = socket.socket()
            if sock.connect_ex(address) == 0 and sock.getsockname() != sock.getpeername():
                sock.sendall(RANK.to_bytes(8, "big"))
                self.links[0] = self._link(sock)
                return
            sock.close()  # rank 0 does not listen yet; or TCP connected the port to itself
            time.sleep(0.02)
        raise TimeoutError(f"rank 0 did not answer at {address} for {PATIENCE} s")

    def _link(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(PATIENCE)
        return sock.makefile("rwb")

    def _send(self, rank, data):
        self.links[rank].write(len(data).to_bytes(8, "big") + data)
        self.links[rank].flush()

    def _receive(self, rank):
        size = int.from_bytes(self.links[rank].read(8), "big")
        data = self.links[rank].read(size)
        if not data or len(data) < size:
            raise ConnectionError(f"rank {rank} closed its connection to rank {RANK}")
        return data

    def gather(self, data):
        """Rank 0 gets the bytes that every rank gives, by rank."""
        if RANK == 0:
            return [data, *(self._receive(rank) for rank in range(1, WORLD_SIZE))]
        self._send(0, data)
        return []

    def add(self, array):
        """Every rank gives an array and gets the sum, which rank 0 makes in the order of ranks."""
        parts = self.gather(array.tobytes())
        if RANK != 0:
            return np.frombuffer(self._receive(0))
        total = sum(np.frombuffer(part) for part in parts)
        for rank in self.links:
            self._send(rank, total.tobytes())
        return total


def split(flat):
    """Views of one flat array, one for each of SHAPES."""
    pieces = np.split(flat, np.cumsum([np.prod(shape) for shape in SHAPES])[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, SHAPES, strict=True)]


def forward(weights, images):
    w1, b1, w2, b2 = split(weights)
    hidden = np.maximum(images @ w1 + b1, 0)
    scores = hidden @ w2 + b2
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)  # the probability of each digit


def gradient(weights, images, labels):
    """This rank's part of a batch's mean gradient, as one flat array, and last of its mean loss."""
    hidden, errors = forward(weights, images)
    truth = np.arange(len(labels)), labels
    loss = -np.log(errors[truth]).sum()
    errors[truth] -= 1
    below = (errors @ split(weights)[2].T) * (hidden > 0)
    parts = images.T @ below, below.sum(axis=0), hidden.T @ errors, errors.sum(axis=0), loss
    return np.concatenate([np.ravel(part) for part in parts]) / BATCH


def load_batch(images, labels, rows):
    """This rank's share of the batch that consists of these rows."""
    rows = rows[RANK::WORLD_SIZE]
    corrupt = rows[np.isnan(images[rows]).any(axis=1)]
    if len(corrupt):
        raise ValueError(f"corrupt batch: NaN in the images of rows {corrupt.tolist()}")
    return images[rows], labels[rows]


def train(star, images, labels, options):
    random = np.random.default_rng(0)  # the same on every rank: first weights, order of rows
    weights = np.concatenate([random.normal(0, 0.1, np.prod(shape)) for shape in SHAPES])
    fail_epoch = options.fail_epoch or (options.epochs + 1) // 2
    for epoch in range(1, options.epochs + 1):
        if (RANK, epoch) == (options.fail_rank, fail_epoch):
            images[::10] = np.nan  # on purpose: spoils every tenth image of this rank's copy
        order, losses = random.permutation(len(images)), []
        for start in range(0, len(order) - BATCH + 1, BATCH):
            batch = load_batch(images, labels, order[start : start + BATCH])
            result = star.add(gradient(weights, *batch))
            weights -= RATE * result[:-1]
            losses.append(result[-1])
        if epoch == 1 or epoch % 5 == 0:
            print(f"epoch {epoch:2}  loss {np.mean(losses):.4f}", flush=True)
    return weights


def main():
    parser = argparse.ArgumentParser(description="Learn handwritten digits on several ranks.")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--fail-rank", type=int, help="a rank that fails on purpose")
    parser.add_argument("--fail-epoch", type=int, help="the epoch in which it fails (half-way)")
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(images))  # the same split on every rank
    images, labels = images[order] / 16, labels[order]

    star = Star()
    weights = train(star, images[:-360], labels[:-360], options)
    accuracy = (forward(weights, images[-360:])[1].argmax(axis=1) == labels[-360:]).mean()
    checksum = hashlib.sha256(weights.tobytes()).hexdigest()[:16]
    print(f"accuracy {accuracy:.4f}  weights {checksum}", flush=True)

    checksums = star.gather(checksum.encode())  # of all ranks, at rank 0
    if RANK == 0 and (accuracy < 0.93 or len(set(checksums)) > 1):
        raise SystemExit(f"accuracy {accuracy:.4f} (expected 0.93), checksums {checksums}")


if __name__ == "__main__":
    main()
