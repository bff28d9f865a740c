"""Tests in the class that torch tests itself with."""

import torch.distributed as dist
from tests_body import COUNT, GLOO, RANKS, body
from torch.testing._internal.common_distributed import MultiProcessTestCase


class TestSum(MultiProcessTestCase):
    world_size = RANKS

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def check(self):
        if GLOO:
            dist.init_process_group(
                "gloo", init_method=f"file://{self.file_name}", rank=self.rank, world_size=RANKS
            )
        body(self.rank)
        if GLOO:
            dist.destroy_process_group()


def _test(self):
    self.check()


for number in range(COUNT):
    setattr(TestSum, f"test_sum_{number}", _test)
del number
