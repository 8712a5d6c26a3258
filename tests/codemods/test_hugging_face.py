"""What the loader rules make of Hugging Face's data sets, collators and batches."""

from __future__ import annotations

import pytest
from kit import check_leaves, check_rewrites, run

from codemods.rules.h2d_non_blocking import H2dNonBlocking
from codemods.rules.loader_pin import LoaderPin
from codemods.rules.loader_workers import LoaderWorkers

HEAD = """\
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding

tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


def encode(rows):
    return tokenizer(rows["text"], truncation=True)


"""
READS = """\
def main():
    loader = DataLoader(encoded["train"], batch_size=8)
    for batch in loader:
        batch = {k: v.cuda() for k, v in batch.items()}


if __name__ == "__main__":
    main()
"""
ROWS = {
    "mapped": 'encoded = load_dataset("imdb").map(encode, batched=True)\n',
    "mapped, with fewer columns, as tensors": (
        'encoded = load_dataset("imdb").map(encode).remove_columns(["text"]).with_format("torch")\n'
    ),
    "formatted in place": 'encoded = load_dataset("imdb").map(encode)\nencoded.set_format("torch")\n',
    "some of the rows": (
        'rows = load_dataset("imdb", split="train").map(lambda row: encode(row))\n'
        "encoded = rows.shuffle(seed=1).select(range(99)).train_test_split(0.1)\n"
    ),
    "several splits at once": (
        'rows, test = load_dataset("imdb", split=["train", "test"])\n'
        'encoded = rows.map(encode).train_test_split(0.1)\nencoded["train"][0]["ids"]\n'
    ),
    "several splits by index": 'encoded = {"train": load_dataset("imdb", split=["train", "test"])[0].map(encode)}\n',
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
def test_rows_are_read_in_workers_into_pinned_memory(rows: str) -> None:
    before = HEAD + rows + READS

    check_rewrites(LoaderWorkers, before, before.replace("=8)", "=8, num_workers=4)"))
    check_rewrites(LoaderPin, before, before.replace("=8)", "=8, pin_memory=True)"))


DEVICE = "its data set moves tensors to a device itself (line 12)"
TO_CUDA = "its data set moves tensors to a device itself (line 13)"
LEFT = {
    "tensors are made on a device": (
        'encoded = load_dataset("imdb").with_format("torch", device="cuda")\n',
        DEVICE,
        DEVICE,
    ),
    "rows are transformed on a device": (
        "def to_cuda(rows):\n    return {k: v.cuda() for k, v in rows.items()}\n"
        'encoded = load_dataset("imdb").with_transform(to_cuda)\n',
        TO_CUDA,
        TO_CUDA,
    ),
}


@pytest.mark.parametrize(("rows", "workers", "pin"), LEFT.values(), ids=LEFT.keys())
def test_rows_are_left_where(rows: str, workers: str, pin: str) -> None:
    check_leaves(LoaderWorkers, HEAD + rows + READS, workers)
    check_leaves(LoaderPin, HEAD + rows + READS, pin)


WITHOUT_WORKERS = {
    "rows are streamed": (
        'encoded = load_dataset("imdb", streaming=True).map(encode)\n',
        "datasets.load_dataset() streams it: how its files are divided among workers is not known",
    ),
    "rows are transformed as they are read": (
        'raw = load_dataset("imdb")\nencoded = raw.with_transform(encode)\n',
        "what raw.with_transform() has it do in a worker process is not known",
    ),
}


@pytest.mark.parametrize(("rows", "because"), WITHOUT_WORKERS.values(), ids=WITHOUT_WORKERS.keys())
def test_no_workers_where(rows: str, because: str) -> None:
    check_leaves(LoaderWorkers, HEAD + rows + READS, because)


def test_fields_of_a_collators_batch_are_tensors_and_the_batch_is_not() -> None:
    rows = ROWS["mapped"]
    collated = READS.replace("=8)", "=8, pin_memory=True, collate_fn=DataCollatorWithPadding(tokenizer))")
    before = HEAD + rows + collated

    check_rewrites(H2dNonBlocking, before, before.replace("v.cuda()", "v.cuda(non_blocking=True)"))
    whole = before.replace("{k: v.cuda() for k, v in batch.items()}", "batch.to('cuda')")
    check_leaves(H2dNonBlocking, whole, "its collate_fn may return something else than tensors")
    assert [site.message for site in run(LoaderPin, before).sites] == []
