"""The stacks of ranks: how they are taken, read, and shown in few lines."""
