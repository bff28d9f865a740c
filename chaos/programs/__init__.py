"""What launchers and ranks run in trials."""
