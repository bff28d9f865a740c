"""What the agent imports before it forks: chosen in the launcher, without running anything.

`choose` asks the others: `read` (what a script or module will import), `function` (what a function
and its arguments need), `safe` (the list of modules that may be imported early) and `later` (what
listed packages will import when the program uses them). `agent.preload` performs the imports.

May import agent, system and values. Start reading at `choose`.
"""
