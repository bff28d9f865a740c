"""`procession manifest kubernetes`: Kubernetes takes what it prints, and it means what was asked.

The schemas are the published ones: those of Kubernetes by kubernetes-validate, JobSet's beside this
file.
"""

import json
import os
import sys

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from manifestsupport import (  # noqa: F401 - fixtures
    BASIC,
    check,
    container_of,
    job_of,
    made_fixture,
    manifest_fixture,
)

from seams.cli import as_json, as_yaml, literal, main
from seams.cli import make_parser as run_parser
from support import run_procession, write

FULL = (
    "--image", "ghcr.io/me/train:1", "--name", "train", "--namespace", "team", "--nnodes", "4",
    "--gpus", "8", "--cpu", "16:32", "--memory", "64Gi", "--resource", "rdma/hca=8",
    "--shm-size", "16Gi", "-x", "NCCL_DEBUG=INFO", "--env=A=b=c", "--service-account", "trainer",
    "--label", "kueue.x-k8s.io/queue-name=team", "--node-selector", "cloud/gpu=h100",
    "--backoff-limit", "3", "--deadline", "86400", "--grace", "120", "--port", "4000",
)  # fmt: skip
RUN = ("--", "-n", "8", "--max-restarts", "2", "train.py", "--epochs", "3")


@pytest.mark.parametrize("kind", ["jobset", "job"])
@pytest.mark.parametrize("words", [BASIC, FULL, (*BASIC, "--nnodes", "2")])
def test_every_object_fits_its_schema(made, kind, words):
    objects = made("--kind", kind, *words, *RUN)
    names = {"jobset": ["JobSet"], "job": ["Service", "Job"][words is BASIC :]}[kind]
    assert [each["kind"] for each in objects] == names


def test_a_schema_that_is_wrong_is_noticed(made):
    (whole,) = made(*BASIC, *RUN)
    whole["spec"]["network"]["subDomain"] = "x"
    with pytest.raises(jsonschema.ValidationError):
        check(whole)


