"""What a command line asks of a rendezvous: torchrun's options for one launcher on each machine."""

from __future__ import annotations

from typing import Any

from procession.cli.engine_request import EngineRequest
from procession.cli.nodes import FINDERS, LOOPBACK, endpoint, node_range
from procession.cli.option import MEETING
from procession.cli.settings import Settings
from procession.engines.rendezvous.terms import LEASE, PORT, Terms, parse_conf, terms_of_conf
from procession.values.errors import SpecError

C10D = "c10d"
NOT_TOGETHER = {
    "live": "cannot be where launchers on several machines are one job: their lines would tear the "
    "view; write --status SECONDS, or `procession attach` in another terminal of the host",
    "detach": "cannot be where launchers on several machines are one job: this one could not be "
    "found again on machines that do not host it; let nohup, setsid or systemd-run start it",
}


def read_rendezvous(s: Settings) -> EngineRequest | None:
    """Give what is asked of a rendezvous; None where none is asked for. Raises SpecError."""
    backend = s.text("rdzv_backend")
    if s.flag("standalone") or not (s.said("nnodes") and backend in (C10D, *FINDERS)):
        return None
    least, most = node_range(s)
    if most == 1:
        return None
    if backend != C10D:
        raise SpecError(
            f"{s.where('rdzv_backend')} {backend}: procession needs no server of etcd; write "
            "--rdzv-backend c10d --rdzv-endpoint HOST:PORT, with the address of one of the machines"
        )
    for name, why in NOT_TOGETHER.items():
        s.does_not_apply(name, why)
    s.keep_applicable(MEETING, "a rendezvous of several machines")
    if s.text("stdin") != "none":
        s.does_not_apply("stdin", "cannot be: ranks on other machines cannot read this input")
    if s.said("node_rank"):
        s.notes.append(
            f"{s.where('node_rank')} has no effect: c10d numbers the machines by their names"
        )
    host, port = _place(s)
    conf = terms_of_conf(parse_conf(s.text("rdzv_conf"), s.where("rdzv_conf")),
                         s.where("rdzv_conf"), static=False)  # fmt: skip
    fields: dict[str, Any] = s.fields("engine")
    lease = float(fields.pop("lease", conf.pop("lease", LEASE)))
    terms = Terms(
        host,
        port,
        s.text("rdzv_id") or "none",
        least,
        most,
        local_addr=s.text("local_addr").strip("[]"),
        lease=lease,
        **conf,
    )
    return EngineRequest(MEETING, most, lease=lease, terms=terms, **fields)


def _place(s: Settings) -> tuple[str, int]:
    """Give where the launchers meet."""
    if s.said("rdzv_endpoint"):
        if s.said("master_addr"):
            s.notes.append(f"{s.where('master_addr')} has no effect beside --rdzv-endpoint")
        return endpoint(s, PORT)
    s.notes.append(
        f"no --rdzv-endpoint: the launchers meet at {LOOPBACK}:{PORT}, which is another machine "
        "for each of them"
    )
    return LOOPBACK, PORT
