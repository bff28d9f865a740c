"""What one run needs: its directory, streams and memory files, and the jobs for its agent.

May import preload, agent, output, worker, system and values. Start reading at `jobs`.
"""
