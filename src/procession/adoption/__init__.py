"""Programs that call torch's launchers get ours, without a change: `procession.adopt`.

Two functions of torch start all of its ranks on one machine: elastic's `start_processes` (below
torchrun, `torch.distributed.launch` and `elastic_launch`) and that of `torch.multiprocessing`
(below `spawn`). When torch's modules are imported, `hooks` gives these functions other code, which
calls ours: `elastic/api.py` and `multiprocessing/adopted.py`. `startup/sitecustomize.py` brings it
into other interpreters.

May import the standard library only, and torch never: interpreters pass through here at their
start. Start reading at `adopt` in `adopting`, then at `hooks`.
"""
