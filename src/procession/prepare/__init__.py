"""What one run needs: its directory, streams and memory files, and the jobs for its forkserver.

May import preload, forkserver, output, worker, system and values. Start reading at `jobs`.
"""
