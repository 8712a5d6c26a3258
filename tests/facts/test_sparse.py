"""May a project make sparse tensors?"""

from __future__ import annotations

import pytest
from probe import script

from codemods.facts.sparse import may_be_made


@pytest.mark.parametrize(
    ("line", "may"),
    [
        pytest.param("x = torch.sparse_coo_tensor(edges, weights)", True, id="of its elements"),
        pytest.param("x = torch.sparse.FloatTensor(edges, weights)", True, id="by its old name"),
        pytest.param("x = torch.cuda.sparse.FloatTensor(edges, weights)", True, id="on the device, by its old name"),
        pytest.param("x = weights.to_sparse_csr()", True, id="of a dense one"),
        pytest.param("x = torch.sparse.softmax(weights, 0)", False, id="what computes with one"),
        pytest.param("x = weights.sparse_mask(edges)", False, id="another method"),
    ],
)
def test_what_makes_a_sparse_tensor(line: str, may: bool) -> None:  # noqa: FBT001
    text = f"import torch\n{line}\n"

    assert may_be_made(script(text).flow) is may
    assert may_be_made(script("import graphs\n", graphs=text).flow) is may
