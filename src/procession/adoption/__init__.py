"""Programs that call torch's launchers get ours, without a change: `procession.adopt`.

Three functions of torch do all of its launching on one machine: `launch_agent` (below torchrun,
`torch.distributed.launch` and `elastic_launch`), elastic's `start_processes`, and
`torch.multiprocessing.start_processes` (below `spawn`). When torch's modules are imported, `hooks`
gives these functions other code, which calls ours: `elastic/agent.py`, `elastic/api.py` and
`multiprocessing/adopted.py`. `children` brings it into other interpreters, by
`startup/sitecustomize.py`.

May import the standard library only, and torch never: interpreters pass through here at their
start. Start reading at `adopt` in `adopting`, then at `hooks`.
"""
