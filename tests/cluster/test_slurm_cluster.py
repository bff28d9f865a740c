"""The clusters of the tests are what they claim to be."""


def test_tasks_run_on_all_nodes(slurm):
    said = slurm.run("srun", "-N4", "--ntasks-per-node=1", "printenv", "SLURMD_NODENAME").stdout
    assert sorted(said.split()) == slurm.nodes


def test_gpus_are_dealt(slurm):
    said = slurm.run("srun", "-n2", "--gpus-per-task=1", "printenv", "CUDA_VISIBLE_DEVICES")
    assert sorted(said.stdout.split()) == ["0", "1"]


def test_nodes_have_a_network(networked):
    said = networked.run("srun", "-N3", "sh", "-c", "hostname; ip -o -4 addr show uplink").stdout
    assert [n in said for n in networked.nodes] == [True] * 3
    assert [f"10.213.77.{n}" in said for n in (2, 3, 4)] == [True] * 3


def test_a_cable_can_be_drawn(networked):
    networked.cut("n2")
    networked.wait_down("n2")
    networked.mend("n2")
    networked.wait_idle("n2")
