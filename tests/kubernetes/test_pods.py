"""What pods may do and what they are given; each manifest is checked by the schemas."""

import json

import pytest
from manifestsupport import (  # noqa: F401 - fixtures
    BASIC,
    container_of,
    job_of,
    made_fixture,
    manifest_fixture,
)

from support import write

# The Pod Security Standard "restricted", as far as a manifest of ours can break it:
# https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
VOLUMES = {
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral"),
    *("persistentVolumeClaim", "projected", "secret"),
}


def breaks_restricted(pod):
    """Give what of the standard a pod's spec breaks."""
    own = pod.get("securityContext", {})
    for each in pod["containers"]:
        security = each.get("securityContext", {})
        both = {**own, **security}
        if security.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if "ALL" not in security.get("capabilities", {}).get("drop", []):
            yield "capabilities"
        if both.get("runAsNonRoot") is not True:
            yield "runAsNonRoot"
        if both.get("runAsUser") == 0:
            yield "runAsUser"
        if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
        if set(security.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
            yield "capabilities.add"
    for volume in pod.get("volumes", []):
        if not VOLUMES & set(volume):
            yield f"volume {volume['name']}"
    if {"hostNetwork", "hostPID", "hostIPC"} & set(pod):
        yield "the node's namespaces"


def pod_of(objects):
    return job_of(objects)["template"]["spec"]


@pytest.mark.parametrize("kind", ["jobset", "job"])
def test_pods_that_pass_the_restricted_standard(made, kind):
    words = ("--kind", kind, *BASIC, "--nnodes", "2", "--volume", "claim/data:/data")
    assert len(set(breaks_restricted(pod_of(made(*words, "t.py"))))) == 4
    pod = pod_of(made(*words, "--restricted", "--run-as", "1000:2000", "t.py"))
    assert list(breaks_restricted(pod)) == []
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsUser": 1000,
        "runAsGroup": 2000,
        "fsGroup": 2000,
    }


def test_a_user_alone(made):
    pod = pod_of(made(*BASIC, "--run-as", "1000", "t.py"))
    assert pod["securityContext"] == {"runAsUser": 1000}
    assert "securityContext" not in pod_of(made(*BASIC, "t.py"))


def test_volumes(made):
    words = ["claim/data:/data:ro", "claim/data:/out", "secret/keys:/keys", "configmap/c:/etc/c"]
    words += ["empty:/tmp", "empty:/var/tmp", "/mnt/disk:/disk"]
    options = [each for word in words for each in ("--volume", word)]
    pod = pod_of(made(*BASIC, "--shm-size", "none", *options, "t.py"))
    assert pod["volumes"] == [
        {"name": "claim-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "secret-1", "secret": {"secretName": "keys"}},
        {"name": "configmap-2", "configMap": {"name": "c"}},
        {"name": "empty-3", "emptyDir": {}},
        {"name": "empty-4", "emptyDir": {}},
        {"name": "node-5", "hostPath": {"path": "/mnt/disk"}},
    ]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "claim-0", "mountPath": "/data", "readOnly": True},
        {"name": "claim-0", "mountPath": "/out"},
        {"name": "secret-1", "mountPath": "/keys"},
        {"name": "configmap-2", "mountPath": "/etc/c"},
        {"name": "empty-3", "mountPath": "/tmp"},
        {"name": "empty-4", "mountPath": "/var/tmp"},
        {"name": "node-5", "mountPath": "/disk"},
    ]
    both = pod_of(made(*BASIC, "--volume", "empty:/tmp", "t.py"))
    assert [each["name"] for each in both["volumes"]] == ["shm", "empty-0"]


def test_variables_of_secrets(made):
    words = ["-x", "A=1", "--env-secret", "TOKEN=hub/api.token"]
    words += ["--env-from", "secret/all", "--env-from", "configmap/some"]
    container = container_of(made(*BASIC, *words, "t.py"))
    key = {"secretKeyRef": {"name": "hub", "key": "api.token"}}
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "TOKEN", "valueFrom": key}]
    assert container["envFrom"] == [
        {"secretRef": {"name": "all"}},
        {"configMapRef": {"name": "some"}},
    ]


def test_where_and_when_pods_run(made):
    words = ("--toleration", "nvidia.com/gpu:NoSchedule", "--toleration", "team=a", "--toleration",
             "spot", "--priority-class", "high", "--image-pull-secret", "registry")  # fmt: skip
    pod = pod_of(made(*BASIC, *words, "t.py"))
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "a"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert (pod["priorityClassName"], pod["imagePullSecrets"]) == ("high", [{"name": "registry"}])


