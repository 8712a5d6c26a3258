"""Metrics are found in what a script prints and gives to TensorBoard."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune_rewrite.verify import metrics
from autotune_rewrite.verify.records import Run, Scalar

RUN = Run("original", 0, "ok", "", (), 1.0, ended="finished")


def printed(*lines: str) -> Run:
    return replace(RUN, lines=lines)


def found(line: str) -> list[tuple[str, float, bool | None]]:
    return [(each.name, each.final, each.higher) for each in metrics.of_run(printed(line))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("Epoch 3, Accuracy: 0.97", [("Accuracy", 0.97, True)], id="after an epoch"),
        pytest.param("val_acc=0.91 val_loss=0.4", [("val_acc", 0.91, True), ("val_loss", 0.4, False)], id="by ="),
        pytest.param(
            "Test set: Average loss: 0.0312, Accuracy: 9811/10000 (98%)",
            [("Test set Average loss", 0.0312, False), ("test Accuracy", 0.9811, True)],
            id="a fraction, rather than its coarser percentage",
        ),
        pytest.param("[1,  2000] loss: 2.17", [("loss", 2.17, False)], id="counters without a name"),
        pytest.param("Train Epoch: 3 [640/60000 (1%)]\tLoss: 0.31", [("train Loss", 0.31, False)], id="of the stage"),
        pytest.param(
            "Accuracy of the net on the 10000 test images: 97 %",
            [("Accuracy of the net on the test images", 97.0, True)],
            id="a count inside the name",
        ),
        pytest.param("loss at step 100: 0.3", [("loss", 0.3, False)], id="a counter inside the name"),
        pytest.param(
            "epoch 3: train loss 0.4 acc 0.97, val loss 0.3 acc 0.98",
            [("train loss", 0.4, False), ("train acc", 0.97, True), ("val loss", 0.3, False), ("val acc", 0.98, True)],
            id="each of its own stage",
        ),
        pytest.param(
            "* Acc@1 71.3 Acc@5 90.1 top1 76.3 Top-5 err 3.5",
            [("Acc@1", 71.3, True), ("Acc@5", 90.1, True), ("top1", 76.3, True), ("Top5 err", 3.5, False)],
            id="digits that belong to the name",
        ),
        pytest.param("Iter-100; D_loss: -1.2e-3", [("D_loss", -0.0012, False)], id="a hyphen is no sign, a minus is"),
        pytest.param("{'loss': 0.3, 'epoch': 1.0}", [("loss", 0.3, False)], id="a dictionary"),
        pytest.param("loss: tensor(0.31, device='cuda:0')", [("loss", 0.31, False)], id="a tensor"),
        pytest.param("2024-01-01 12:00:03,123 INFO: step 3 loss 0.3", [("loss", 0.3, False)], id="behind a date"),
        pytest.param("\x1b[32mEpoch 2/10 - mIoU: 0.3\x1b[0m", [("mIoU", 0.3, True)], id="in colours"),
        pytest.param("===> Avg. PSNR: 23.4000 dB", [("Avg PSNR", 23.4, True)], id="with a unit of its own"),
        pytest.param("word error rate: 3.2%", [("word error rate", 3.2, False)], id="a rate of errors"),
        pytest.param("F1: 0.3 R2 0.4", [("F1", 0.3, True), ("R2", 0.4, True)], id="names of a letter and a digit"),
    ],
)
def test_numbers_are_named_by_the_words_before_them(line: str, expected: list[tuple[str, float, bool | None]]) -> None:
    assert found(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("Epoch 3/10, step 100", id="where the script is"),
        pytest.param("Epoch time = 3.2 seconds", id="a time"),
        pytest.param("1.5 it/s, ETA 0:03:12", id="a pace and a time left"),
        pytest.param("learning rate: 0.001 lr 1e-3", id="a learning rate"),
        pytest.param("loss scale: 65536", id="a scale of losses"),
        pytest.param("GPU memory: 3.2 GB", id="memory"),
        pytest.param("100 (10%) 2.3", id="nothing names it"),
        pytest.param("Namespace(acc=0.3)", id="settings"),
        pytest.param("a.py:12: UserWarning: loss 3.0", id="a warning"),
        pytest.param("accuracy 12/0", id="a fraction of nothing"),
        pytest.param("train 0.3 valid 0.4", id="a stage alone has no direction"),
    ],
)
def test_what_is_no_metric(line: str) -> None:
    assert [name for name, _, higher in found(line) if higher is not None] == []


@pytest.mark.parametrize(
    ("name", "higher"),
    [
        ("val_acc", True),
        ("testAccuracy", True),
        ("AUC", True),
        ("episode reward", True),
        ("ELBO", True),
        ("mAP50", True),
        ("Loss/train", False),
        ("perplexity", False),
        ("val RMSE", False),
        ("FID", False),
        ("kl", False),
        ("grad norm", None),
        ("loss weight", None),
        ("validation time", None),
        ("alpha", None),
        ("", None),
    ],
)
def test_direction_by_name(name: str, higher: bool | None) -> None:  # noqa: FBT001
    assert metrics.direction(name) is higher


def test_a_series_is_of_lines_that_differ_only_in_numbers() -> None:
    run = printed("Epoch 1: acc 0.5", "Epoch  2: acc 0.6", "epoch done", "Epoch 10: acc 0.7", "final acc 0.71")
    assert [(each.name, each.values) for each in metrics.of_run(run)] == [
        ("acc", (0.5, 0.6, 0.7)),
        ("final acc", (0.71,)),
    ]


def test_a_progress_bar_is_one_series_whatever_it_draws() -> None:
    run = printed(
        "Epoch 1:   0%|          | 0/10 [00:00<?, ?it/s]\rEpoch 1:  50%|█████     | 5/10 [00:01<00:01,  5.00it/s, loss=0.5]"
        "\rEpoch 1: 100%|██████████| 10/10 [00:02<00:00,  5.00it/s, loss=0.4]"
    )
    (series,) = metrics.of_run(run)
    assert (series.name, series.values, series.source, series.counted) == ("loss", (0.5, 0.4), "progress", False)


def test_values_that_are_not_numbers_are_kept() -> None:
    (series,) = metrics.of_run(printed("loss: 0.3", "loss: nan"))
    assert math.isnan(series.final)


def test_tags_of_tensorboard_are_series() -> None:
    run = replace(RUN, scalars=(Scalar("Loss/train", 0, 0.3), Scalar("acc/val", 0, 0.9), Scalar("Loss/train", 1, 0.2)))
    assert [(each.name, each.values, each.higher) for each in metrics.of_run(run)] == [
        ("Loss/train", (0.3, 0.2), False),
        ("acc/val", (0.9,), True),
    ]


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        pytest.param(["train acc 0.9", "val loss 0.3"], "val loss", id="validation before training"),
        pytest.param(["train acc 0.9", "acc 0.3"], "acc", id="anything before training"),
        pytest.param(["val loss 0.3", "val acc 0.9"], "val acc", id="a metric before a loss"),
        pytest.param(["val acc 0.9", "val f1 0.9", "val f1 0.8"], "val f1", id="the longest series"),
        pytest.param(["best val acc 0.9", "best val acc 0.91", "val acc 0.9"], "val acc", id="not the best of another"),
        pytest.param(["mixed precision: 16", "loss: 0.31"], "loss", id="no setting"),
        pytest.param(["alpha 0.3"], None, id="no direction"),
        pytest.param([], None, id="no output"),
    ],
)
def test_the_one_that_judges_is_chosen_by_the_original_alone(lines: list[str], name: str | None) -> None:
    series = metrics.chosen(printed(*lines))
    assert (series and series.name) == name


def test_a_loss_of_training_does_not_judge_where_losses_were_recorded() -> None:
    run = replace(printed("loss: 0.3", "train loss: 0.3"), losses=(0.3,))
    assert metrics.chosen(run) is None
    assert metrics.chosen(replace(run, lines=("train acc 0.3", "val loss 0.3"))) is not None


def test_tensorboard_has_more_digits_than_output() -> None:
    series = metrics.chosen(replace(printed("val acc 0.9"), scalars=(Scalar("val/acc", 0, 0.912),)))
    assert series is not None
    assert series.source == "TensorBoard"


@pytest.mark.parametrize(
    ("regex", "values"),
    [
        pytest.param("AUROC of test", (0.5, 0.75), id="the first number after it"),
        pytest.param(r"test set (\S+) %", (50.0,), id="its group"),
        pytest.param(r"nothing (\d+)|test set ([\d.]+)", (50.0,), id="the group that matched"),
    ],
)
def test_a_metric_by_regular_expression(regex: str, values: tuple[float, ...]) -> None:
    run = printed("AUROC of test 3: 0.5", "AUROC of test 4: 0.75", "on the test set 50.0 % are right")
    expected = (3.0, 4.0) if "AUROC" in regex else values
    series = metrics.asked(run, regex, higher=True)
    assert isinstance(series, metrics.Series)
    assert series.values == expected


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        pytest.param("(", "is no regular expression: missing )", id="no regular expression"),
        pytest.param("BLEU", "was not found in the output of the original script.", id="never printed"),
        pytest.param(
            r"acc (\w+)", "was found in 'acc high', but its group is 'high', which is no number.", id="a word"
        ),
        pytest.param("high", "was found in 'acc high', but no number follows it.", id="nothing after it"),
        pytest.param("figure", "is better, its name does not say: --higher or --lower does.", id="no direction"),
    ],
)
def test_why_there_is_no_such_metric(regex: str, message: str) -> None:
    problem = metrics.asked(printed("acc high", "figure 3.2"), regex)
    assert isinstance(problem, str)
    assert message in problem


@pytest.mark.parametrize(("name", "higher"), [("acc", True), ("test loss", False)])
def test_the_match_says_what_is_better(name: str, higher: bool) -> None:  # noqa: FBT001
    series = metrics.asked(printed(f"{name} = 0.5"), name)
    assert isinstance(series, metrics.Series)
    assert series.higher is higher


@pytest.mark.parametrize("regex", ["(", "[", "*", "(?P<a>x)(?P<a>y)", "a{99999999999999999999}", "(" * 10000])
def test_a_bad_pattern_is_one_message(regex: str) -> None:
    message = metrics.check_pattern(regex)
    assert message is not None
    assert "is no regular expression" in message


def test_a_good_pattern_is_no_message() -> None:
    assert metrics.check_pattern(r"acc: ([\d.]+)") is None


@pytest.mark.parametrize(
    ("after", "name"),
    [
        pytest.param(["val acc 0.9", "loss nan"], None, id="the same values"),
        pytest.param(["val acc 0.91", "loss nan"], "val acc", id="another value"),
        pytest.param(["loss nan"], "val acc", id="none"),
        pytest.param(["val acc 0.9", "loss nan", "loss nan"], "loss", id="one more"),
        pytest.param(["val acc 0.9", "loss nan", "alpha 3", "epoch took 3.2 s"], None, id="what is no metric"),
    ],
)
def test_metrics_that_differ(after: list[str], name: str | None) -> None:
    assert metrics.differing(printed("val acc 0.9", "loss nan"), printed(*after)) == (() if name is None else (name,))


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60) | st.from_regex(r"[ a-z]{0,9}[0-9.,/:e-]{1,12}[ a-z%:|]{0,9}[0-9.,/:e-]{1,12}"))
def test_no_output_is_too_odd(line: str) -> None:
    for series in metrics.of_run(printed(line)):
        assert series.name
        assert all(isinstance(value, float) for value in series.values)


def test_a_fraction_of_any_size_is_a_number() -> None:
    assert math.isinf(metrics.of_run(printed(f"correct {'9' * 400}/3"))[0].final)


@settings(max_examples=50, deadline=None)
@given(st.floats(min_value=-1e6, max_value=1e6), st.integers(0, 999), st.sampled_from(["val loss", "Acc@1", "F1"]))
def test_what_is_printed_is_read(value: float, epoch: int, name: str) -> None:
    assert found(f"Epoch [{epoch}/1000] {name}: {value:.6f}") == [(name, float(f"{value:.6f}"), name != "val loss")]


def test_the_same_metric_is_found_in_another_wording() -> None:
    series = metrics.chosen(printed("Epoch 3: val acc 0.9"))
    assert series is not None
    assert getattr(metrics.same_in(printed("[amp] val acc 0.8"), series), "values", None) == (0.8,)


@pytest.mark.parametrize(
    "line",
    [
        "EM {}",
        "mAP@50: {}",
        "Exact match: {}",
        "AP {}",
        "hit@10 = {}",
        "R@1 {}",
        "result {}",
        "Jaccard index {}",
        "{} correct of 100",
        "Got {} / 100 correct",
        "sharpe {}",
        "val_metric: {}",
        "perf={}",
        "Validation: {}",
        "Win rate: {}",
        "F-measure {}",
        "mean IU {}",
        "success {}",
    ],
)
def test_figures_of_any_name_are_compared(line: str) -> None:
    assert len(metrics.differing(printed(line.format(71)), printed(line.format(3)))) == 1
    assert len(metrics.differing(printed(line.format(71)), printed())) == 1


@pytest.mark.parametrize("line", ["took {}", "wall clock: {}", "Energy: {} J", "pid {}", "throughput {}", "epoch {}"])
def test_times_and_settings_are_not_compared(line: str) -> None:
    assert metrics.differing(printed(line.format(71)), printed(line.format(3))) == ()


@pytest.mark.parametrize(
    "line",
    [
        "[2026-01-02 10:00:00] train.py:{} INFO: EM 71",
        "I0102 10:00:00.123456 4711 train.py:{}] EM 71",
        "INFO - train:{} - EM 71",
        'File "train.py", line {}, in main: EM 71',
    ],
)
def test_lines_of_source_are_not_compared(line: str) -> None:
    assert metrics.differing(printed(line.format(12)), printed(line.format(14))) == ()
    assert len(metrics.differing(printed(line.format(12)), printed(line.format(12).replace("71", "3")))) == 1


def test_the_name_of_the_script_is_no_figure() -> None:
    assert metrics.differing(printed("Running a.py 3: acc 0.9"), printed("Running b.py 3: acc 0.9")) == ()


def test_source_that_a_warning_shows_is_no_figure() -> None:
    lines = ("a.py:3: FutureWarning: old", "  scaler = GradScaler(init_scale=2)", "  acc 0.9")
    assert [series.name for series in metrics.of_run(printed(*lines))] == ["acc"]
