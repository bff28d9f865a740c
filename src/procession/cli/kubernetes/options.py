"""The options of `procession manifest kubernetes`: one table.

Targets are fields of what is asked for ("wanted") and of its pods ("pod"), see `objects`.
"""

from __future__ import annotations

from procession.cli.kubernetes import readers
from procession.cli.kubernetes.objects import JOB, JOBSET
from procession.cli.readers import choice
from procession.cli.words import Option

OPTIONS = (
    Option(("--image",), "IMAGE", "the container's image",
        target="wanted.image"),
    Option(("--kind",), "KIND",
        "jobset (the default), or job, for clusters without JobSet: an Indexed Job with a"
        " headless service", words=("jobset", "job"),
        read=choice(JOBSET, JOB), target="wanted.kind"),
    Option(("--name",), "NAME", "of all objects (default: after PROGRAM)",
        target="wanted.name"),
    Option(("--namespace",), "NAME", "(default: that of kubectl)",
        target="wanted.namespace"),
    Option(("--nnodes",), "COUNT", "how many pods, each with N ranks (default: 1)",
        default="1", read=readers.FROM_1, target="wanted.nnodes"),
    Option(("--gpus",), "COUNT", "of each pod",
        read=readers.FROM_1),
    Option(("--gpu-resource",), "NAME", "what the cluster calls them (default: nvidia.com/gpu)",
        default="nvidia.com/gpu", read=readers.resource),
    Option(("--cpu",), "REQUEST[:LIMIT]",
        "CPUs of each pod, for example 16 or 500m (default: no limit)",
        read=readers.request),
    Option(("--memory",), "REQUEST[:LIMIT]",
        "of each pod, for example 64Gi (default: the limit is the request)",
        read=readers.request),
    Option(("--resource",), "NAME=QUANTITY",
        "another one of each pod, for example rdma/hca=8; may be given several times",
        several=True,
        read=readers.other_resource),
    Option(("--shm-size",), "SIZE",
        "of /dev/shm, for data loaders; none for the 64 MiB of container runtimes "
        "(default: as much as the pod's memory, of which it is a part)",
        read=readers.shared_memory, target="wanted.shm"),
    Option(("-x", "--env"), "NAME=VALUE",
        "a variable of the pods; may be given several times", several=True,
        read=readers.pair(readers.VARIABLE), target="wanted.env"),
    Option(("--service-account",), "NAME", "what pods may do in the cluster",
        target="wanted.service_account"),
    Option(("--label",), "NAME=VALUE",
        "of all objects and pods, for example kueue.x-k8s.io/queue-name=team; may be "
        "given several times", several=True,
        read=readers.pair(readers.KEY, readers.VALUE), target="wanted.labels"),
    Option(("--node-selector",), "NAME=VALUE",
        "a label that nodes must have; may be given several times", several=True,
        read=readers.pair(readers.KEY, readers.VALUE), target="wanted.node_selector"),
    Option(("--backoff-limit",), "COUNT",
        "how many failures of the program's own are followed by another start of all pods"
        " (jobset), or of the pod that failed (job) (default: 0)",
        default="0", read=readers.FROM_0, target="wanted.restarts"),
    Option(("--deadline",), "SECONDS", "from the start of the job to its end at the latest",
        read=readers.FROM_1, target="wanted.deadline"),
    Option(("--grace",), "SECONDS",
        "that ranks and procession have when a pod is taken away (default: 60)",
        default="60", read=readers.FROM_1, target="wanted.grace"),
    Option(("--port",), "PORT", "of pod 0, where ranks meet (default: 29500)",
        default="29500", read=readers.PORT, target="wanted.port"),
    Option(("--volume",), "SOURCE:PATH[:ro]",
        "what pods see at PATH: claim/NAME (a PersistentVolumeClaim), secret/NAME, "
        "configmap/NAME, empty, or a directory of the node; may be given several times",
        several=True),
    Option(("--env-from",), "SOURCE",
        "all variables of secret/NAME or configmap/NAME; may be given several times",
        several=True,
        read=readers.env_from, target="pod.env_from"),
    Option(("--env-secret",), "NAME=SECRET/KEY",
        "a variable whose value is one of a Secret; may be given several times",
        several=True,
        read=readers.env_secret, target="pod.env"),
    Option(("--image-pull-secret",), "NAME",
        "the Secret that the image's registry asks for; may be given several times",
        several=True,
        read=readers.name, target="pod.pull_secrets"),
    Option(("--toleration",), "KEY[=VALUE][:EFFECT]",
        "of nodes' taints, for example nvidia.com/gpu:NoSchedule; may be given several "
        "times", several=True,
        read=readers.toleration, target="pod.tolerations"),
    Option(("--priority-class",), "NAME", "which pods go first",
        read=readers.name, target="pod.priority_class"),
    Option(("--ttl",), "SECONDS",
        "from the end of the job until the cluster removes it (default: it stays)",
        read=readers.FROM_0, target="pod.ttl"),
    Option(("--restricted",), "",
        "have pods pass the Pod Security Standard of that name: no root, no privileges",
        target="pod.restricted"),
    Option(("--run-as",), "UID[:GID]",
        "the user and group of all processes, and the group of volumes (default: the "
        "image's)",
        read=readers.run_as, target="pod.*"),
    Option(("--patch",), "FILE",
        "changes to what is made, as YAML or JSON (- is standard input; see "
        "docs/kubernetes.md); may be given several times", several=True),
    Option(("--output",), "FORMAT",
        "yaml (the default, where PyYAML is there), or json", words=("yaml", "json"),
        read=choice("yaml", "json")),
)  # fmt: skip
