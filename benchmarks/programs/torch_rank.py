"""A rank that imports torch and prints its rank."""

import os

import torch

print(f"rank {os.environ['RANK']} has torch {torch.__version__}", flush=True)
