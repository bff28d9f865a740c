"""What runs in a rank before, around and after its program; standard library only."""
