"""The objects by which Kubernetes runs a group on several machines, as plain data. Pure.

One pod is one machine, with `procession run` in it. The pods are those of an Indexed Job: each has
a stable name, and finds its number in JOB_COMPLETION_INDEX. Ranks meet in pod 0. A headless service
gives the names addresses, also before the pods are ready, since ranks meet before that.

Who decides what a failure means:

- A pod that is taken away (preempted, evicted, drained) has the condition DisruptionTarget. That is
  nobody's fault: it is not counted.
- Exit code 78 says that it is of no use to start again: nothing does.
- Every other end with a failure is the program's own, and is counted.

A Job can replace single pods only. A JobSet fails its Job instead, and makes it anew as a whole,
which is what ranks need that wait for each other. Both rules end in the same reason there
(PodFailurePolicy), and are told apart by the message, which needs JobSet 0.10.

Sources: https://kubernetes.io/docs/concepts/workloads/controllers/job/ (pod failure policy, Indexed
Jobs and their host names), https://jobset.sigs.k8s.io/docs/tasks/failure_policy/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from procession.values.base import Value

Object = dict[str, Any]

JOBSET, JOB = "jobset", "job"
NODE = "node"  # what a JobSet calls its one Job
CONTAINER = "ranks"
NEVER_AGAIN = 78  # as `policy.Restart.never`
SLACK = 5  # seconds between the end of procession's time and SIGKILL for the pod
LONGEST_NAME = 63  # of a host
SHM = "/dev/shm"  # noqa: S108 - where shared memory is, by POSIX


class PodFields(Value):
    """What pods may do, and what they are given, mostly in Kubernetes' own words.

    volumes, mounts, env_from, env, tolerations: as in the manifest. pull_secrets: names. ttl:
    seconds that the job stays after its end, None for ever. restricted: whether pods keep to the
    Pod Security Standard of that name. user, group: numbers, None for the image's own.
    """

    volumes: tuple[Object, ...] = ()
    mounts: tuple[Object, ...] = ()
    env_from: tuple[Object, ...] = ()
    env: tuple[Object, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Object, ...] = ()
    priority_class: str = ""
    ttl: int | None = None
    restricted: bool = False
    user: int | None = None
    group: int | None = None


class Wanted(Value):
    """What is asked for.

    words: behind `procession run`. name: of all objects. grace: seconds that ranks and procession
    have when a pod is taken away. shm: the size of /dev/shm; "": as much as the pod's memory, None:
    what the container runtime gives, 64 MiB. restarts: after failures of the program's own.
    deadline: seconds, None for none. requests, limits: quantities by resource. fields: of the pods.
    """

    kind: str
    name: str
    image: str
    words: tuple[str, ...]
    nnodes: int = 1
    namespace: str = ""
    requests: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}
    env: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    service_account: str = ""
    shm: str | None = ""
    deadline: int | None = None
    restarts: int = 0
    grace: int = 60
    port: int = 29500
    preempt: bool = True
    fields: PodFields = PodFields()

    @property
    def job(self) -> str:
        """The name of the Job."""
        return f"{self.name}-{NODE}-0" if self.kind == JOBSET else self.name

    @property
    def longest_name(self) -> int:
        """The most characters of a name by which the last pod is still a valid host name."""
        random = "-abcde" if self.kind == JOBSET else ""  # JobSet wants room for the pod's own name
        rest = f"{self.job}-{self.nnodes - 1}{random}".removeprefix(self.name)
        return LONGEST_NAME - len(rest)

    @property
    def address(self) -> str:
        """Where ranks meet: pod 0, by its name below the service's."""
        return f"{self.job}-0.{self.name}"


def objects(wanted: Wanted) -> list[Object]:
    """Give the objects that Kubernetes is to make."""
    if wanted.kind == JOBSET:
        return [_job_set(wanted)]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(wanted),
        "spec": _job(wanted),
    }
    return [_service(wanted), job] if wanted.nnodes > 1 else [job]


def _metadata(wanted: Wanted) -> Object:
    found: Object = {"name": wanted.name}
    if wanted.namespace:
        found["namespace"] = wanted.namespace
    if wanted.labels:
        found["labels"] = dict(wanted.labels)
    return found


def _service(wanted: Wanted) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(wanted),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"batch.kubernetes.io/job-name": wanted.job},
            "ports": [{"name": "rendezvous", "port": wanted.port}],
        },
    }


def _job_set(wanted: Wanted) -> Object:
    rules: list[Object] = [
        {
            "name": "never_again",
            "action": "FailJobSet",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [f"exit code {NEVER_AGAIN} "],
        },
        {
            "name": "taken_away",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
        },
    ]
    if wanted.deadline is not None:
        # Otherwise the time would begin anew with each restart.
        deadline = {"name": "deadline", "action": "FailJobSet"}
        rules.append({**deadline, "onJobFailureReasons": ["DeadlineExceeded"]})
    spec: Object = {
        "network": {
            "enableDNSHostnames": True,
            "publishNotReadyAddresses": True,
            "subdomain": wanted.name,
        },
        "failurePolicy": {"maxRestarts": wanted.restarts, "rules": rules},
        "replicatedJobs": [{"name": NODE, "replicas": 1, "template": {"spec": _job(wanted)}}],
    }
    if wanted.fields.ttl is not None:
        spec["ttlSecondsAfterFinished"] = wanted.fields.ttl
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(wanted),
        "spec": spec,
    }


