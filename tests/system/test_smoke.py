import os

import procession


def test_values_by_rank():
    assert procession.run(lambda x: (int(os.environ["RANK"]), x), args=(7,), nproc=3) == [
        (0, 7),
        (1, 7),
        (2, 7),
    ]
