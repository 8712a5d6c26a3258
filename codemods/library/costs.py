"""What rules cost, and from which size of a training they gain: figures that were measured, with where that was.

All are of an NVIDIA H100 with torch 2.11: ``fixtures/results/h100-torch2.11``, the file of stage 4 unless said. One
multiplication with addition counts as two operations, and a training iteration as three forward passes.
"""

from __future__ import annotations

START_OF_COMPILED = 11.0
"""Seconds before compiled code runs for the first time, at the least.

Fact ``compile-warm-up``: 7.4 s to import Inductor and 3.9 s to compile three linear layers. It was 12.7 s for two
convolutions, and 90 s in all for a ResNet-18 that also evaluates and has a smaller last batch.
"""
OPERATIONS_OF_SMALL = 10**10
"""Operations of an iteration up to which the host's launches take longer than the device's computations.

Fact ``compile-warm-up``: with 3 billion operations (three linear layers, 256 samples) a step took 1.0 ms and compiled
1.6 ms; with 9 billion (two convolutions, 128 images) 2.4 and 3.1 ms; with 21 billion (a block of a transformer, 4,096
tokens) 3.5 and 3.1 ms. Fact ``convolution-times``: with 230 billion, in convolutions of 128 channels, a step took
3.6 ms and 4.1 ms in 16 bits.
"""
OPERATIONS_A_SECOND = 6e12
"""How many of them a network computes without changes.

Fact ``compile-warm-up``: 21 billion in 3.5 ms. Matrix products of 8,192 rows reach 51e12 in 32 bits (fact
``float32-precision``): networks do not, and GPUs that are older do not either.
"""
SAVED_BY_COMPILING = 0.3
"""The part of an iteration that compiled code saves at most: 1.4x in the mean over PyTorch's own benchmarks (A100).

Fact ``compile-warm-up``: 0.13 for the block of a transformer.
"""
FEW_ITERATIONS = 30
"""Iterations that compiling does not pay for, whatever the model: each would have to save a third of a second.

Fact ``compile-warm-up``: see ``START_OF_COMPILED``.
"""
NARROW = 64
"""Width of layers up to which reading and casting their inputs takes as long as multiplying them.

With 64 columns there are 16 operations for each byte that is read in 32 bits. That is what the device computes in the
time: 51e12 operations a second (fact ``float32-precision``) and 3.35e12 bytes (its data sheet).
"""
FEW_FOR_A_PIXEL = 100_000
"""Multiplications of narrow convolutions for each pixel up to which 16 bits are not taken to gain, whatever the images.

Fact ``convolution-times``: six times as many, in convolutions of 128 channels on 65,536 pixels, took 3.6 ms and 4.1 ms
in 16 bits.
"""
NARROW_RECURRENT = 128
"""Width of recurrent layers up to which 16 bits gain nothing: their steps wait for each other, whatever the format.

Stage 2, ``text_lstm``: an iteration of the rewritten script took 1.08 times as long, in one round.
"""
FEW_TENSORS = 6
"""Tensors of parameters below which a fused step was not seen to gain.

Fact ``optimizer-forms``: with 6 tensors a step of Adam took 2.8 ms and fused 1.2 ms, with 60 of a ResNet 0.83 and
0.35 ms, with 400 small ones 4.0 and 1.3 ms; fewer were not measured.
"""
FEW_OF_PLAIN_STEPS = 32
"""Tensors of parameters below which a fused step of SGD without momentum was not seen to gain on a CPU.

docs/measured.md, ``fused-cpu``: 0.7 times as fast with 2 tensors, 1.0 with 6, 1.9 with 32.
"""
FEW_BATCHES = 10
"""Batches in all that are not worth the start of workers.

Fact ``worker-start``: 0.07 s for four workers that are forked, 4.3 s for those that are not.
"""
MOST_OBSERVED = 376
"""Numbers that an environment of gym shows at once, where they are a vector: ``Humanoid-v4``.

No environment that comes with Gymnasium 1.0 shows more.
"""
MOST_STATES = 500
"""States of an environment of gym that are counted: ``Taxi-v3``, the most of those that come with it."""
MOST_ACTIONS = 18
"""Actions of an environment of gym, or numbers that move it: Atari's full set; 17 numbers move ``Humanoid-v4``."""
MOST_STEPS = 2_048
"""Steps of environments of gym that one call in the code passes through a network in an iteration, all rounds of its
loop together, where these are not known: an estimate from above.

A rollout of PPO in MuJoCo (Schulman et al. 2017, table 3).
"""
MOST_STORED = 1_024
"""Steps that are drawn at once from what was stored, ``memory.sample(n)``: an estimate from above; mostly 32 to 256."""
MOST_ROWS = 100_000
"""Samples or tokens of one forward pass, where these are not known: an estimate from above, not measured."""
MOST_OF_SAMPLE = 16
"""Rows of a sample where the size of a batch is known, and no layer mixes rows: an estimate from above; mostly one.

A recommender's linear layers are given one row for each user and item.
"""