def test_a_job_set(made):
    (whole,) = made(*FULL, *RUN)
    assert whole["metadata"] == {
        "name": "train", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "team"},
    }  # fmt: skip
    assert whole["spec"]["network"] == {
        "enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": "train",
    }  # fmt: skip
    policy = whole["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 3
    assert [(rule["action"], rule["onJobFailureReasons"]) for rule in policy["rules"]] == [
        ("FailJobSet", ["PodFailurePolicy"]),
        ("RestartJobSetAndIgnoreMaxRestarts", ["PodFailurePolicy"]),
        ("FailJobSet", ["DeadlineExceeded"]),
    ]
    job = job_of([whole])
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 4, 4)
    # A failure of the program's own fails the Job, so that the JobSet makes it anew and counts it.
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (0, 86400)
    assert job["podFailurePolicy"]["rules"] == [
        {"action": "FailJob",
         "onExitCodes": {"containerName": "ranks", "operator": "In", "values": [78]}},
        {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]  # fmt: skip
    pod = job["template"]["spec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 125)
    assert pod["serviceAccountName"] == "trainer"
    assert pod["nodeSelector"] == {"cloud/gpu": "h100"}
    assert pod["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
    ]


def test_what_a_pod_runs(made):
    container = container_of(made(*FULL, *RUN))
    assert container["command"] == ["procession", "run"]
    assert container["args"] == [
        "--nnodes", "4", "--master-addr", "train-node-0-0.train", "--master-port", "4000",
        "--preempt", "kubernetes:120", "-n", "8", "--max-restarts", "2", "train.py",
        "--epochs", "3",
    ]  # fmt: skip
    assert container["env"] == [
        {"name": "NCCL_DEBUG", "value": "INFO"}, {"name": "A", "value": "b=c"},
    ]  # fmt: skip
    assert container["resources"] == {
        "requests": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "rdma/hca": "8"},
        "limits": {"cpu": "32", "memory": "64Gi", "nvidia.com/gpu": "8", "rdma/hca": "8"},
    }
    assert container["ports"] == [{"name": "rendezvous", "containerPort": 4000}]
    assert container["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]


def test_a_job_and_its_service(made):
    service, whole = made("--kind", "job", *BASIC, "--nnodes", "2", "train.py")
    assert service["metadata"]["name"] == whole["metadata"]["name"] == "train"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": "train"}
    assert whole["spec"]["template"]["spec"]["subdomain"] == "train"
    args = container_of([whole])["args"]
    assert args[args.index("--master-addr") + 1] == "train-0.train"
    codes, disrupted, others = whole["spec"]["podFailurePolicy"]["rules"]
    assert (codes["action"], codes["onExitCodes"]["values"]) == ("FailJob", [78])
    assert disrupted["action"] == "Ignore"
    assert (others["action"], others["onExitCodes"]["operator"]) == ("FailJob", "NotIn")


def test_a_job_that_may_start_again(made):
    job = job_of(made("--kind", "job", *BASIC, "--backoff-limit", "4", "train.py"))
    assert job["backoffLimit"] == 4
    assert [rule["action"] for rule in job["podFailurePolicy"]["rules"]] == ["FailJob", "Ignore"]


def test_one_pod_meets_nobody(made):
    container = container_of(made(*BASIC, "my/deep_Train.py"))
    assert container["args"] == ["--preempt", "kubernetes:60", "my/deep_Train.py"]
    assert "ports" not in container


def test_what_a_run_says_of_the_end_is_left_to_it(made):
    args = container_of(made(*BASIC, "--", "--preempt", "SIGUSR1:20", "train.py"))["args"]
    assert args == ["--preempt", "SIGUSR1:20", "train.py"]


@pytest.mark.parametrize(
    ("words", "shm"),
    [((), {"medium": "Memory"}), (("--shm-size", "1Gi"), {"medium": "Memory", "sizeLimit": "1Gi"})],
)
def test_shared_memory(made, words, shm):
    pod = job_of(made(*BASIC, *words, "train.py"))["template"]["spec"]
    assert pod["volumes"] == [{"name": "shm", "emptyDir": shm}]


def test_the_runtimes_own_shared_memory(made):
    pod = job_of(made(*BASIC, "--shm-size", "none", "train.py"))["template"]["spec"]
    assert "volumes" not in pod
    assert "volumeMounts" not in pod["containers"][0]


@pytest.mark.parametrize(
    ("program", "name"),
    [("train.py", "train"), ("a/My_Job.v2", "my-job-v2"), ("2nd.py", "run-2nd"), ("__.py", "run")],
)
def test_the_name_is_the_programs(made, program, name):
    assert made(*BASIC, program)[0]["metadata"]["name"] == name


def test_what_pods_run_is_a_command_line(made):
    args = container_of(made(*FULL, *RUN))["args"]
    given, rest = run_parser().read(args)
    assert (given.nnodes, given.nproc_per_node, given.max_restarts) == ("4", "8", "2")
    assert rest == ["train.py", "--epochs", "3"]


SEE = """
import os, sys
here = " ".join(os.environ[n] for n in ("RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "WHO"))
sys.stdout.write(here + "\\n")
"""


APART = {"PROCESSION_RDZV_CONF": "apart=1"}  # each pod alone: here is no such name


@pytest.mark.parametrize(("kind", "head"), [("jobset", "see-node-0-0.see"), ("job", "see-0.see")])
def test_pods_of_one_job(made, tmp_path, kind, head):
    script = str(write(tmp_path / "see.py", SEE))
    words = ("--kind", kind, *BASIC, "--nnodes", "2", "-x", "WHO=$(me)", "--", "-n", "2", script)
    container = container_of(made(*words))
    seen = []
    for pod in ("0", "1"):
        env = {v["name"]: filled_in(v["value"], {}) for v in container["env"]}
        assert container["command"][0] == "procession"
        done = run_procession(
            *container["command"][1:],
            *(filled_in(word, {}) for word in container["args"]),
            env={**os.environ, **env, "JOB_COMPLETION_INDEX": pod, **APART},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen += [line.partition("] ")[2] for line in done.stdout.splitlines()]
    assert sorted(seen) == [f"{rank} 4 {rank // 2} {head} $(me)" for rank in range(4)]


# -- texts


def filled_in(text, variables):
    """Fill in what Kubernetes does: $(NAME), where it is known, and $$ for a dollar."""
    found, at = [], 0
    while at < len(text):
        if text[at : at + 2] == "$$":
            found.append("$")
            at += 2
        elif text[at : at + 2] == "$(" and ")" in text[at:]:
            end = text.index(")", at)
            found.append(variables.get(text[at + 2 : end], text[at : end + 1]))
            at = end + 1
        else:
            found.append(text[at])
            at += 1
    return "".join(found)


@given(st.text("$()AB {}", max_size=12))
def test_nothing_is_filled_in(text):
    assert filled_in(literal(text), {"A": "wrong", "B": "wrong", "": "wrong"}) == text


def test_macros_of_procession_stay_readable():
    assert literal("out/${local_rank}.txt") == "out/${local_rank}.txt"


NASTY = [
    *("1e-4", "1E5", "012", "0x1F", "1_000", ".5", "-1", "1:30", ".inf", "2026-01-01"),
    *("yes", "no", "on", "true", "y", "n", "null", "~", "", "=", "<<", "- a", "a: b", "#", "a #b"),
    *("'", '"', "{}", "[", "&a", "*a", "!x", "%", "@", "`", "?", "|", "ä"),
    *("a\nb", "\t", " a", "a ", "\u2028"),
]


@pytest.mark.parametrize("word", NASTY)
def test_words_stay_words(word):
    yaml = pytest.importorskip("yaml")
    text = as_yaml([{"args": [word]}])
    assert yaml.safe_load(text) == {"args": [word]}
    assert text.strip().endswith(("'", '"')), f"a reader of another YAML may take {text} for else"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
@settings(max_examples=200)
def test_every_text_comes_back(words):
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(as_yaml([{"args": words}])) == {"args": words}


def test_json(manifest):
    code, out, _ = manifest("--output", "json", "--kind", "job", *FULL, *RUN)
    whole = json.loads(out)
    assert (code, whole["apiVersion"], whole["kind"]) == (0, "v1", "List")
    for each in whole["items"]:
        check(each)
    assert json.loads(as_json([{"kind": "Job"}])) == {"kind": "Job"}


def test_without_pyyaml(manifest, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    code, out, _ = manifest(*BASIC, "train.py")
    assert (code, json.loads(out)["kind"]) == (0, "JobSet")
    code, out, err = manifest("--output", "yaml", *BASIC, "train.py")
    assert (code, out) == (2, "")
    assert "pip install 'procession[kubernetes]', or write --output json" in err


# -- what is said, and what is refused


def test_ranks_that_cannot_begin_anew_in_place(manifest):
    said = "when a pod is taken away, the ranks of the others fail soon"
    assert said in manifest(*BASIC, "--nnodes", "2", "train.py")[2]
    assert manifest(*BASIC, "--nnodes", "2", "--", "--max-restarts", "3", "train.py")[2] == ""
    assert manifest(*BASIC, "train.py")[2] == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py"], "--image is missing"),
        ([*BASIC], "PROGRAM is missing"),
        ([*BASIC, "--imag", "x"], "there is no option '--imag'; did you mean --image?"),
        ([*BASIC, "-n", "8", "train.py"], "-n is an option of the run: write it behind the --"),
        ([*BASIC, "--", "--max-restart", "8", "t.py"], "did you mean --max-restarts?"),
        ([*BASIC, "--", "--nnodes", "2", "t.py"], "--nnodes cannot stand behind --: say --nnodes "),
        ([*BASIC, "--", "--detach", "t.py"], "--detach cannot stand behind --: the pod would end"),
        ([*BASIC, "--kind", "pod", "t.py"], "--kind must be jobset or job, not 'pod'"),
        ([*BASIC, "--nnodes", "0", "t.py"], "--nnodes must be a number of 1 or more, not '0'"),
        ([*BASIC, "--port", "70000", "t.py"], "--port must be a number of 1 to 65535"),
        ([*BASIC, "--cpu", "many", "t.py"], "--cpu must be a quantity such as 16"),
        ([*BASIC, "--memory", "64GB", "t.py"], "--memory must be a quantity"),
        ([*BASIC, "--memory", "64Gi:1Ti", "--cpu", "4:500m", "t.py"], "limit 500m is below"),
        ([*BASIC, "--gpu-resource", "amd.com/gpu", "t.py"], "--gpu-resource needs --gpus"),
        ([*BASIC, "--resource", "cpu=4", "t.py"], "--resource cpu: write --cpu"),
        ([*BASIC, "--env", "HOME", "t.py"], "--env must be NAME=VALUE"),
        ([*BASIC, "--label", "a b=c", "t.py"], "--label must be NAME=VALUE"),
        ([*BASIC, "--name", "My_Job", "t.py"], "--name must be small letters"),
        ([*BASIC, "--name", "x" * 50, "t.py"], "is too long: pods' names leave room for 48"),
        ([*BASIC, "x" * 50], "PROGRAM's name is too long for a pod: say --name"),
        ([*BASIC, "--namespace", "A", "t.py"], "--namespace must be small letters"),
        ([*BASIC, "--service-account", "A", "t.py"], "--service-account must be small letters"),
        ([*BASIC, "--output", "xml", "t.py"], "--output must be yaml or json, not 'xml'"),
        ([*BASIC, "--deadline", "1h", "t.py"], "--deadline must be a number"),
    ],
)
def test_refused(manifest, words, said):
    code, out, err = manifest(*words)
    assert (code, out) == (2, "")
    assert err.startswith("procession manifest kubernetes: error: ")
    assert said in err
    assert len(err.splitlines()) == 1


def test_the_longest_name_is_one_that_jobset_takes(made):
    job = "x" * 48 + "-node-0"
    assert len(f"{job}-0-abcde") == 63
    made(*BASIC, "--name", "x" * 48, "t.py")


def test_other_places(capsys):
    for words, said in (
        (["kubernets"], "there is no manifest for 'kubernets'; did you mean kubernetes?"),
        (["slurm"], "there is no manifest for 'slurm': write procession manifest kubernetes"),
    ):
        with pytest.raises(SystemExit):
            main(["manifest", *words])
        assert said in capsys.readouterr().err


def test_help(capsys):
    assert main(["manifest", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--gpu-resource" in out
    assert "kubectl apply -f -" in out
    assert main(["manifest"]) == 2
