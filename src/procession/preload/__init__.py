"""What the agent imports before it forks: chosen in the launcher, without running anything.

`choose` asks the others: `read` (what a script, a module or a function will import), `safe` (the
list of modules that may be imported early) and `later` (what listed packages will import when the
program uses them). `agent.preload` performs the imports.

May import agent, system and values. Start reading at `choose`.
"""