def _job(wanted: Wanted) -> Object:
    whole = wanted.kind == JOBSET
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    rules: list[Object] = [
        {"action": "FailJob", "onExitCodes": _codes("In", NEVER_AGAIN)},
        {"action": "FailJob" if whole else "Ignore", "onPodConditions": disrupted},
    ]
    if not whole and not wanted.restarts:
        rules.append({"action": "FailJob", "onExitCodes": _codes("NotIn", 0)})
    job: Object = {
        "completionMode": "Indexed",
        "completions": wanted.nnodes,
        "parallelism": wanted.nnodes,
        "backoffLimit": 0 if whole else wanted.restarts,
        "podFailurePolicy": {"rules": rules},
    }
    if wanted.deadline is not None:
        job["activeDeadlineSeconds"] = wanted.deadline
    if wanted.fields.ttl is not None and not whole:
        job["ttlSecondsAfterFinished"] = wanted.fields.ttl
    pod: Object = {"spec": _pod(wanted)}
    if wanted.labels:
        pod = {"metadata": {"labels": dict(wanted.labels)}, **pod}
    return {**job, "template": pod}


def _codes(operator: str, code: int) -> Object:
    return {"containerName": CONTAINER, "operator": operator, "values": [code]}


def _pod(wanted: Wanted) -> Object:
    pod: Object = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": wanted.grace + SLACK,
    }
    if wanted.kind == JOB and wanted.nnodes > 1:
        pod["subdomain"] = wanted.name
    if wanted.service_account:
        pod["serviceAccountName"] = wanted.service_account
    if wanted.node_selector:
        pod["nodeSelector"] = dict(wanted.node_selector)
    fields = wanted.fields
    if fields.priority_class:
        pod["priorityClassName"] = fields.priority_class
    if fields.tolerations:
        pod["tolerations"] = [*fields.tolerations]
    if fields.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in fields.pull_secrets]
    if security := _security(fields):
        pod["securityContext"] = security
    pod["containers"] = [_container(wanted)]
    volumes = [*fields.volumes]
    if wanted.shm is not None:
        medium: Object = {"medium": "Memory"}
        if wanted.shm:
            medium["sizeLimit"] = wanted.shm
        volumes.insert(0, {"name": "shm", "emptyDir": medium})
    if volumes:
        pod["volumes"] = volumes
    return pod


def _security(fields: PodFields) -> Object:
    found: Object = {}
    if fields.restricted:
        found |= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if fields.user is not None:
        found["runAsUser"] = fields.user
    if fields.group is not None:
        found |= {"runAsGroup": fields.group, "fsGroup": fields.group}
    return found


def _container(wanted: Wanted) -> Object:
    container: Object = {
        "name": CONTAINER,
        "image": wanted.image,
        "command": ["procession", "run"],
        "args": [literal(word) for word in _words(wanted)],
    }
    fields = wanted.fields
    env = [{"name": name, "value": literal(value)} for name, value in wanted.env.items()]
    if env or fields.env:
        container["env"] = [*env, *fields.env]
    if fields.env_from:
        container["envFrom"] = [*fields.env_from]
    if fields.restricted:
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    if wanted.nnodes > 1:
        container["ports"] = [{"name": "rendezvous", "containerPort": wanted.port}]
    resources = {"requests": dict(wanted.requests), "limits": dict(wanted.limits)}
    resources = {name: each for name, each in resources.items() if each}
    if resources:
        container["resources"] = resources
    mounts = [*fields.mounts]
    if wanted.shm is not None:
        mounts.insert(0, {"name": "shm", "mountPath": SHM})
    if mounts:
        container["volumeMounts"] = mounts
    return container


def _words(wanted: Wanted) -> list[str]:
    own: list[str] = []
    if wanted.nnodes > 1:
        # The pod's own number is in JOB_COMPLETION_INDEX.
        own += ["--nnodes", str(wanted.nnodes), "--master-addr", wanted.address]
        own += ["--master-port", str(wanted.port)]
    if wanted.preempt:
        own += ["--preempt", f"kubernetes:{wanted.grace}"]
    return [*own, *wanted.words]


def literal(text: str) -> str:
    """Escape what Kubernetes would replace as $(NAME)."""
    return re.sub(r"\$(?=[$(])", "$$", text)


def pod_template(made: Object) -> Object | None:
    """Give the template of an object's pods, which may be changed in place; None if it has none."""
    if made["kind"] == "JobSet":
        return made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    return made["spec"]["template"] if made["kind"] == "Job" else None
