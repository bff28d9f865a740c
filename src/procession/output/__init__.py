"""The output of ranks: followed, made whole lines, prefixed, shown."""
