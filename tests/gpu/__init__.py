"""What is to be measured on a GPU when one is at hand, stage by stage: ``python -m tests.gpu --help``.

``prepare`` writes the scripts under test where libcst is; ``run`` carries out a stage where a GPU is, without libcst;
``report`` makes tables, plots and README's figures from what the stages left behind.
"""
