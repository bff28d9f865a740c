"""What is passed around, as plain values: spec, policies, environment, errors, exits, events.

Imports the standard library only. Start reading at `spec`, and at `base` for how values are made.
"""
