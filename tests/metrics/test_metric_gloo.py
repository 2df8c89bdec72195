"""Two processes, each with its own samples, report the numbers of one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.metrics import gloo_worker

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """What both processes saved."""
    folder, port = tmp_path_factory.mktemp("gloo"), free_port()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, gloo_worker.__file__]
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(port), str(folder / f"{rank}.pt")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [worker.communicate(timeout=200)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    for worker, output in zip(workers, outputs, strict=True):
        assert worker.returncode == 0, output
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("scenario", gloo_worker.SHARDS)
def test_both_processes_report_the_numbers_of_one(reports, scenario, per_sample):
    order = [b for shard in gloo_worker.SHARDS[scenario] for samples in shard for b in samples]
    expected = gloo_worker.judge([order], per_sample=per_sample)
    for report in reports:
        for name, result in report["results"][scenario, per_sample].items():
            assert set(result) == set(expected[name])
            for key, value in expected[name].items():
                torch.testing.assert_close(result[key], value, rtol=0, atol=1e-9, msg=f"{name}, {key}")


def test_without_samples_both_raise_and_can_be_used_further(reports):
    for report in reports:
        for name, (message, n_samples) in report["complaints"].items():
            assert message.startswith(f"`compute` must follow an update of {name.partition('-')[0]}, got no samples")
            assert n_samples == 2
