"""By hand: accept many connections, then send each a few bytes and await an answer of each.

broadcast.py N: prints the seconds of both. The peers are in two processes, and answer at once.
"""

import json
import os
import resource
import select
import socket
import sys
import time

SIZE = 200
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
n = int(sys.argv[1])


def peers(port, count, go):
    os.read(go, 1)
    epoll, socks = select.epoll(), {}
    for _ in range(count):
        sock = socket.create_connection(("127.0.0.1", port))
        socks[sock.fileno()] = sock
        epoll.register(sock.fileno(), select.EPOLLIN)
        sock.send(b"h" * SIZE)
    while socks:
        for fd, _ in epoll.poll():
            data = socks[fd].recv(4096)
            if data:
                socks[fd].send(data)
            else:
                socks.pop(fd).close()


listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
go_read, go_write = os.pipe()
for k in range(2):
    if os.fork() == 0:
        peers(listener.getsockname()[1], (n + k) // 2, go_read)
        os._exit(0)
epoll, socks, heard = select.epoll(), {}, 0
epoll.register(listener.fileno(), select.EPOLLIN)
begin = time.perf_counter()
os.write(go_write, b"go")
while heard < n:
    for fd, _ in epoll.poll():
        if fd == listener.fileno():
            sock, _ = listener.accept()
            socks[sock.fileno()] = sock
            epoll.register(sock.fileno(), select.EPOLLIN)
        else:
            heard += len(socks[fd].recv(4096)) // SIZE
joined = time.perf_counter()
for sock in socks.values():
    sock.send(b"x" * SIZE)
heard = 0
while heard < n:
    for fd, _ in epoll.poll():
        heard += len(socks[fd].recv(4096)) // SIZE
print(json.dumps([joined - begin, time.perf_counter() - joined]))
