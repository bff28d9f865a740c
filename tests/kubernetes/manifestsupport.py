"""Runs the command, reads back what it prints, and checks it by the published schemas."""

import json
from pathlib import Path

import jsonschema
import pytest

from seams.cli import main
from support import uncoded

SCHEMA = json.loads(Path(__file__).with_name("jobset_v1alpha2.schema.json").read_text())
VERSIONS = ("1.31", "1.37")  # the first one in which pods' failure policies are not beta any more
BASIC = ("--image", "me/train:1")


@pytest.fixture(name="manifest")
def manifest_fixture(capsys):
    """Give a function that runs the command; it gives the code and what was printed."""

    def ask(*words):
        try:
            code = main(["manifest", "kubernetes", *words])
        except SystemExit as e:
            code = e.code
        out, err = capsys.readouterr()
        return code, out, uncoded(err)

    return ask


@pytest.fixture(name="made")
def made_fixture(manifest):
    """Give a function that gives the objects, read back from the YAML and checked by schemas."""
    yaml = pytest.importorskip("yaml")

    def make(*words):
        code, out, err = manifest(*words)
        assert code == 0, err
        found = list(yaml.safe_load_all(out))
        for each in found:
            check(each)
        return found

    return make


def check(made):
    validate = pytest.importorskip("kubernetes_validate").validate
    if made["kind"] == "JobSet":
        jsonschema.Draft202012Validator(SCHEMA).validate(made)
        (job,) = made["spec"]["replicatedJobs"]
        made = {"apiVersion": "batch/v1", "kind": "Job", **job["template"]}
    for version in VERSIONS:
        validate(made, version, strict=True)


def job_of(objects):
    whole = objects[-1]
    if whole["kind"] == "JobSet":
        (job,) = whole["spec"]["replicatedJobs"]
        return job["template"]["spec"]
    return whole["spec"]


def container_of(objects):
    (container,) = job_of(objects)["template"]["spec"]["containers"]
    return container
