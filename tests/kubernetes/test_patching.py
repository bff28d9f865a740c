"""How patches are merged: RFC 7386, and lists by their items' names."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seams.cli import PatchError, applied, patched

# The examples of RFC 7386, appendix A.
RFC = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "result"), RFC)
def test_the_examples_of_the_standard(target, patch, result):
    assert patched(target, patch) == result


def env(**values):
    return [{"name": name, "value": value} for name, value in values.items()]


def test_lists_whose_items_have_names():
    assert patched({"env": env(a="1", b="2")}, {"env": env(b="3", c="4")}) == {
        "env": env(a="1", b="3", c="4")
    }
    gone = {"env": [{"name": "a", "$patch": "delete"}]}
    assert patched({"env": env(a="1", b="2")}, gone) == {"env": env(b="2")}
    instead = {"env": [{"$patch": "replace"}, *env(c="4")]}
    assert patched({"env": env(a="1", b="2")}, instead) == {"env": env(c="4")}
    source = {"env": [{"name": "a", "value": None, "valueFrom": {"x": 1}}]}
    assert patched({"env": env(a="1")}, source) == {"env": [{"name": "a", "valueFrom": {"x": 1}}]}
    assert patched({"args": ["a", "b"]}, {"args": ["c"]}) == {"args": ["c"]}


def test_a_mapping_that_takes_the_place_of_another():
    patch = {"emptyDir": {"$patch": "replace", "sizeLimit": "1Gi"}}
    assert patched({"emptyDir": {"medium": "Memory"}}, patch) == {"emptyDir": {"sizeLimit": "1Gi"}}


POD = {
    "metadata": {"labels": {"env": "a"}},
    "spec": {"containers": [{"name": "ranks", "image": "i", "env": env(a="1")}]},
}


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (
            {"spec": {"containers": [{"name": "ranks", "env": "x"}]}},
            r"^spec\.containers\[ranks\]\.env: it must be a list, not 'x'$",
        ),
        (
            {"spec": {"containers": [{"name": "other", "env": {"a": 1}}]}},
            r"^spec\.containers\[other\]\.env: it must be a list",
        ),
        ({"spec": {"volumes": "x"}}, r"^spec\.volumes: it must be a list, not 'x'$"),
        (
            {"spec": {"containers": [{"name": "ranks"}, {"image": "x"}]}},
            r"^spec\.containers, item 2: it must be a mapping with 'name'$",
        ),
        (
            {"spec": {"containers": [{"name": "ranks", "env": ["x"]}]}},
            r"^spec\.containers\[ranks\]\.env, item 1: it must be a mapping with 'name'$",
        ),
        ({"spec": None}, r"^spec: it must stay a mapping, and cannot be null$"),
        ({"metadata": "x"}, r"^metadata: it must stay a mapping, and cannot be 'x'$"),
    ],
)
def test_what_no_object_can_have_is_refused_with_its_place(patch, said):
    with pytest.raises(PatchError, match=said):
        patched(POD, patch)


def test_labels_may_have_the_names_of_lists_and_ports_of_services_have_no_key():
    labels = patched(POD, {"metadata": {"labels": {"env": "b", "ports": "c", "spec": "d"}}})
    assert labels["metadata"]["labels"] == {"env": "b", "ports": "c", "spec": "d"}
    service = {"kind": "Service", "spec": {"ports": [{"name": "a", "port": 1}]}}
    new = {"spec": {"ports": [{"name": "b", "port": 2}]}}
    assert patched(service, new)["spec"]["ports"] == [{"name": "b", "port": 2}]


@pytest.mark.parametrize("text", ["kind: Job\nspec: &it {a: *it}\n", "[" * 100_000])
def test_a_patch_that_goes_down_without_end_is_refused(tmp_path, text):
    file = tmp_path / "patch.yaml"
    file.write_text(text)
    with pytest.raises(PatchError, match="nested too deeply, or an alias in it refers to what"):
        applied([{"kind": "Job", "spec": {}}], str(file))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "env", "name", "containers"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON, JSON)
def test_a_patch_does_the_same_twice_and_changes_no_argument(target, patch):
    before = repr((target, patch))
    try:
        once = patched(target, patch)
    except PatchError:
        assert repr((target, patch)) == before
        return
    assert patched(once, patch) == once
    assert repr((target, patch)) == before
