"""The stacks of ranks: how they are taken, read, and told in few lines."""