def test_the_job_is_removed_after_its_end(made):
    (whole,) = made(*BASIC, "--ttl", "3600", "t.py")
    assert whole["spec"]["ttlSecondsAfterFinished"] == 3600
    assert "ttlSecondsAfterFinished" not in job_of([whole])  # the JobSet keeps its Job
    (job,) = made(*BASIC, "--kind", "job", "--ttl", "0", "t.py")
    assert job["spec"]["ttlSecondsAfterFinished"] == 0


PATCH = """
kind: Pod
metadata:
  annotations: {sidecar.istio.io/inject: "false"}
spec:
  dnsPolicy: ClusterFirst
  containers:
  - name: ranks
    imagePullPolicy: Always
    env:
    - {name: A, value: "2"}
    - {name: B, value: "3"}
  - name: logs
    image: me/logs:1
---
kind: JobSet
metadata: {annotations: {owner: me}}
"""


def test_a_patch(made, tmp_path):
    file = write(tmp_path / "patch.yaml", PATCH)
    words = (*BASIC, "-x", "A=1", "-x", "C=4", "--patch", str(file), "t.py")
    (whole,) = made(*words)
    template = job_of([whole])["template"]
    ranks, logs = template["spec"]["containers"]
    assert (ranks["image"], ranks["imagePullPolicy"]) == ("me/train:1", "Always")
    assert {v["name"]: v["value"] for v in ranks["env"]} == {"A": "2", "C": "4", "B": "3"}
    assert logs == {"name": "logs", "image": "me/logs:1"}
    assert template["spec"]["dnsPolicy"] == "ClusterFirst"
    assert template["metadata"]["annotations"] == {"sidecar.istio.io/inject": "false"}
    assert whole["metadata"]["annotations"] == {"owner": "me"}


def test_patches_as_json_and_one_after_the_other(made, tmp_path):
    first = write(tmp_path / "1", json.dumps({"kind": "Service", "spec": {"ipFamilies": ["IPv6"]}}))
    second = write(tmp_path / "2", json.dumps({"kind": "Job", "spec": {"suspend": True}}))
    words = ("--kind", "job", "--nnodes", "2", "--patch", str(first), "--patch", str(second))
    service, job = made(*BASIC, *words, "t.py")
    assert (service["spec"]["ipFamilies"], job["spec"]["suspend"]) == (["IPv6"], True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("{", "neither YAML nor JSON"),
        ("[]", "document 1: a mapping with a kind is expected: Pod, JobSet"),
        ("spec: {}", "a mapping with a kind is expected"),
        ("kind: Job", "no 'Job' is made, but JobSet; Pod is for pods"),
        ("kind: Pod\nspec: {volumes: [{name: x, $patch: delete}]}",
         "spec.volumes[x]: there is none to delete, but shm"),
        ("kind: Pod\nspec: {$patch: merge}", "spec: $patch must be replace, not 'merge'"),
    ],
)  # fmt: skip
def test_patches_that_are_refused(manifest, tmp_path, text, said):
    file = write(tmp_path / "patch", text)
    code, out, err = manifest(*BASIC, "--patch", str(file), "t.py")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert f"--patch {file}: " in err
    assert said in err


def test_a_patch_that_is_not_there(manifest):
    code, _, err = manifest(*BASIC, "--patch", "/no/such", "t.py")
    assert (code, err.split(": ", 2)[2]) == (2, "--patch /no/such: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--volume", "claim/data"], "--volume must be SOURCE:PATH"),
        (["--volume", "claim/data:data"], "--volume must be SOURCE:PATH"),
        (["--volume", "claim/data:/d:rx"], "--volume must be SOURCE:PATH"),
        (["--volume", "pvc/data:/d"], "--volume: the source must be claim/NAME"),
        (["--volume", "claim/A_B:/d"], "--volume: the source must be claim/NAME"),
        (["--volume", "empty:/d", "--volume", "claim/a:/d"], "two volumes at /d"),
        (["--volume", "empty:/dev/shm"], "say --shm-size"),
        (["--restricted", "--volume", "/mnt:/d"], "allows no directories of the node"),
        (["--restricted", "--run-as", "0"], "--restricted does not allow root"),
        (["--run-as", "me"], "--run-as must be a number"),
        (["--run-as", "5:"], "--run-as must be a number"),
        (["--env-from", "all"], "--env-from: the source must be secret/NAME or configmap/NAME"),
        (["--env-secret", "A=b"], "--env-secret must be NAME=SECRET/KEY"),
        (["--toleration", "a:Never"], "--toleration must be KEY"),
        (["--priority-class", "A B"], "names are small letters"),
        (["--ttl", "1h"], "--ttl must be a number of 0 or more"),
    ],
)
def test_refused(manifest, words, said):
    code, out, err = manifest(*BASIC, *words, "t.py")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err
