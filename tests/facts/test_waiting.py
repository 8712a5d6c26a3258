"""What may rely on the host waiting for the device."""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.devices.waiting import why_wait

HEAD = 'import torch\nimport torch.multiprocessing as mp\nx = torch.ones(4).cuda()\ndevice = torch.device("cuda")\n'
RELYING = {
    "another stream": "with torch.cuda.stream(torch.cuda.Stream()):\n    x + 1\n",
    "a stream that is set": "torch.cuda.set_stream(torch.cuda.Stream())\n",
    "a CUDA graph": "graph = torch.cuda.CUDAGraph()\n",
    "a process": "mp.Process(target=print).start()\n",
    "a thread": "import threading\nthreading.Thread(target=print).start()\n",
    "a copy to the host": 'y = x.to("cpu", non_blocking=True)\n',
    "a copy to where it is not known": "y = x.to(input(), non_blocking=True)\n",
    "a copy into a buffer": "y = torch.empty(4)\ny.copy_(x, non_blocking=True)\n",
    "a copy of a buffer that is used again": "buffer = torch.empty(4)\ny = buffer.to(device, non_blocking=True)\n",
    "a sum over processes": "import torch.distributed as dist\ndist.all_reduce(x, async_op=True)\n",
    "a message": "import torch.distributed as dist\ndist.isend(x, 1)\n",
    "another library's arrays": "import cupy\n",
    "kernels of another library": "from numba import cuda\n",
}
NOT_RELYING = {
    "nothing": "y = x + 1\n",
    "a copy to the device": "y = torch.ones(4).to(device, non_blocking=True)\n",
    "a copy by cuda()": "y = torch.ones(4).cuda(non_blocking=True)\n",
    "a copy of a batch": (
        "for b in torch.utils.data.DataLoader(torch.ones(4, 4)):\n    y = b.to(device, non_blocking=True)\n"
    ),
    "a copy that blocks": 'y = x.to("cpu", non_blocking=False)\n',
}


@pytest.mark.parametrize("code", RELYING.values(), ids=RELYING)
def test_it_may_rely_on_that(code: str) -> None:
    reason = why_wait(script(HEAD + code))

    assert reason is not None
    assert reason.code == "other-stream"


@pytest.mark.parametrize("code", NOT_RELYING.values(), ids=NOT_RELYING)
def test_nothing_relies_on_that(code: str) -> None:
    assert why_wait(script(HEAD + code)) is None


def test_it_stands_in_another_file() -> None:
    reason = why_wait(
        script("import other\nother.run()\n", other="import torch\ndef run():\n    torch.cuda.CUDAGraph()\n")
    )

    assert reason is not None
    assert [each.module.path for each in reason.places] == ["other.py"]
